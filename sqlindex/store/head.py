"""The head: which generation is accepted; and any generation that can still be read."""

from __future__ import annotations

from typing import NamedTuple

from sqlindex.errors import CorruptIndexError, GenerationGoneError
from sqlindex.store.driver import Connection
from sqlindex.store.lexical import LexicalTable

_HEAD = """
    SELECT h.generation, h.lexical, g.space_id, g.analyzer, g.documents, g.chunks, g.embedded_chunks, g.published_at
    FROM head h JOIN generation g USING(generation)
"""

_SERVED = """
    SELECT g.generation, CASE g.generation WHEN h.generation THEN h.lexical END, g.space_id, g.analyzer, g.chunks,
      g.published_at, h.generation
    FROM head h JOIN generation g ON g.generation = coalesce(:at, h.generation)
    WHERE g.is_kept = 1 OR g.generation = h.generation
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
        raise _headless()
    return Head(*found)


def _headless() -> CorruptIndexError:
    return CorruptIndexError(
        "the head names no published generation",
        hint="run 'sqlindex check', restore a backup or index again",
    )


class Served(NamedTuple):
    """A generation that this read transaction can read in full.

    `lexical` is its lexical table, or None if it is not the head; `head` the head's number.
    """

    generation: int
    lexical: LexicalTable | None
    space_id: int | None
    analyzer: str
    chunks: int
    published_at: str
    head: int


def read_served(connection: Connection, at: int | None = None) -> Served:
    """A generation for reading; the head if `at` is None.

    Asked in the transaction that then reads: a generation that is kept there keeps all its rows for
    as long as the transaction lasts.

    Raises:
        UnknownGenerationError: there never was one of that number.
        GenerationGoneError: it has been collected.
        CorruptIndexError: the head names none.
    """
    found = connection.execute(_SERVED, {"at": at}).fetchone()
    if found is not None:
        return Served(*found)
    if at is None:
        raise _headless()
    from sqlindex.store.history import not_served

    raise not_served(connection, at)


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
