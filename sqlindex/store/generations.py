"""Builds and the head: staging, and publishing a generation in one transaction."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlindex.cancellation import CancelToken
from sqlindex.errors import HeadMovedError
from sqlindex.store.driver import Connection
from sqlindex.store.head import Head, read_head
from sqlindex.store.lexical import (
    Analyse,
    LexicalTable,
    clear_table,
    delete_rows,
    insert_rows,
    lexical_rows,
)
from sqlindex.store.writer import Writer

_STAGED_BATCH = 200
"""Versions whose lexical rows are written in one small transaction."""


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """What a generation changed against the one before it, in documents and embedded texts."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    renamed: int = 0
    embedded: int = 0


_BEGIN = "INSERT INTO build(base_generation, started_at) VALUES(:base, :now)"
_ABANDONED = """
    DELETE FROM document_version WHERE build_id IN (SELECT build_id FROM build) AND born IS NULL
"""
_ABANDONED_TABLES = "SELECT lexical FROM build WHERE lexical IS NOT NULL"
_ABANDONED_REMOVES = "DELETE FROM build_removes"
_ABANDONED_BUILDS = "DELETE FROM build"
_END_BUILD = "DELETE FROM build WHERE build_id = :build_id"
_DROP_STAGED = "DELETE FROM document_version WHERE build_id = :build_id AND born IS NULL"
_DROP_REMOVES = "DELETE FROM build_removes WHERE build_id = :build_id"
# A staged version of a document that lives supersedes the live one.
_SUPERSEDE = """
    INSERT OR IGNORE INTO build_removes(build_id, version_id)
    SELECT :build_id, o.version_id FROM document_version n JOIN document_version o
      ON o.source_id = n.source_id AND o.document_id = n.document_id AND o.born IS NOT NULL AND o.died IS NULL
    WHERE n.build_id = :build_id AND n.born IS NULL
"""
# Slots from the head's next one on, in order of versions; a document without chunks takes one too,
# because first_slot is unique.
_NUMBER = """
    UPDATE document_version SET first_slot = n.slot FROM (
      SELECT version_id AS id, (SELECT next_slot FROM head)
        + sum(max(chunks, 1)) OVER (ORDER BY version_id) - max(chunks, 1) AS slot
      FROM document_version WHERE build_id = :build_id AND born IS NULL) AS n
    WHERE version_id = n.id
"""
_STAGED_IDS = """
    SELECT version_id FROM document_version WHERE build_id = :build_id AND born IS NULL ORDER BY version_id
"""
_REMOVED_IDS = "SELECT version_id FROM build_removes WHERE build_id = :build_id ORDER BY version_id"
_LIVING_ON = """
    SELECT version_id FROM document_version d WHERE born IS NOT NULL AND died IS NULL
      AND version_id NOT IN (SELECT version_id FROM build_removes WHERE build_id = :build_id)
    ORDER BY version_id
"""
_CHANGED_CHUNKS = """
    SELECT (SELECT coalesce(sum(chunks), 0) FROM document_version WHERE build_id = :build_id AND born IS NULL)
      + (SELECT coalesce(sum(d.chunks), 0) FROM build_removes r JOIN document_version d USING(version_id)
         WHERE r.build_id = :build_id)
"""
_DIE = """
    UPDATE document_version SET died = :generation
    WHERE version_id IN (SELECT version_id FROM build_removes WHERE build_id = :build_id)
"""
_BE_BORN = """
    UPDATE document_version SET born = :generation WHERE build_id = :build_id AND born IS NULL
"""
_COUNT_CHANGE = """
    SELECT
      (SELECT count(*) FROM document_version WHERE build_id = :build_id AND born IS NULL),
      (SELECT coalesce(sum(chunks), 0) FROM document_version WHERE build_id = :build_id AND born IS NULL),
      (SELECT count(*) FROM build_removes WHERE build_id = :build_id),
      (SELECT coalesce(sum(d.chunks), 0) FROM build_removes r JOIN document_version d USING(version_id)
       WHERE r.build_id = :build_id),
      (SELECT coalesce(max(first_slot + max(chunks, 1)), 0) FROM document_version
       WHERE build_id = :build_id AND born IS NULL),
      (SELECT count(c.text_id) FROM document_version d JOIN chunk c USING(parse_id)
       WHERE d.build_id = :build_id AND d.born IS NULL)
      - (SELECT count(c.text_id) FROM build_removes r JOIN document_version d USING(version_id)
         JOIN chunk c USING(parse_id) WHERE r.build_id = :build_id)
"""
_HAS_CHANGES = """
    SELECT EXISTS (SELECT 1 FROM document_version WHERE build_id = :build_id AND born IS NULL)
      OR EXISTS (SELECT 1 FROM build_removes WHERE build_id = :build_id)
"""
_ADD_GENERATION = """
    INSERT INTO generation(generation, build_id, published_at, cause, space_id, analyzer, documents, chunks,
      embedded_chunks, added, changed, removed, renamed, embedded)
    VALUES(:generation, :build_id, :now, :cause, :space_id, :analyzer, :documents, :chunks,
      :embedded_chunks, :added, :changed, :removed, :renamed, :embedded)
"""
_MOVE_HEAD = """
    UPDATE head SET generation = :generation, lexical = :lexical, next_slot = max(next_slot, :next_slot)
    WHERE singleton = 1 AND generation = :base
"""


def begin_build(connection: Connection) -> tuple[int, Head]:
    """Start a build on the present head, dropping what interrupted builds left staged.

    Only the writer builds, so every staged row found here belongs to a build that ended without
    publishing. Its texts, parses and vectors stay and are reused; they are addressed by content.
    """
    head = read_head(connection)
    for (table,) in connection.execute(_ABANDONED_TABLES).fetchall():
        if table != head.lexical:
            clear_table(connection, table)
    for statement in (_ABANDONED, _ABANDONED_REMOVES, _ABANDONED_BUILDS):
        connection.execute(statement)
    cursor = connection.execute(_BEGIN, {"base": head.generation, "now": _utc_now()})
    assert cursor.lastrowid is not None
    return cursor.lastrowid, head


def drop_build(connection: Connection, build_id: int) -> None:
    """End a build that has nothing to publish."""
    for statement in (_DROP_STAGED, _DROP_REMOVES, _END_BUILD):
        connection.execute(statement, {"build_id": build_id})


def has_changes(connection: Connection, build_id: int) -> bool:
    """Whether the build staged a version or a removal."""
    return bool(connection.execute(_HAS_CHANGES, {"build_id": build_id}).fetchone()[0])


def end_staging(connection: Connection, build_id: int) -> None:
    """Let the live versions end that staged ones take the place of."""
    connection.execute(_SUPERSEDE, {"build_id": build_id})


def changed_chunks(connection: Connection, build_id: int) -> int:
    """Lexical rows that publishing the build would delete or insert."""
    return int(connection.execute(_CHANGED_CHUNKS, {"build_id": build_id}).fetchone()[0])


def stage_lexical(
    writer: Writer, build_id: int, spare: LexicalTable, analyse: Analyse, cancel: CancelToken
) -> None:
    """Fill the spare lexical table with the generation to be, in small transactions.

    For large changes: inside the publish the same work would hold the log for its whole size.
    The table belongs to the build's base head; publishing re-checks that the head is still it.
    """
    with writer.transaction() as connection:
        connection.execute("UPDATE build SET lexical = NULL WHERE lexical = ?", (spare,))
        connection.execute("UPDATE build SET lexical = ? WHERE build_id = ?", (spare, build_id))
        clear_table(connection, spare)
        connection.execute(_NUMBER, {"build_id": build_id})
    for query in (_LIVING_ON, _STAGED_IDS):
        rows = writer.connection.execute(query, {"build_id": build_id})
        fill_table(writer, spare, (row[0] for row in rows), analyse, cancel)


def fill_table(
    writer: Writer,
    table: LexicalTable,
    version_ids: Iterable[int],
    analyse: Analyse,
    cancel: CancelToken,
) -> None:
    """Add the rows of versions to a lexical table, in small transactions."""
    ids = array("q", version_ids)
    for at in range(0, len(ids), _STAGED_BATCH):
        cancel.check()
        with writer.transaction() as connection:
            for version_id in ids[at : at + _STAGED_BATCH]:
                insert_rows(connection, table, lexical_rows(connection, version_id, analyse))
        writer.bound_log()


def publish(
    writer: Writer,
    build_id: int,
    base: Head,
    *,
    cause: str,
    space_id: int | None,
    analyzer: str,
    analyse: Analyse,
    counts: ChangeCounts,
    staged_table: LexicalTable | None,
    also: Callable[[Connection], None] | None = None,
) -> int:
    """Make the build the head: the one commit point of a refresh.

    Args:
        base: the head the build was made on.
        staged_table: the lexical table filled by `stage_lexical`, or None to change the live one.
        also: what else becomes true with this generation, in the same transaction.

    Returns:
        The new generation.

    Raises:
        HeadMovedError: the head is no longer `base`; nothing is changed.
    """
    build = {"build_id": build_id}
    with writer.transaction(durable=True) as connection:
        head = read_head(connection)
        if head.generation != base.generation:
            raise HeadMovedError(
                f"the build was made on generation {base.generation}, the head is {head.generation}",
                hint="run the refresh again",
            )
        generation = head.generation + 1
        if staged_table is None:
            connection.execute(_NUMBER, build)
            for (version_id,) in connection.execute(_REMOVED_IDS, build).fetchall():
                delete_rows(connection, head.lexical, lexical_rows(connection, version_id, analyse))
            for (version_id,) in connection.execute(_STAGED_IDS, build).fetchall():
                insert_rows(connection, head.lexical, lexical_rows(connection, version_id, analyse))
        born, born_chunks, died, died_chunks, next_slot, more_embedded = connection.execute(
            _COUNT_CHANGE, build
        ).fetchone()
        connection.execute(
            _ADD_GENERATION,
            {
                "generation": generation,
                "build_id": build_id,
                "now": _utc_now(),
                "cause": cause,
                "space_id": space_id,
                "analyzer": analyzer,
                "documents": head.documents + born - died,
                "chunks": head.chunks + born_chunks - died_chunks,
                "embedded_chunks": head.embedded_chunks + more_embedded,
                "added": counts.added,
                "changed": counts.changed,
                "removed": counts.removed,
                "renamed": counts.renamed,
                "embedded": counts.embedded,
            },
        )
        # Died before born: version_live allows one live version of a document.
        connection.execute(_DIE, {**build, "generation": generation})
        connection.execute(_BE_BORN, {**build, "generation": generation})
        moved = connection.execute(
            _MOVE_HEAD,
            {
                "generation": generation,
                "lexical": staged_table or head.lexical,
                "next_slot": next_slot,
                "base": base.generation,
            },
        )
        assert moved.rowcount == 1
        if also is not None:
            also(connection)
        connection.execute(_DROP_REMOVES, build)
        connection.execute(_END_BUILD, build)
    return generation


def clear_superseded(writer: Writer, table: LexicalTable) -> None:
    """Empty the lexical table that a swap has put out of use, to give its pages back."""
    with writer.transaction() as connection:
        if read_head(connection).lexical != table:
            clear_table(connection, table)


def _utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
