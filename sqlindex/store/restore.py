"""Stage the difference between the head and an earlier generation, to bring that one back."""

from __future__ import annotations

from typing import NamedTuple

from sqlindex.errors import DuplicateError
from sqlindex.store.driver import Connection

_COLUMNS = """
    source_id, document_id, parse_id, chunks, raw_digest, byte_size, encoding, path, type_name, title, date,
    tags, uri, metadata, modified_ns, check8
"""
_OF_OLD = ", ".join(f"o.{name.strip()}" for name in _COLUMNS.split(","))
# Versions of the generation that have ended since, but for documents whose live version says the same.
_BRING_BACK = f"""
    INSERT INTO document_version({_COLUMNS}, build_id)
    SELECT {_OF_OLD}, :build_id FROM document_version o
    WHERE o.died IS NOT NULL AND o.died > :generation AND o.born <= :generation
      AND NOT EXISTS (
        SELECT 1 FROM document_version l
        WHERE l.source_id = o.source_id AND l.document_id = o.document_id
          AND l.born IS NOT NULL AND l.died IS NULL AND l.parse_id = o.parse_id AND l.check8 = o.check8)
    ORDER BY +o.version_id  -- the sign keeps SQLite from walking through all versions
"""
_BRING_BACK_NAMES = """
    INSERT OR IGNORE INTO document_name(version_id, key)
    SELECT n.version_id, k.key FROM document_version n
      JOIN document_version o ON o.source_id = n.source_id AND o.document_id = n.document_id
        AND o.born IS NOT NULL AND o.born <= :generation AND o.died > :generation
      JOIN document_name k ON k.version_id = o.version_id
    WHERE n.build_id = :build_id AND n.born IS NULL
"""
# Live versions that were born since, but for documents that the generation had with the same content.
_END_LATER = """
    INSERT OR IGNORE INTO build_removes(build_id, version_id)
    SELECT :build_id, d.version_id FROM generation g JOIN document_version d ON d.build_id = g.build_id
    WHERE g.generation > :generation AND d.born IS NOT NULL AND d.died IS NULL
      AND NOT EXISTS (
        SELECT 1 FROM document_version o
        WHERE o.source_id = d.source_id AND o.document_id = d.document_id AND o.parse_id = d.parse_id
          AND o.check8 = d.check8 AND o.born IS NOT NULL AND o.born <= :generation AND o.died > :generation)
"""
_COUNT = """
    SELECT
      (SELECT count(*) FROM document_version WHERE build_id = :build_id AND born IS NULL),
      (SELECT count(*) FROM build_removes WHERE build_id = :build_id),
      (SELECT count(*) FROM build_removes r JOIN document_version l USING(version_id)
       JOIN document_version n ON n.build_id = :build_id AND n.source_id = l.source_id
         AND n.document_id = l.document_id AND n.born IS NULL
       WHERE r.build_id = :build_id)
"""
_SPACE = "SELECT space_id FROM generation WHERE generation = :generation"
# A removed source has no live document: those of the generation have died since.
_RETURNING = """
    SELECT DISTINCT s.source_id, s.name,
      EXISTS (SELECT 1 FROM source t WHERE t.name = s.name AND t.is_removed = 0)
    FROM document_version d JOIN source s USING(source_id)
    WHERE d.died IS NOT NULL AND d.died > :generation AND d.born <= :generation AND s.is_removed = 1
    ORDER BY s.source_id
"""
_RETURN = "UPDATE source SET is_removed = 0 WHERE source_id = ?"


class RestoredCounts(NamedTuple):
    """Documents that a staged rollback brings back, changes and ends."""

    added: int
    changed: int
    removed: int


def stage_restored(connection: Connection, build_id: int, generation: int) -> RestoredCounts:
    """Stage the documents of a generation that the head has not, and the end of those it has more.

    Cost: O(versions that were born or have died since), by indexes.
    """
    which = {"build_id": build_id, "generation": generation}
    for statement in (_BRING_BACK, _BRING_BACK_NAMES, _END_LATER):
        connection.execute(statement, which)
    staged, ended, changed = connection.execute(_COUNT, which).fetchone()
    return RestoredCounts(added=staged - changed, changed=changed, removed=ended - changed)


def space_of_generation(connection: Connection, generation: int) -> int | None:
    """Whose vectors a generation is searched with, or None."""
    found: int | None = connection.execute(_SPACE, {"generation": generation}).fetchone()[0]
    return found


def require_free_names(connection: Connection, generation: int) -> None:
    """Make sure that the removed sources of a generation can be registered again.

    Raises:
        DuplicateError: another source has taken the name of one.
    """
    for _, name, is_taken in connection.execute(_RETURNING, {"generation": generation}):
        if is_taken:
            raise DuplicateError(
                f"documents of a removed source {name!r} would come back, and another source has its name",
                hint=f"remove source {name!r} first, then roll back",
            )


def bring_back_sources(connection: Connection, generation: int) -> None:
    """Register the removed sources again whose documents a generation has."""
    returning = connection.execute(_RETURNING, {"generation": generation}).fetchall()
    connection.executemany(_RETURN, [(source_id,) for source_id, _, _ in returning])
