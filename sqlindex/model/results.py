"""What is found: hits with their provenance, and the generation they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlindex.model.ids import ChunkId
from sqlindex.model.requests import Mode

if TYPE_CHECKING:
    from sqlindex.model.chunks import Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A chunk with its provenance.

    Attributes:
        source, document_id, chunk_id: identity.
        uri: where the document can be opened again, or None if its host gave none.
        path: for display.
        title, heading_path, language: of the document and the chunk's section.
        context: what stands above the chunk and explains its lines, as it reads: the head of the
            table it was cut from, or an empty string.
        start_line, end_line: from 1, both included, as `grep -n` counts.
        start_char, end_char: half-open offsets into the decoded document.
        text: exactly `document[start_char:end_char]`.
    """

    source: str
    document_id: str
    chunk_id: ChunkId
    uri: str | None
    path: str
    title: str
    heading_path: tuple[str, ...]
    language: str
    context: str
    start_line: int
    end_line: int
    start_char: int
    end_char: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChunk(Chunk):
    """A chunk as its document was cut.

    Attributes:
        cut: why it ends where it does.
        is_continuation: whether an earlier chunk of the same section comes before it.
        is_embedded: whether it gets a vector when there is an embedder.
    """

    cut: Cut
    is_continuation: bool
    is_embedded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(Chunk):
    """A found chunk.

    Attributes:
        rank: position in the whole ranking, from 1, earlier pages included.
        snippet: a part of the chunk for display.
        lexical_rank, semantic_rank: rank in the channel's complete ranking, None if not in it.
        lexical_score: BM25, higher is better; comparable within one search only.
        semantic_score: cosine, -1 to 1; no confidence, and no threshold is meant by it.
    """

    rank: int
    snippet: str
    lexical_rank: int | None = None
    semantic_rank: int | None = None
    lexical_score: float | None = None
    semantic_score: float | None = None

    @property
    def match_reasons(self) -> tuple[str, ...]:
        """`lexical` and/or `semantic`: the channels that found it."""
        reasons = (("lexical", self.lexical_rank), ("semantic", self.semantic_rank))
        return tuple(name for name, rank in reasons if rank is not None)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one search, from exactly one generation.

    Attributes:
        hits: best first; ties by (source, document id, start character).
        generation: the one that every channel answered for.
        head_moved: whether a newer generation was published while the search ran.
        mode: the effective one.
        fusion: name of the fusion used, None for a single channel.
        has_more: whether there are hits behind these.
        cursor: asks for the next page of the same generation; None behind the last hit.
    """

    hits: tuple[Hit, ...]
    generation: int
    head_moved: bool
    mode: Mode
    fusion: str | None
    has_more: bool
    cursor: str | None = None
