"""The head: which generation is accepted."""

from __future__ import annotations

from typing import NamedTuple

from sqlindex.errors import CorruptIndexError, GenerationGoneError
from sqlindex.store.driver import Connection
from sqlindex.store.lexical import LexicalTable

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
            hint="run 'sqlindex check', restore a backup or index again",
        )
    return Head(*found)


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
