"""Registered sources, file stats and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlindex.encodable import is_encodable
from sqlindex.errors import CorruptIndexError, DuplicateError, UnknownSourceError, UsageError
from sqlindex.model.documents import FileStat, Refusal, RefusalReason
from sqlindex.store.driver import Connection, Row
from sqlindex.store.scope import Scope, scope_conditions
from sqlindex.store.stored_json import read_fields, read_texts


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A registered source: `kind` is `folder` or `table` (both with `root`), or `host`.

    `mount_points` are those of the last complete listing, as `ports.OnFileSystem` tells them.
    """

    source_id: int
    name: str
    kind: str
    root: str | None
    options: Mapping[str, object] = field(default_factory=dict)
    mount_points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StatRow:
    """What was seen when a file was last read."""

    stat: FileStat
    read_ns: int
    raw_digest: bytes


_LIST = """
    SELECT source_id, name, kind, root, options, mount_points FROM source WHERE is_removed = 0 ORDER BY name
"""
_ADD = """
    INSERT INTO source(name, kind, root, options) VALUES(:name, :kind, :root, :options)
"""
_MOVE = "UPDATE source SET root = :root, mount_points = '[]' WHERE source_id = :source_id"
_PUT_MOUNTS = "UPDATE source SET mount_points = :mount_points WHERE source_id = :source_id"
_REMOVE = "UPDATE source SET is_removed = 1 WHERE source_id = :source_id"
_FORGET_STATS = "DELETE FROM file_stat WHERE source_id = :source_id"
_FORGET_REFUSALS = "DELETE FROM refused_document WHERE source_id = :source_id"
_PUT_STAT = "INSERT OR REPLACE INTO file_stat VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DROP_STAT = "DELETE FROM file_stat WHERE source_id = ? AND document_id = ?"
_REFUSALS = """
    SELECT document_id, reason, detail, hint, is_kept FROM refused_document
    WHERE source_id = :source_id ORDER BY document_id
"""
_REFUSAL = """
    SELECT document_id, reason, detail, hint, is_kept FROM refused_document
    WHERE source_id = ? AND document_id = ?
"""
_REFUSED_IDS = "SELECT document_id FROM refused_document WHERE source_id = :source_id"
# The condition is one of `scope_conditions`: SQL of ours, its values are parameters.
_IS_KNOWN = """
    SELECT EXISTS (SELECT 1 FROM document_version
                   WHERE source_id = :source_id AND born IS NOT NULL AND died IS NULL{condition})
      OR EXISTS (SELECT 1 FROM refused_document WHERE source_id = :source_id{condition})
"""
_COUNT_REFUSALS = """
    SELECT reason, count(*), sum(is_kept) FROM refused_document WHERE source_id = ?
    GROUP BY reason ORDER BY reason
"""
_PUT_REFUSAL = "INSERT OR REPLACE INTO refused_document VALUES(?, ?, ?, ?, ?, ?)"
_DROP_REFUSAL = "DELETE FROM refused_document WHERE source_id = ? AND document_id = ?"


def list_sources(connection: Connection) -> list[SourceRow]:
    """The registered sources by name."""
    return [
        SourceRow(
            source_id,
            name,
            kind,
            root,
            read_fields(options, f"source {name!r}"),
            read_texts(mount_points, f"source {name!r}"),
        )
        for source_id, name, kind, root, options, mount_points in connection.execute(_LIST)
    ]


def find_source(connection: Connection, name: str) -> SourceRow:
    """The source of that name.

    Raises:
        UnknownSourceError: none; the message lists the names there are.
    """
    sources = list_sources(connection)
    for source in sources:
        if source.name == name:
            return source
    known = ", ".join(source.name for source in sources) or "none"
    raise UnknownSourceError(f"no source named {name!r}", hint=f"registered sources: {known}")


def add_source(
    connection: Connection, name: str, kind: str, root: str | None, options: Mapping[str, object]
) -> SourceRow:
    """Register a source.

    Raises:
        DuplicateError: the name, the folder, or the same table of the same database with the same
            options, is registered already.
        UsageError: the name is empty or not encodable.
    """
    _require_name(name)
    registered = list_sources(connection)
    if kind == "folder" and root is not None:
        _require_free_root(registered, root)
    for known in registered:
        if kind == "table" and (known.kind, known.root, known.options) == (kind, root, options):
            raise DuplicateError(
                f"this table or query of {root} is registered already as source {known.name!r}",
                hint="one table is one source",
            )
    if any(known.name == name for known in registered):
        raise DuplicateError(
            f"a source named {name!r} is registered already",
            hint="choose another name (--name), or remove it first",
        )
    row = {
        "name": name,
        "kind": kind,
        "root": root,
        "options": json.dumps(dict(options), sort_keys=True),
    }
    connection.execute(_ADD, row)
    return find_source(connection, name)


def move_source(connection: Connection, source_id: int, root: str) -> None:
    """Let a folder's source have another root; its documents stay what they are.

    Raises:
        DuplicateError: the folder is registered already.
    """
    others = [row for row in list_sources(connection) if row.source_id != source_id]
    _require_free_root(others, root)
    connection.execute(_MOVE, {"source_id": source_id, "root": root})


def put_mount_points(connection: Connection, source_id: int, mount_points: Sequence[str]) -> None:
    """Remember where other file systems begin below a source's root."""
    stored = json.dumps(list(mount_points), ensure_ascii=False)
    connection.execute(_PUT_MOUNTS, {"source_id": source_id, "mount_points": stored})


def _require_free_root(registered: Iterable[SourceRow], root: str) -> None:
    for known in registered:
        if (known.kind, known.root) == ("folder", root):
            raise DuplicateError(
                f"the folder {root} is registered already as source {known.name!r}",
                hint="one folder is one source",
            )


def _require_name(name: object) -> None:
    if not isinstance(name, str) or not name or "\0" in name:
        raise UsageError(f"{name!r} is no name of a source", hint="a text that is not empty")
    if not is_encodable(name):
        raise UsageError(f"{name!r} is not encodable to UTF-8", hint="name the source otherwise")


def remove_source(connection: Connection, source_id: int) -> None:
    """Mark a source as removed and forget what was remembered of its files."""
    for statement in (_REMOVE, _FORGET_STATS, _FORGET_REFUSALS):
        connection.execute(statement, {"source_id": source_id})


def put_file_stats(
    connection: Connection, source_id: int, rows: Iterable[tuple[str, StatRow]]
) -> None:
    """Remember files as they were read.

    They say nothing of a generation: a stat counts only beside a live version with its digest.
    """
    connection.executemany(
        _PUT_STAT,
        [
            (
                source_id,
                document_id,
                row.stat.byte_size,
                row.stat.mtime_ns,
                row.stat.ctime_ns,
                row.stat.inode,
                row.stat.device,
                row.read_ns,
                row.raw_digest,
            )
            for document_id, row in rows
        ],
    )


def drop_file_stats(connection: Connection, ids: Iterable[tuple[int, str]]) -> None:
    """Forget files that are gone, given as (source id, document id)."""
    connection.executemany(_DROP_STAT, ids)


def refusals(connection: Connection, source_id: int) -> Iterator[tuple[Refusal, bool]]:
    """Refused documents of a source by id, each with whether an earlier version is kept."""
    rows = connection.execute(_REFUSALS, {"source_id": source_id})
    return ((_refusal(row), bool(row[4])) for row in rows)


def refusal_of(
    connection: Connection, source_id: int, document_id: str
) -> tuple[Refusal, bool] | None:
    """What is recorded of one refused document, and whether an earlier version is kept."""
    row = connection.execute(_REFUSAL, (source_id, document_id)).fetchone()
    return None if row is None else (_refusal(row), bool(row[4]))


def refused_ids_in_scope(connection: Connection, source_id: int, scope: Scope) -> Iterator[str]:
    """Ids of the recorded refusals of a source within a scope."""
    for condition, parameters in scope_conditions(scope, "document_id"):
        rows = connection.execute(_REFUSED_IDS + condition, {"source_id": source_id, **parameters})
        yield from (row[0] for row in rows)


def is_known(connection: Connection, source_id: int, document_id: str) -> bool:
    """Whether the index holds or refused a document of that id or below that folder."""
    for condition, parameters in scope_conditions((document_id,), "document_id"):
        sql = _IS_KNOWN.format(condition=condition)
        if connection.execute(sql, {"source_id": source_id, **parameters}).fetchone()[0]:
            return True
    return False


def count_refusals(connection: Connection, source_id: int) -> dict[RefusalReason, tuple[int, int]]:
    """By reason: how many documents are refused, and of how many an earlier version is kept."""
    rows = connection.execute(_COUNT_REFUSALS, (source_id,))
    return {_reason(reason, "of a count"): (count, kept) for reason, count, kept in rows}


def _refusal(row: Row) -> Refusal:
    document_id, reason, detail, hint, _ = row
    return Refusal(document_id, _reason(reason, document_id), detail, hint)


def _reason(stored: str, document_id: str) -> RefusalReason:
    try:
        return RefusalReason(stored)
    except ValueError as exc:
        raise CorruptIndexError(
            f"the refusal of document {document_id!r} has the unknown reason {stored!r}",
            hint="run 'sqlindex repair'",
        ) from exc


def put_refusals(connection: Connection, found: Iterable[tuple[int, Refusal, bool]]) -> None:
    """Record refused documents, given as (source id, refusal, is_kept), in place of what was
    recorded of the same ids."""
    connection.executemany(
        _PUT_REFUSAL,
        (
            (source_id, r.document_id, r.reason.value, r.detail, r.hint, int(is_kept))
            for source_id, r, is_kept in found
        ),
    )


def drop_refusals(connection: Connection, ids: Iterable[tuple[int, str]]) -> None:
    """Forget refusals of documents that are indexed or gone, given as (source id, document id)."""
    connection.executemany(_DROP_REFUSAL, ids)
