"""The head: publishing a build as a generation in one transaction."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sqlindex.cancellation import CancelToken
from sqlindex.errors import HeadMovedError
from sqlindex.store.builds import end_build, utc_now
from sqlindex.store.driver import Connection, Row
from sqlindex.store.head import Head, read_head
from sqlindex.store.lexical import (
    Analyse,
    LexicalTable,
    clear_table,
    delete_rows,
    insert_rows,
    lexical_rows,
    open_table,
)
from sqlindex.store.vectors import take_plain_name
from sqlindex.store.writer import Writer

_STAGED_BATCH = 200
"""Versions whose lexical rows are written in one small transaction."""


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """What a generation changed against the one before it, in documents and embedded texts.

    The row of a generation counts what was only reparsed as changed.
    """

    added: int = 0
    changed: int = 0
    reparsed: int = 0
    renamed: int = 0
    removed: int = 0
    unchanged: int = 0
    embedded: int = 0


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
_DIE = """
    UPDATE document_version SET died = :generation
    WHERE version_id IN (SELECT version_id FROM build_removes WHERE build_id = :build_id)
"""
_BE_BORN = """
    UPDATE document_version SET born = :generation WHERE build_id = :build_id AND born IS NULL
"""
_SIZE = """
    SELECT s.*, r.*,
      (SELECT count(c.text_id) FROM document_version d JOIN chunk c USING(parse_id)
       WHERE d.build_id = :build_id AND d.born IS NULL)
      - (SELECT count(c.text_id) FROM build_removes r JOIN document_version d USING(version_id)
         JOIN chunk c USING(parse_id) WHERE r.build_id = :build_id)
    FROM (SELECT count(*), coalesce(sum(chunks), 0), coalesce(max(first_slot + max(chunks, 1)), 0)
          FROM document_version WHERE build_id = :build_id AND born IS NULL) AS s,
      (SELECT count(*), coalesce(sum(d.chunks), 0) FROM build_removes r JOIN document_version d USING(version_id)
       WHERE r.build_id = :build_id) AS r
"""
_HAS_CHANGES = """
    SELECT EXISTS (SELECT 1 FROM document_version WHERE build_id = :build_id AND born IS NULL)
      OR EXISTS (SELECT 1 FROM build_removes WHERE build_id = :build_id)
"""
_ADD_GENERATION = """
    INSERT INTO generation(generation, build_id, published_at, cause, space_id, analyzer, documents, chunks,
      embedded_chunks, added, changed, removed, renamed, embedded, restored)
    VALUES(:generation, :build_id, :now, :cause, :space_id, :analyzer, :documents, :chunks,
      :embedded_chunks, :added, :changed, :removed, :renamed, :embedded, :restored)
"""
_MOVE_HEAD = """
    UPDATE head SET generation = :generation, lexical = :lexical, next_slot = max(next_slot, :next_slot)
    WHERE singleton = 1 AND generation = :base
"""


def has_changes(connection: Connection, build_id: int) -> bool:
    """Whether the build staged a version or a removal."""
    return bool(connection.execute(_HAS_CHANGES, {"build_id": build_id}).fetchone()[0])


def end_staging(connection: Connection, build_id: int) -> None:
    """Let the live versions end that staged ones take the place of."""
    connection.execute(_SUPERSEDE, {"build_id": build_id})


class BuildSize(NamedTuple):
    """What a build changes, counted before the publish, which then is as short as it can be.

    Attributes:
        born, died: versions.
        born_chunks, died_chunks: lexical rows that are inserted and deleted.
        next_slot: behind the last one of the build; 0 if it takes none.
        more_embedded: chunks with a vector, in and out.
    """

    born: int
    born_chunks: int
    next_slot: int
    died: int
    died_chunks: int
    more_embedded: int

    @property
    def changed_chunks(self) -> int:
        """Lexical rows that publishing the build deletes or inserts."""
        return self.born_chunks + self.died_chunks


def number_slots(connection: Connection, build_id: int) -> BuildSize:
    """Give the staged versions their slots, from the head's next one on; the size of the build.

    Publishing re-checks that the head is still the same, so that no other build has taken them.
    """
    build = {"build_id": build_id}
    connection.execute(_NUMBER, build)
    return BuildSize(*connection.execute(_SIZE, build).fetchone())


class LexicalChange(NamedTuple):
    """The rows that leave and enter the live lexical table, a version at a time."""

    leaving: Iterable[list[Row]]
    entering: Iterable[list[Row]]


def lexical_change(
    connection: Connection,
    table: LexicalTable,
    build_id: int,
    analyse: Analyse,
    *,
    is_read_now: bool,
) -> LexicalChange:
    """What publishing a numbered build changes in the live lexical table, which is opened.

    Args:
        is_read_now: analyse before the publish, which then is as short as it can be; else one
            version after the other inside it, in little memory.
    """
    build = {"build_id": build_id}

    def rows(query: str) -> Iterator[list[Row]]:
        for (version_id,) in connection.execute(query, build).fetchall():
            yield lexical_rows(connection, version_id, analyse)

    open_table(connection, table)
    leaving, entering = rows(_REMOVED_IDS), rows(_STAGED_IDS)
    return (
        LexicalChange(list(leaving), list(entering))
        if is_read_now
        else LexicalChange(leaving, entering)
    )


def stage_lexical(
    writer: Writer, build_id: int, spare: LexicalTable, analyse: Analyse, cancel: CancelToken
) -> None:
    """Fill the spare lexical table with the generation to be, in small transactions.

    For large changes: inside the publish the same work would hold the log for its whole size.
    The table belongs to the build's base head; publishing re-checks that the head is still it. The
    build's slots are numbered.
    """
    with writer.transaction() as connection:
        connection.execute("UPDATE build SET lexical = NULL WHERE lexical = ?", (spare,))
        connection.execute("UPDATE build SET lexical = ? WHERE build_id = ?", (spare, build_id))
        clear_table(connection, spare)
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
    size: BuildSize,
    *,
    cause: str,
    space_id: int | None,
    analyzer: str,
    counts: ChangeCounts,
    lexical: LexicalTable | LexicalChange,
    restored: int | None = None,
    also: Callable[[Connection], None] | None = None,
    judge: Callable[[Connection], None] | None = None,
) -> int:
    """Make the build the head: the one commit point of a refresh.

    Args:
        base: the head the build was made on.
        size: of the build, as `number_slots` counted it.
        lexical: the table filled by `stage_lexical`, or the change of the live one; the build's
            slots are numbered.
        restored: the generation whose documents come back, of a rollback.
        also: what else becomes true with this generation, in the same transaction.
        judge: looks at the generation before the commit, by way of the connection that sees it as
            the head; what it raises undoes the publish, and the build stays staged.

    Returns:
        The new generation.

    Raises:
        HeadMovedError: the head is no longer `base`, or the build no longer of that size; nothing is
            changed.
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
        if isinstance(lexical, LexicalChange):
            for rows in lexical.leaving:
                delete_rows(connection, head.lexical, rows)
            for rows in lexical.entering:
                insert_rows(connection, head.lexical, rows)
            table = head.lexical
        else:
            table = lexical
        connection.execute(
            _ADD_GENERATION,
            {
                "generation": generation,
                "build_id": build_id,
                "now": utc_now(),
                "cause": cause,
                "space_id": space_id,
                "analyzer": analyzer,
                "documents": head.documents + size.born - size.died,
                "chunks": head.chunks + size.born_chunks - size.died_chunks,
                "embedded_chunks": head.embedded_chunks + size.more_embedded,
                "added": counts.added,
                "changed": counts.changed + counts.reparsed,
                "removed": counts.removed,
                "renamed": counts.renamed,
                "embedded": counts.embedded,
                "restored": restored,
            },
        )
        # Died before born: version_live allows one live version of a document.
        numbered = {**build, "generation": generation}
        died = connection.execute(_DIE, numbered).rowcount
        born = connection.execute(_BE_BORN, numbered).rowcount
        if (born, died) != (size.born, size.died):
            raise HeadMovedError(
                "what the build has staged is no longer what it was", hint="run the refresh again"
            )
        moved = connection.execute(
            _MOVE_HEAD,
            {
                "generation": generation,
                "lexical": table,
                "next_slot": size.next_slot,
                "base": base.generation,
            },
        )
        assert moved.rowcount == 1
        if space_id != head.space_id:
            take_plain_name(connection, space_id, generation)
        if also is not None:
            also(connection)
        end_build(connection, build_id)
        if judge is not None:
            # FTS5 keeps totals in memory until a savepoint or the commit; searches read them.
            connection.execute("SAVEPOINT judged")
            judge(connection)
            connection.execute("RELEASE judged")
    return generation


def clear_superseded(writer: Writer, table: LexicalTable) -> None:
    """Empty the lexical table that a swap has put out of use, to give its pages back."""
    with writer.transaction() as connection:
        if read_head(connection).lexical != table:
            clear_table(connection, table)
