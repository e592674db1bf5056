"""Rows of truth that a repair gives up: damaged versions, parses and contents, and what hangs on them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlindex.store.documents import damaged_versions
from sqlindex.store.driver import Connection
from sqlindex.store.invariants import VERSION_RULES
from sqlindex.store.mend_structure import suspect_versions


class Version(NamedTuple):
    """A version that is given up; `died` is None while it is live, `born` while it is staged."""

    version_id: int
    source_id: int
    source: str
    document_id: str
    born: int | None
    died: int | None


_VERSION = """
    SELECT d.version_id, d.source_id, coalesce(s.name, '?'), d.document_id, d.born, d.died
    FROM document_version d LEFT JOIN source s USING(source_id) WHERE d.version_id = ?
"""
_VERSIONS_OF = "SELECT version_id FROM document_version WHERE parse_id = ?"
_PARSES_OF = "SELECT parse_id FROM parse WHERE content_id = ?"
_PARSES_WITHOUT_CONTENT = """
    SELECT parse_id FROM parse WHERE content_id NOT IN (SELECT content_id FROM content)
"""
_KEPT_WITHIN = """
    SELECT generation FROM generation
    WHERE is_kept AND generation >= :born AND (:died IS NULL OR generation < :died) ORDER BY generation
"""
_FORGET_STAT = "DELETE FROM file_stat WHERE source_id = ? AND document_id = ?"
# What was measured no longer is what would be published.
_FORGET_GATE = """
    UPDATE build SET gated = NULL
    WHERE build_id = (SELECT build_id FROM document_version WHERE version_id = ? AND born IS NULL)
"""
_DELETE_REMOVAL = "DELETE FROM build_removes WHERE version_id = ?"
_DELETE_VERSION = "DELETE FROM document_version WHERE version_id = ?"


def unsound_versions(connection: Connection) -> dict[int, str]:
    """Versions that break a rule, and which."""
    found = dict.fromkeys(suspect_versions(connection), "its row and an index disagree")
    for rule, query in VERSION_RULES.items():
        for (version_id,) in connection.execute(query).fetchall():
            found.setdefault(version_id, f"not so: {rule}")
    for version_id, _ in damaged_versions(connection):
        found.setdefault(version_id, "its row is damaged")
    return found


def parses_without_content(connection: Connection) -> list[int]:
    """Parses whose text is not there."""
    return [row[0] for row in connection.execute(_PARSES_WITHOUT_CONTENT)]


def parses_of(connection: Connection, content_id: int) -> list[int]:
    """Parses of a content."""
    return [row[0] for row in connection.execute(_PARSES_OF, (content_id,))]


def versions_of(connection: Connection, parse_id: int) -> list[int]:
    """Versions of a parse."""
    return [row[0] for row in connection.execute(_VERSIONS_OF, (parse_id,))]


def version(connection: Connection, version_id: int) -> Version | None:
    """A version by its id, or None if it is gone."""
    row = connection.execute(_VERSION, (version_id,)).fetchone()
    return None if row is None else Version(*row)


def kept_generations(connection: Connection, lost: Version) -> list[int]:
    """The kept generations that a version belongs to."""
    if lost.born is None:
        return []
    rows = connection.execute(_KEPT_WITHIN, {"born": lost.born, "died": lost.died})
    return [row[0] for row in rows]


def forget_versions(connection: Connection, lost: Collection[Version]) -> None:
    """Delete versions that no generation may show any more: dead and staged ones."""
    for each in lost:
        connection.execute(_FORGET_STAT, (each.source_id, each.document_id))
        connection.execute(_FORGET_GATE, (each.version_id,))
        connection.execute(_DELETE_REMOVAL, (each.version_id,))
        connection.execute(_DELETE_VERSION, (each.version_id,))


def forget_parses(connection: Connection, parse_ids: Collection[int]) -> None:
    """Delete parses that no version has, with their rows."""
    for parse_id in sorted(parse_ids):
        for table in ("section", "chunk", "link", "parse", "unused_parse"):
            connection.execute(f"DELETE FROM {table} WHERE parse_id = ?", (parse_id,))


def forget_contents(connection: Connection, content_ids: Collection[int]) -> None:
    """Delete contents that no parse has; their pieces go with `mend_lists`."""
    connection.executemany(
        "DELETE FROM content WHERE content_id = ?", [(content_id,) for content_id in content_ids]
    )
