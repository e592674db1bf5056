"""Registered sources, file stats and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlindex.errors import CorruptIndexError, DuplicateError, UnknownSourceError, UsageError
from sqlindex.model.documents import FileStat, Refusal, RefusalReason
from sqlindex.store.driver import Connection
from sqlindex.store.stored_json import read_fields


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A registered source: `kind` is `folder` or `table` (both with `root`), or `host`."""

    source_id: int
    name: str
    kind: str
    root: str | None
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatRow:
    """What was seen when a file was last read."""

    stat: FileStat
    read_ns: int
    raw_digest: bytes


_LIST = "SELECT source_id, name, kind, root, options FROM source WHERE is_removed = 0 ORDER BY name"
_ADD = """
    INSERT INTO source(name, kind, root, options) VALUES(:name, :kind, :root, :options)
"""
_REMOVE = "UPDATE source SET is_removed = 1 WHERE source_id = :source_id"
_FORGET_STATS = "DELETE FROM file_stat WHERE source_id = :source_id"
_FORGET_REFUSALS = "DELETE FROM refused_document WHERE source_id = :source_id"
_STATS = """
    SELECT document_id, byte_size, mtime_ns, ctime_ns, inode, device, read_ns, raw_digest
    FROM file_stat WHERE source_id = :source_id
"""
_PUT_STAT = "INSERT OR REPLACE INTO file_stat VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DROP_STAT = "DELETE FROM file_stat WHERE source_id = ? AND document_id = ?"
_REFUSALS = """
    SELECT document_id, reason, detail, hint, is_kept FROM refused_document
    WHERE source_id = :source_id ORDER BY document_id
"""
_PUT_REFUSAL = "INSERT OR REPLACE INTO refused_document VALUES(?, ?, ?, ?, ?, ?)"
_DROP_REFUSAL = "DELETE FROM refused_document WHERE source_id = ? AND document_id = ?"


def list_sources(connection: Connection) -> list[SourceRow]:
    """The registered sources by name."""
    return [
        SourceRow(source_id, name, kind, root, read_fields(options, f"source {name!r}"))
        for source_id, name, kind, root, options in connection.execute(_LIST)
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
    for known in registered:
        if root is None or (known.kind, known.root) != (kind, root):
            continue
        if kind == "folder" or known.options == options:
            raise DuplicateError(
                f"the {kind} {root} is registered already as source {known.name!r}",
                hint=f"one {kind} is one source",
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


def _require_name(name: object) -> None:
    if not isinstance(name, str) or not name or "\0" in name:
        raise UsageError(f"{name!r} is no name of a source", hint="a text that is not empty")
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(
            f"{name!r} is not encodable to UTF-8", hint="name the source otherwise"
        ) from None


def remove_source(connection: Connection, source_id: int) -> None:
    """Mark a source as removed and forget what was remembered of its files."""
    for statement in (_REMOVE, _FORGET_STATS, _FORGET_REFUSALS):
        connection.execute(statement, {"source_id": source_id})


def file_stats(connection: Connection, source_id: int) -> dict[str, StatRow]:
    """What is remembered of the files of a source, by document id."""
    return {
        row[0]: StatRow(FileStat(*row[1:6]), row[6], row[7])
        for row in connection.execute(_STATS, {"source_id": source_id})
    }


def put_file_stats(
    connection: Connection, source_id: int, rows: Iterable[tuple[str, StatRow]]
) -> None:
    """Remember files as they were read."""
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


def drop_file_stats(connection: Connection, source_id: int, document_ids: Iterable[str]) -> None:
    """Forget files that are gone."""
    connection.executemany(_DROP_STAT, [(source_id, document_id) for document_id in document_ids])


def refusals(connection: Connection, source_id: int) -> dict[Refusal, bool]:
    """Refused documents of a source, each with whether an earlier version is kept."""
    return {
        Refusal(document_id, _reason(reason, document_id), detail, hint): bool(is_kept)
        for document_id, reason, detail, hint, is_kept in connection.execute(
            _REFUSALS, {"source_id": source_id}
        )
    }


def _reason(stored: str, document_id: str) -> RefusalReason:
    try:
        return RefusalReason(stored)
    except ValueError as exc:
        raise CorruptIndexError(
            f"the refusal of document {document_id!r} has the unknown reason {stored!r}",
            hint="run 'sqlindex check'",
        ) from exc


def replace_refusals(connection: Connection, source_id: int, found: Mapping[Refusal, bool]) -> None:
    """Make `found` the refused documents of a source, writing only what differs."""
    known = refusals(connection, source_id)
    gone = {refusal.document_id for refusal in known} - {refusal.document_id for refusal in found}
    connection.executemany(
        _DROP_REFUSAL, [(source_id, document_id) for document_id in sorted(gone)]
    )
    put_refusals(
        connection, source_id, {r: kept for r, kept in found.items() if known.get(r) is not kept}
    )


def put_refusals(connection: Connection, source_id: int, found: Mapping[Refusal, bool]) -> None:
    """Record refused documents, replacing what was recorded of the same ids."""
    connection.executemany(
        _PUT_REFUSAL,
        [
            (source_id, r.document_id, r.reason.value, r.detail, r.hint, int(is_kept))
            for r, is_kept in found.items()
        ],
    )


def drop_refusals(connection: Connection, source_id: int, document_ids: Iterable[str]) -> None:
    """Forget refusals of documents that are indexed or gone."""
    connection.executemany(
        _DROP_REFUSAL, [(source_id, document_id) for document_id in document_ids]
    )
