"""What differs between two generations: documents, chunks, and the ranking of a query."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from sqlindex.model.history import Generation
from sqlindex.model.ids import ChunkId
from sqlindex.model.requests import Mode

DiffKind = Literal["added", "changed", "reparsed", "renamed", "removed"]
DIFF_KINDS: tuple[DiffKind, ...] = ("added", "changed", "reparsed", "renamed", "removed")

Move = Literal["same", "others", "vector", "changed", "renamed", "added", "removed"]
"""Why a chunk ranks as it does: nothing moved it; other chunks came or went before it; its text is
the same and its vector another, since the headings above it or the parser changed; its text is of
one of the two generations only; its document was renamed, added, removed."""


@dataclass(frozen=True, slots=True)
class DocumentDiff:
    """A document that two generations do not hold alike.

    Attributes:
        kind: `changed` is its bytes or what its catalog entry says; `reparsed` the same document
            cut or read in another way; `renamed` has an `old_id` and equal bytes.
        chunks_added, chunks_removed, chunks_kept: by their text; equal ones in order.
    """

    kind: DiffKind
    source: str
    document_id: str
    old_id: str | None
    chunks_added: int
    chunks_removed: int
    chunks_kept: int


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A chunk in the rankings of both generations.

    Attributes:
        source, document_id, chunk_id, path, start_line, end_line, snippet: in the later ranking; in
            the earlier one where only that has it.
        old_rank, new_rank: from 1; None where it is not among the first 100.
        old_score, new_score: cosine, None likewise.
        move: why the ranks differ, if they do.
    """

    source: str
    document_id: str
    chunk_id: ChunkId
    path: str
    start_line: int
    end_line: int
    snippet: str
    old_rank: int | None
    new_rank: int | None
    old_score: float | None
    new_score: float | None
    move: Move


@dataclass(frozen=True, slots=True)
class RankingDiff:
    """The first hits of a query in both generations, by new rank, then those that only the old has."""

    query: str
    mode: Mode
    chunks: tuple[RankedChunk, ...]


@dataclass(frozen=True, slots=True)
class GenerationDiff:
    """What turns one generation into another.

    Attributes:
        old, new: the generations; the old one may have been published later.
        documents: every document that differs, by source and id.
        ranking: of the query, if one was given.
    """

    old: Generation
    new: Generation
    documents: tuple[DocumentDiff, ...]
    ranking: RankingDiff | None = None

    def counts(self) -> dict[DiffKind, int]:
        """How many documents differ in which way; ways that do not occur are left out."""
        found = Counter(document.kind for document in self.documents)
        return {kind: found[kind] for kind in DIFF_KINDS if found[kind]}
