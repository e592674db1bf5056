"""The head: which generation is accepted."""

from __future__ import annotations

from typing import NamedTuple

from sqlindex.errors import CorruptIndexError, GenerationGoneError
from sqlindex.store.driver import Connection, DatabaseError, is_damage
from sqlindex.store.lexical import LexicalTable, lexical_agrees

_HEAD = """
    SELECT h.generation, h.lexical, g.space_id, g.analyzer, g.documents, g.chunks, g.embedded_chunks, g.published_at
    FROM head h JOIN generation g USING(generation)
"""

_IS_KEPT = "SELECT is_kept FROM generation WHERE generation = :generation"


class Head(NamedTuple):
    """The accepted generation, its lexical table, vector space and analyser."""

    generation: int
    lexical: LexicalTable
    space_id: int | None
    analyzer: str
    documents: int
    chunks: int
    embedded_chunks: int
    published_at: str


def read_head(connection: Connection) -> Head:
    """The accepted generation.

    Raises:
        CorruptIndexError: the head names none.
    """
    found = connection.execute(_HEAD).fetchone()
    if found is None:
        raise CorruptIndexError(
            "the head names no published generation",
            hint="run 'sqlindex repair', or restore a backup",
        )
    return Head(*found)


def is_lexical_whole(connection: Connection, head: Head) -> bool:
    """Whether the head's lexical table is there and counts as many rows as the head has chunks: O(1)."""
    try:
        return lexical_agrees(connection, head.lexical, head.chunks)
    except DatabaseError as exc:
        if not is_damage(exc):
            raise
        return False


def require_lexical(connection: Connection, head: Head) -> None:
    """Refuse to search a lexical table that would find less without a word.

    Raises:
        CorruptIndexError: it counts other rows than the head has chunks, or has no index over them.
    """
    if not lexical_agrees(connection, head.lexical, head.chunks):
        raise CorruptIndexError(
            f"the lexical table does not hold the {head.chunks} chunks of generation {head.generation}",
            hint="run 'sqlindex repair' or 'sqlindex refresh': both make it anew",
        )


def require_kept(connection: Connection, generation: int) -> None:
    """Make sure, within a read transaction, that all rows of a generation are there.

    Raises:
        GenerationGoneError: it has been collected, or was never published.
    """
    found = connection.execute(_IS_KEPT, {"generation": generation}).fetchone()
    if found is None or not found[0]:
        was = "was never published" if found is None else "has been collected"
        raise GenerationGoneError(
            f"generation {generation} {was}",
            hint="see 'sqlindex history'; tag a generation to keep it",
        )
