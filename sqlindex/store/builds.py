"""Builds: what a refresh stages under an id of its own until it is published.

Staged rows are invisible to every search and to other builds. An unfinished build stays in the file
when its process ends, and a later refresh of the same scope goes on with it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlindex.errors import CorruptIndexError
from sqlindex.store.driver import Connection, Value
from sqlindex.store.head import Head, read_head
from sqlindex.store.lexical import clear_table
from sqlindex.store.writer import Writer

NO_EMBEDDER = "none"
"""What the plan of a build without vectors says of its embedder."""

_STEP_VERSIONS = 500
"""Staged versions deleted in one transaction."""

_BEGIN = """
    INSERT INTO build(base_generation, started_at, scope, plan) VALUES(:base, :now, :scope, :plan)
"""
_UNFINISHED = """
    SELECT build_id, base_generation, started_at, scope, plan,
      (SELECT count(*) FROM document_version d WHERE d.build_id = b.build_id AND d.born IS NULL), gated IS NOT NULL
    FROM build b ORDER BY build_id
"""
_GO_ON = """
    UPDATE build SET base_generation = :base, plan = :plan, gated = NULL WHERE build_id = :build_id
"""
_LEXICAL = "SELECT lexical FROM build WHERE build_id = :build_id"
_DROP_STAGED = """
    DELETE FROM document_version WHERE version_id IN (
      SELECT version_id FROM document_version WHERE build_id = :build_id AND born IS NULL LIMIT :step)
"""
_DROP_VERSION = "DELETE FROM document_version WHERE version_id = ? AND born IS NULL"
_DROP_SOME_NOTES = """
    DELETE FROM gated_refusal WHERE build_id = :build_id AND (source_id, document_id) IN (
      SELECT source_id, document_id FROM gated_refusal WHERE build_id = :build_id LIMIT :step)
"""
_DROP_REMOVES = "DELETE FROM build_removes WHERE build_id = :build_id"
_DROP_NOTES = "DELETE FROM gated_refusal WHERE build_id = :build_id"
_END = "DELETE FROM build WHERE build_id = :build_id"


class UnfinishedBuild(NamedTuple):
    """A build that was begun and not published.

    Attributes:
        scope: what it covers, '' if only its own process can go on with it.
        plan: what shapes it, by name, as it was when the build began.
        documents: how many it has staged.
        is_gated: whether a gate keeps it from being published; see `store.gated`.
    """

    build_id: int
    base_generation: int
    started_at: str
    scope: str
    plan: Mapping[str, str]
    documents: int
    is_gated: bool = False


def begin_build(connection: Connection, scope: str, plan: Mapping[str, str]) -> tuple[int, Head]:
    """Start a build on the present head: (build id, head)."""
    head = read_head(connection)
    parameters: dict[str, Value] = {
        "base": head.generation,
        "now": utc_now(),
        "scope": scope,
        "plan": _stored(plan),
    }
    build_id = connection.execute(_BEGIN, parameters).lastrowid
    assert build_id is not None
    return build_id, head


def unfinished_builds(connection: Connection) -> list[UnfinishedBuild]:
    """The builds that are not published, in the order in which they were begun.

    Raises:
        CorruptIndexError: the row of one cannot be read.
    """
    found = []
    for build_id, base, started_at, scope, plan, documents, gated in connection.execute(
        _UNFINISHED
    ):
        found.append(
            UnfinishedBuild(
                build_id,
                base,
                started_at,
                scope,
                _read_plan(plan, build_id),
                documents,
                bool(gated),
            )
        )
    return found


def _read_plan(text: str, build_id: int) -> dict[str, str]:
    try:
        plan = json.loads(text)
    except (ValueError, RecursionError):
        plan = None
    if not isinstance(plan, dict) or not all(isinstance(value, str) for value in plan.values()):
        raise CorruptIndexError(
            f"the plan of build {build_id} is damaged", hint="run 'sqlindex repair'"
        )
    return plan


def unreadable_builds(connection: Connection) -> list[int]:
    """Unfinished builds whose plan cannot be read."""
    found = []
    for build_id, _, _, scope, plan, *_ in connection.execute(_UNFINISHED):
        try:
            _read_plan(plan, build_id)
            f"{scope}{plan}".encode()
        except (CorruptIndexError, TypeError, UnicodeEncodeError):
            found.append(build_id)
    return found


def _stored(plan: Mapping[str, str]) -> str:
    return json.dumps(dict(plan), ensure_ascii=False, sort_keys=True)


def go_on_with(connection: Connection, build_id: int, plan: Mapping[str, str]) -> Head:
    """Take up an unfinished build on the present head, which is returned, with the plan of now.

    What it removes is found anew; its staged versions are compared with the head again. A gate that
    held it holds it no longer.
    """
    head = read_head(connection)
    parameters: dict[str, Value] = {
        "build_id": build_id,
        "base": head.generation,
        "plan": _stored(plan),
    }
    connection.execute(_GO_ON, parameters)
    for statement in (_DROP_REMOVES, _DROP_NOTES):
        connection.execute(statement, {"build_id": build_id})
    return head


def drop_versions(writer: Writer, version_ids: Iterable[int]) -> None:
    """Delete staged versions, in small transactions."""
    ids = list(version_ids)
    for at in range(0, len(ids), _STEP_VERSIONS):
        with writer.transaction() as connection:
            connection.executemany(_DROP_VERSION, [(i,) for i in ids[at : at + _STEP_VERSIONS]])
        writer.bound_log()


def drop_build(writer: Writer, build_id: int) -> None:
    """End a build without publishing it, in small transactions.

    Its texts, chunks and vectors stay for reuse until the next collection finds them unused.
    """
    part = {"build_id": build_id, "step": _STEP_VERSIONS}
    for statement in (_DROP_STAGED, _DROP_SOME_NOTES):
        dropped = _STEP_VERSIONS
        while dropped == _STEP_VERSIONS:
            with writer.transaction() as connection:
                dropped = connection.execute(statement, part).rowcount
            writer.bound_log()
    with writer.transaction() as connection:
        lexical = connection.execute(_LEXICAL, part).fetchone()
        if lexical is not None and lexical[0] not in (None, read_head(connection).lexical):
            clear_table(connection, lexical[0])
        end_build(connection, build_id)


def end_build(connection: Connection, build_id: int) -> None:
    """Forget a build whose versions are published or dropped, and whose notes are applied or dropped."""
    for statement in (_DROP_REMOVES, _END):
        connection.execute(statement, {"build_id": build_id})


def utc_now() -> str:
    """The clock as it is stored: UTC, ISO 8601, seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
