"""Builds that a gate keeps from being published: all that publishing one needs, in the file.

A gated build is an unfinished build with a record: what was measured, and what its refresh would
have noted in the publishing transaction. One waits at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import NamedTuple

from sqlindex.errors import CorruptIndexError
from sqlindex.model.documents import Refusal
from sqlindex.model.gate import GateResult
from sqlindex.model.requests import MODES
from sqlindex.store.checksum import check8
from sqlindex.store.driver import Connection
from sqlindex.store.generations import ChangeCounts
from sqlindex.store.sources import put_mount_points
from sqlindex.store.writer import Writer

_STEP_ROWS = 2_000
"""Refusals noted in one transaction."""

_GATED = """
    SELECT build_id, base_generation, started_at, gated,
      (SELECT count(*) FROM document_version d WHERE d.build_id = b.build_id AND d.born IS NULL)
    FROM build b WHERE gated IS NOT NULL ORDER BY build_id DESC
"""
_GATED_IDS = "SELECT build_id FROM build WHERE gated IS NOT NULL ORDER BY build_id"
_PUT = "UPDATE build SET gated = :gated WHERE build_id = :build_id"
_NOTE = "INSERT OR REPLACE INTO gated_refusal VALUES(?, ?, ?, ?, ?, ?, ?)"
_DROP_NOTES = "DELETE FROM gated_refusal WHERE build_id = :build_id"
# What the refresh saw, as `refused_document` says it.
_READMIT = """
    DELETE FROM refused_document WHERE (source_id, document_id) IN (
      SELECT source_id, document_id FROM gated_refusal WHERE build_id = :build_id AND reason IS NULL)
"""
_REFUSE = """
    INSERT OR REPLACE INTO refused_document(source_id, document_id, reason, detail, hint, is_kept)
    SELECT source_id, document_id, reason, detail, hint, is_kept FROM gated_refusal
    WHERE build_id = :build_id AND reason IS NOT NULL
"""
# Of the documents that have just ended without a successor.
_FORGET_STATS = """
    DELETE FROM file_stat WHERE (source_id, document_id) IN (
      SELECT d.source_id, d.document_id FROM build_removes r JOIN document_version d USING(version_id)
      WHERE r.build_id = :build_id AND NOT EXISTS (
        SELECT 1 FROM document_version n WHERE n.source_id = d.source_id AND n.document_id = d.document_id
          AND n.born IS NOT NULL AND n.died IS NULL))
"""


@dataclass(frozen=True, slots=True)
class GateRecord:
    """What is kept of a gated build.

    Attributes:
        result: what was measured.
        missed: the conditions that were missed, in words.
        at: when, UTC, ISO 8601.
        cause: of the generation to be.
        space_id: whose vectors it is searched with, or None.
        counts: what it changes.
        mount_points: by source id, where other file systems began; only those that changed.
    """

    result: GateResult
    missed: tuple[str, ...]
    at: str
    cause: str
    space_id: int | None
    counts: ChangeCounts
    mount_points: Mapping[int, Sequence[str]]

    def to_json(self) -> str:
        """As it is stored: with a checksum over all else."""
        fields = asdict(self)
        # Once through JSON, so that the keys of mappings are texts as they are when it is read.
        fields = json.loads(json.dumps(fields))
        return json.dumps({**fields, "check8": _check8(fields)}, ensure_ascii=False, sort_keys=True)


class GatedBuild(NamedTuple):
    """A gated build; `documents` is how many it has staged."""

    build_id: int
    base_generation: int
    started_at: str
    documents: int
    record: GateRecord


def gated_build(connection: Connection) -> GatedBuild | None:
    """The build that waits behind its gate, or None.

    Raises:
        CorruptIndexError: its record cannot be read.
    """
    row = connection.execute(_GATED).fetchone()
    if row is None:
        return None
    build_id, base, started_at, stored, documents = row
    return GatedBuild(build_id, base, started_at, documents, read_record(stored, build_id))


def gated_builds(connection: Connection) -> list[int]:
    """Ids of the builds that wait behind their gate: one, or none."""
    return [row[0] for row in connection.execute(_GATED_IDS)]


def read_record(stored: str, build_id: int) -> GateRecord:
    """The record of a gated build.

    Raises:
        CorruptIndexError: it is damaged.
    """
    try:
        fields = json.loads(stored)
        if fields.pop("check8") != _check8(fields):
            raise ValueError("checksum")
        result = GateResult(**fields["result"])
        record = GateRecord(
            result=result,
            missed=tuple(map(str, fields["missed"])),
            at=str(fields["at"]),
            cause=str(fields["cause"]),
            space_id=None if fields["space_id"] is None else int(fields["space_id"]),
            counts=ChangeCounts(**{name: int(n) for name, n in fields["counts"].items()}),
            mount_points={
                int(source_id): tuple(map(str, points))
                for source_id, points in fields["mount_points"].items()
            },
        )
        {name: float(value) for name, value in result.values.items()}
        if result.mode not in MODES:
            raise ValueError(result.mode)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        raise CorruptIndexError(
            f"what a gate measured of build {build_id} is damaged",
            hint="refresh again, which goes on with what is staged; or 'sqlindex discard'",
        ) from exc
    return record


def _check8(fields: Mapping[str, object]) -> str:
    return check8(json.dumps(fields, sort_keys=True).encode()).hex()


def unreadable_records(connection: Connection) -> list[int]:
    """Gated builds whose record cannot be read."""
    found = []
    for build_id, _, _, stored, _ in connection.execute(_GATED).fetchall():
        try:
            read_record(stored, build_id)
            stored.encode()
        except (CorruptIndexError, UnicodeEncodeError):
            found.append(build_id)
    return found


def note_refusals(
    writer: Writer,
    build_id: int,
    news: Iterable[tuple[int, Refusal, bool]],
    readmitted: Iterable[tuple[int, str]],
) -> None:
    """Keep what a refresh would have noted of refused documents, in small transactions.

    Args:
        news: (source id, refusal, is_kept) of refusals that the index does not know yet.
        readmitted: (source id, document id) of refusals to forget.
    """
    for batch in _batches(_rows(build_id, news, readmitted)):
        with writer.transaction() as connection:
            connection.executemany(_NOTE, batch)
        writer.bound_log()


def _rows(
    build_id: int,
    news: Iterable[tuple[int, Refusal, bool]],
    readmitted: Iterable[tuple[int, str]],
) -> Iterator[tuple[int, int, str, str | None, str, str, int]]:
    for source_id, document_id in readmitted:
        yield (build_id, source_id, document_id, None, "", "", 0)
    for source_id, r, is_kept in news:
        yield (build_id, source_id, r.document_id, r.reason.value, r.detail, r.hint, int(is_kept))


def _batches(
    rows: Iterator[tuple[int, int, str, str | None, str, str, int]],
) -> Iterator[list[tuple[int, int, str, str | None, str, str, int]]]:
    while batch := list(islice(rows, _STEP_ROWS)):
        yield batch


def put_record(connection: Connection, build_id: int, record: GateRecord) -> None:
    """Let a build wait behind its gate."""
    connection.execute(_PUT, {"build_id": build_id, "gated": record.to_json()})


def forget_gate(connection: Connection, build_id: int) -> None:
    """Make a gated build an unfinished one again."""
    connection.execute(_PUT, {"build_id": build_id, "gated": None})
    connection.execute(_DROP_NOTES, {"build_id": build_id})


def apply_notes(connection: Connection, build: GatedBuild) -> None:
    """Note, in the publishing transaction, what the build's refresh had seen."""
    for statement in (_FORGET_STATS, _READMIT, _REFUSE, _DROP_NOTES):
        connection.execute(statement, {"build_id": build.build_id})
    for source_id, points in build.record.mount_points.items():
        put_mount_points(connection, source_id, points)
