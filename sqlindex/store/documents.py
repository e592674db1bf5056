"""Document versions: staged by a build, born and died by publishing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlindex.model.documents import FileStat
from sqlindex.store.checksum import check8_of_values
from sqlindex.store.driver import Connection, Row
from sqlindex.store.links import put_names
from sqlindex.store.parses import plain_recipe
from sqlindex.store.scope import Scope, scope_conditions
from sqlindex.store.sources import StatRow


@dataclass(frozen=True, slots=True)
class VersionRow:
    """What a version says of its document (see migrations/0001)."""

    document_id: str
    parse_id: int
    chunks: int
    raw_digest: bytes
    byte_size: int
    encoding: str
    path: str
    type_name: str
    title: str
    date: str | None
    tags: tuple[str, ...]
    uri: str | None
    metadata: Mapping[str, object]
    modified_ns: int | None


class LiveVersion(NamedTuple):
    """A live or staged version as change detection needs it."""

    version_id: int
    document_id: str
    parse_id: int
    recipe: str
    raw_digest: bytes
    encoding: str
    row_check8: bytes


class KnownDocument(NamedTuple):
    """A document as change detection needs it, and how its file was last read."""

    version: LiveVersion
    stat: StatRow | None


# A staged version of the same build and document gives way.
_INSERT = """
    INSERT OR REPLACE INTO document_version(source_id, document_id, parse_id, chunks, build_id, raw_digest, byte_size,
      encoding, path, type_name, title, date, tags, uri, metadata, modified_ns, check8)
    VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_KNOWN = """
    SELECT d.version_id, d.document_id, d.parse_id, p.recipe, d.raw_digest, d.encoding, d.check8,
      f.byte_size, f.mtime_ns, f.ctime_ns, f.inode, f.device, f.read_ns, f.raw_digest
    FROM document_version d JOIN parse p USING(parse_id)
      LEFT JOIN file_stat f ON f.source_id = d.source_id AND f.document_id = d.document_id
    WHERE d.source_id = ? AND d.document_id = ? AND d.born IS NOT NULL AND d.died IS NULL
"""
_STAGED = """
    SELECT d.version_id, d.document_id, d.parse_id, p.recipe, d.raw_digest, d.encoding, d.check8,
      f.byte_size, f.mtime_ns, f.ctime_ns, f.inode, f.device, f.read_ns, f.raw_digest
    FROM document_version d JOIN parse p USING(parse_id)
      LEFT JOIN file_stat f ON f.source_id = d.source_id AND f.document_id = d.document_id
    WHERE d.build_id = ? AND d.source_id = ? AND d.document_id = ? AND d.born IS NULL
"""
_ALL_STAGED = """
    SELECT version_id FROM document_version WHERE build_id = ? AND born IS NULL ORDER BY version_id
"""
_LIVE = """
    SELECT d.version_id, d.document_id, d.parse_id, p.recipe, d.raw_digest, d.encoding, d.check8
    FROM document_version d JOIN parse p USING(parse_id)
    WHERE d.source_id = :source_id AND d.born IS NOT NULL AND d.died IS NULL
"""
_COUNT_LIVE = """
    SELECT count(*), coalesce(sum(chunks), 0) FROM document_version
    WHERE source_id = :source_id AND born IS NOT NULL AND died IS NULL
"""
_REMOVE = "INSERT OR IGNORE INTO build_removes(build_id, version_id) VALUES(?, ?)"
_ALL = """
    SELECT version_id, source_id, document_id, chunks, hex(raw_digest), byte_size, encoding, path, type_name,
      title, date, tags, uri, metadata, modified_ns, check8
    FROM document_version
"""
_ONE = f"{_ALL} WHERE version_id = ?"


def known_document(
    connection: Connection, source_id: int, document_id: str
) -> KnownDocument | None:
    """What the head and the last reading say of one document, or None if the head has none."""
    return _known(connection.execute(_KNOWN, (source_id, document_id)).fetchone())


def staged_document(
    connection: Connection, build_id: int, source_id: int, document_id: str
) -> KnownDocument | None:
    """What a build has staged of one document, and how its file was last read, or None."""
    which = (build_id, source_id, document_id)
    return _known(connection.execute(_STAGED, which).fetchone())


def staged_versions(connection: Connection, build_id: int) -> Iterator[int]:
    """Ids of the versions that a build has staged, ascending."""
    return (row[0] for row in connection.execute(_ALL_STAGED, (build_id,)))


def _known(row: Row | None) -> KnownDocument | None:
    if row is None:
        return None
    stat = None if row[7] is None else StatRow(FileStat(*row[7:12]), row[12], row[13])
    version_id, document_id, parse_id, recipe, *rest = row[:7]
    return KnownDocument(
        LiveVersion(version_id, document_id, parse_id, plain_recipe(recipe), *rest), stat
    )


def live_version(connection: Connection, source_id: int, document_id: str) -> LiveVersion | None:
    """The head's version of one document, or None."""
    known = known_document(connection, source_id, document_id)
    return None if known is None else known.version


def live_in_scope(connection: Connection, source_id: int, scope: Scope) -> Iterator[LiveVersion]:
    """The head's versions of a source within a scope, each once."""
    for condition, parameters in scope_conditions(scope, "d.document_id"):
        rows = connection.execute(_LIVE + condition, {"source_id": source_id, **parameters})
        yield from (LiveVersion(*row) for row in rows)


def count_in_scope(connection: Connection, source_id: int, scope: Scope) -> tuple[int, int]:
    """How many documents, and how many chunks, the head has of a source within a scope."""
    documents = chunks = 0
    for condition, parameters in scope_conditions(scope, "document_id"):
        row = connection.execute(
            _COUNT_LIVE + condition, {"source_id": source_id, **parameters}
        ).fetchone()
        documents, chunks = documents + row[0], chunks + row[1]
    return documents, chunks


def row_check8(source_id: int, version: VersionRow) -> bytes:
    """Checksum over what a version says; equal for versions that say the same."""
    return _check8(_values(source_id, version))


def stage_versions(
    connection: Connection, build_id: int, source_id: int, versions: Sequence[VersionRow]
) -> None:
    """Stage new versions of documents under a build; invisible until it is published.

    A version that the build has staged of the same document before is replaced.
    """
    rows = []
    for version in versions:
        values = _values(source_id, version)
        document_id, chunks, _, *rest = values[1:]
        rows.append(
            (
                source_id,
                document_id,
                version.parse_id,
                chunks,
                build_id,
                version.raw_digest,
                *rest,
                _check8(values),
            )
        )
    connection.executemany(_INSERT, rows)
    put_names(connection, build_id, source_id, [version.document_id for version in versions])


def stage_removals(connection: Connection, build_id: int, version_ids: Iterable[int]) -> None:
    """Let live versions end when the build is published."""
    connection.executemany(_REMOVE, ((build_id, version_id) for version_id in version_ids))


def damaged_versions(connection: Connection) -> Iterator[tuple[int, str]]:
    """(version id, what it says) of versions whose row no longer gives its checksum."""
    for version_id, *values, check8 in connection.execute(_ALL):
        if _check8(values) != check8:
            yield version_id, f"version {version_id} ({values[1]!r}) is damaged"


def is_whole_version(connection: Connection, version_id: int) -> bool:
    """Whether the row of a stored version gives its checksum."""
    _, *values, check8 = connection.execute(_ONE, (version_id,)).fetchone()
    return bool(_check8(values) == check8)


def _values(source_id: int, version: VersionRow) -> Row:
    return (
        source_id,
        version.document_id,
        version.chunks,
        version.raw_digest.hex().upper(),
        version.byte_size,
        version.encoding,
        version.path,
        version.type_name,
        version.title,
        version.date,
        json.dumps(version.tags, ensure_ascii=False),
        version.uri,
        json.dumps(dict(version.metadata), ensure_ascii=False, sort_keys=True),
        version.modified_ns,
    )


def _check8(values: Sequence[object]) -> bytes:
    return check8_of_values(values)
