"""Search an index: head → candidates → channels → fuse → hits."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlindex.analysis.analyser import analyzer_fingerprint
from sqlindex.analysis.terms import query_terms
from sqlindex.cancellation import CancelToken
from sqlindex.chunking.identity import chunk_id, content_fingerprint
from sqlindex.config import SearchConfig
from sqlindex.errors import (
    CorruptIndexError,
    EmbedderMismatchError,
    EmbedderRequiredError,
    RebuildRequiredError,
)
from sqlindex.model.requests import NO_FILTERS, Filters, Mode, SearchRequest
from sqlindex.model.results import Hit, SearchResult
from sqlindex.rendering import rendered_text
from sqlindex.search.lexical.channel import LexicalChannel
from sqlindex.search.snippets import snippet
from sqlindex.store.connection import IndexFile
from sqlindex.store.driver import Connection
from sqlindex.store.head import Head, read_head, require_lexical
from sqlindex.store.snapshot import (
    ChunkRow,
    Condition,
    read_chunk,
    version_ranges,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from sqlindex.ports import Embedder
    from sqlindex.search.semantic.view import GenerationView

FUSION = "rrf"


class Ranked(NamedTuple):
    """A chunk on its way to being a hit."""

    slot: int
    lexical_rank: int | None = None
    semantic_rank: int | None = None
    lexical_score: float | None = None
    semantic_score: float | None = None


class Searcher:
    """Answers searches on one index file; safe for threads.

    Keeps chunks and vectors of the last generation that was searched semantically: 4 × dimensions
    bytes for each distinct text and 24 for each chunk.
    """

    def __init__(
        self, file: IndexFile, config: SearchConfig, uri_of: Callable[[ChunkRow], str | None]
    ) -> None:
        self._file = file
        self._config = config
        self._uri_of = uri_of
        self._guard = Lock()
        self._last_view: tuple[tuple[int, int, int, int], GenerationView] | None = None

    def search(
        self,
        request: SearchRequest,
        embedder_of: Callable[[], Embedder | None],
        cancel: CancelToken,
    ) -> SearchResult:
        """Answer one request from exactly one generation.

        The generation is pinned before the query is embedded. If a newer one is published
        meanwhile, the search moves to it as a whole, because the lexical table serves the head
        only; the query is not embedded again, and the result says `head_moved`.

        Args:
            embedder_of: gives the embedder; not called for a lexical search.

        Raises:
            EmbedderRequiredError: semantic or hybrid without an embedder.
            EmbedderMismatchError: the embedder is not the one that made the generation's vectors.
            RebuildRequiredError: the lexical rows were made by another analyser.
            FilterError: a filter is malformed.
            UnknownSourceError: a filter names a source that is not registered.
        """
        cancel.check()
        condition = _condition_of(request.filters)
        pinned = self._head()
        self._require_sources(request.filters.sources)
        mode, embedder = _effective_mode(request.mode, embedder_of, pinned)
        if not request.query.strip() or pinned.chunks == 0:
            return SearchResult((), pinned.generation, False, mode, _fusion_of(mode), False)
        terms = query_terms(request.query)
        query_vector = None
        if mode != "lexical":
            if condition is not None and not self._has_candidates(pinned, condition):
                return SearchResult((), pinned.generation, False, mode, _fusion_of(mode), False)
            query_vector = self._embed(request.query, embedder, pinned)
        cancel.check()
        with self._file.reading(cancel=cancel) as connection:
            head = read_head(connection)
            if mode != "lexical" and head.space_id != pinned.space_id:
                raise EmbedderMismatchError(
                    f"generation {head.generation} has other vectors than generation {pinned.generation}",
                    hint="search again",
                )
            window = request.offset + request.limit + 1
            if mode == "lexical":
                ranked = self._lexical(connection, head, terms, condition, window, cancel)
            else:
                ranked = self._with_vectors(
                    connection, head, terms, condition, query_vector, mode, window, cancel
                )
            wanted = ranked[request.offset : request.offset + request.limit]
            hits = tuple(
                self._hit(connection, head, found, request.offset + position, terms)
                for position, found in enumerate(wanted, start=1)
            )
        cancel.check()
        return SearchResult(
            hits=hits,
            generation=head.generation,
            head_moved=self._head().generation != pinned.generation,
            mode=mode,
            fusion=_fusion_of(mode),
            has_more=len(ranked) > request.offset + request.limit,
        )

    def _head(self) -> Head:
        with self._file.reading() as connection:
            return read_head(connection)

    def _require_sources(self, names: frozenset[str]) -> None:
        if names:
            from sqlindex.store.sources import find_source

            with self._file.reading() as connection:
                for name in sorted(names):
                    find_source(connection, name)

    def _has_candidates(self, head: Head, condition: Condition) -> bool:
        with self._file.reading() as connection:
            ranges = version_ranges(connection, head.generation, condition)
        return any(chunks for _, chunks in ranges)

    def _embed(self, query: str, embedder: Embedder | None, head: Head) -> npt.NDArray[np.float32]:
        from sqlindex.search.semantic.query_vector import embed_query
        from sqlindex.store.vectors import space_of

        assert embedder is not None
        if head.space_id is None:
            raise EmbedderMismatchError(
                f"generation {head.generation} has no vectors",
                hint="run 'sqlindex refresh' with the embedder, or search with mode lexical",
            )
        with self._file.reading() as connection:
            identity, dimensions = space_of(connection, head.space_id)
        before = (embedder.identity, embedder.dimensions)
        if before != (identity, dimensions):
            raise EmbedderMismatchError(
                f"the index was embedded with {identity} ({dimensions} wide), "
                f"the embedder is {embedder.identity} ({embedder.dimensions} wide)",
                hint="run 'sqlindex refresh' with this embedder, or search with mode lexical",
            )
        vector = embed_query(embedder, query)
        if (embedder.identity, embedder.dimensions) != before:
            raise EmbedderMismatchError(
                "the embedder changed during the search", hint="search again"
            )
        return vector

    def _lexical(
        self,
        connection: Connection,
        head: Head,
        terms: Sequence[str],
        condition: Condition | None,
        window: int,
        cancel: CancelToken,
    ) -> list[Ranked]:
        _require_analyzer(head)
        require_lexical(connection, head)
        candidates = None
        if condition is not None:
            candidates = version_ranges(connection, head.generation, condition)
        channel = LexicalChannel(connection, head.lexical, self._config)
        top = channel.top(terms, candidates, head.generation, window, cancel)
        return [
            Ranked(slot, lexical_rank=rank, lexical_score=score)
            for rank, (slot, score) in enumerate(top, start=1)
        ]

    def _with_vectors(
        self,
        connection: Connection,
        head: Head,
        terms: Sequence[str],
        condition: Condition | None,
        query_vector: npt.NDArray[np.float32] | None,
        mode: Mode,
        window: int,
        cancel: CancelToken,
    ) -> list[Ranked]:
        """Semantic or hybrid; positions in the view are the order of ties."""
        import numpy as np

        from sqlindex.search.fusion.rrf import reciprocal_rank_fusion
        from sqlindex.search.semantic.exact_cosine import cosines, top_positions

        if query_vector is None or head.space_id is None:
            return []
        view = self._view(connection, head.generation, head.space_id, cancel)
        ranges = None
        if condition is not None:
            ranges = version_ranges(connection, head.generation, condition)
        positions = np.flatnonzero(view.candidates(ranges) & (view.rows >= 0))
        scores = cosines(view.table, query_vector, view.rows[positions])
        cancel.check()
        if mode == "semantic":
            top = top_positions(scores, window)
            return [
                Ranked(
                    int(view.slots[positions[at]]),
                    semantic_rank=rank,
                    semantic_score=float(scores[at]),
                )
                for rank, at in enumerate(top.tolist(), start=1)
            ]
        order = top_positions(scores, len(scores))
        semantic, semantic_scores = positions[order], scores[order]
        lexical, lexical_scores = self._lexical_positions(
            connection, head, view, terms, ranges, cancel
        )
        fused, _ = reciprocal_rank_fusion(
            [lexical, semantic], len(view.slots), rank_constant=self._config.rank_constant
        )
        lexical_rank = _rank_by_position(lexical, len(view.slots))
        semantic_rank = _rank_by_position(semantic, len(view.slots))
        ranked = []
        for at in fused[:window].tolist():
            by_words, by_meaning = int(lexical_rank[at]), int(semantic_rank[at])
            ranked.append(
                Ranked(
                    int(view.slots[at]),
                    lexical_rank=by_words or None,
                    semantic_rank=by_meaning or None,
                    lexical_score=float(lexical_scores[by_words - 1]) if by_words else None,
                    semantic_score=float(semantic_scores[by_meaning - 1]) if by_meaning else None,
                )
            )
        return ranked

    def _lexical_positions(
        self,
        connection: Connection,
        head: Head,
        view: GenerationView,
        terms: Sequence[str],
        ranges: Sequence[tuple[int, int]] | None,
        cancel: CancelToken,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The complete lexical ranking as positions of the view, with its scores."""
        import numpy as np

        _require_analyzer(head)
        require_lexical(connection, head)
        channel = LexicalChannel(connection, head.lexical, self._config)
        matched = list(channel.scores(terms, ranges, cancel))
        positions = view.positions_of([slot for slot, _ in matched])
        scores = np.array([score for _, score in matched], np.float64)
        order = np.lexsort((positions, -scores))
        return positions[order], scores[order]

    def _view(
        self, connection: Connection, generation: int, space_id: int, cancel: CancelToken
    ) -> GenerationView:
        from sqlindex.search.semantic.view import GenerationView

        key = (*self._file.identity(), generation, space_id)
        with self._guard:  # of several threads one reads, the others wait for it
            if self._last_view is None or self._last_view[0] != key:
                view = GenerationView.read(connection, generation, space_id, cancel)
                self._last_view = (key, view)
            return self._last_view[1]

    def _hit(
        self, connection: Connection, head: Head, found: Ranked, rank: int, terms: Sequence[str]
    ) -> Hit:
        chunk = read_chunk(connection, head.generation, found.slot)
        if chunk is None:
            raise CorruptIndexError(
                f"slot {found.slot} was found and belongs to no chunk of generation {head.generation}",
                hint="run 'sqlindex repair'",
            )
        return Hit(
            **provenance(chunk, self._uri_of),
            rank=rank,
            snippet=snippet(rendered_text(chunk.text, chunk.rendered), terms),
            lexical_rank=found.lexical_rank,
            semantic_rank=found.semantic_rank,
            lexical_score=found.lexical_score,
            semantic_score=found.semantic_score,
        )


def provenance(chunk: ChunkRow, uri_of: Callable[[ChunkRow], str | None]) -> dict[str, Any]:
    """The fields of `Chunk` for a stored row.

    Raises:
        CorruptIndexError: the row's span does not give the text that was indexed.
    """
    if content_fingerprint(chunk.text) != chunk.fingerprint:
        raise CorruptIndexError(
            f"the span of slot {chunk.slot} in document {chunk.document_id!r} is damaged",
            hint="run 'sqlindex repair', or restore a backup",
        )
    return {
        "source": chunk.source,
        "document_id": chunk.document_id,
        "chunk_id": chunk_id(chunk.source, chunk.document_id, chunk.fingerprint, chunk.occurrence),
        "uri": uri_of(chunk),
        "path": chunk.path,
        "title": chunk.title,
        "heading_path": chunk.heading_path,
        "language": chunk.language,
        "context": chunk.context,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "start_char": chunk.start_char,
        "end_char": chunk.end_char,
        "text": chunk.text,
    }


def _effective_mode(
    mode: Mode | None, embedder_of: Callable[[], Embedder | None], head: Head
) -> tuple[Mode, Embedder | None]:
    # Before the first refresh with an embedder there is nothing to search but words.
    if mode == "lexical" or (mode is None and head.space_id is None):
        return "lexical", None
    embedder = embedder_of()
    if mode is None:
        return ("lexical" if embedder is None else "hybrid"), embedder
    if embedder is not None:
        return mode, embedder
    if head.space_id is not None:
        raise EmbedderRequiredError(
            f"{mode} search needs the embedder that made the index's vectors",
            hint="open the index with it, as the program that made it does, or search with mode lexical",
        )
    raise EmbedderRequiredError(
        f"{mode} search needs an embedder, and this index has none",
        hint="search with mode lexical, or set an embedder with 'sqlindex init --embedder minilm' and refresh",
    )


def _rank_by_position(ranking: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Rank of each position from 1, 0 where it is not in the ranking."""
    import numpy as np

    ranks = np.zeros(size, np.int64)
    ranks[ranking] = np.arange(1, len(ranking) + 1)
    return ranks


def _condition_of(filters: Filters) -> Condition | None:
    if filters == NO_FILTERS:
        return None
    from sqlindex.search.candidates import condition_of

    return condition_of(filters)


def _fusion_of(mode: Mode) -> str | None:
    return FUSION if mode == "hybrid" else None


def _require_analyzer(head: Head) -> None:
    if head.analyzer != analyzer_fingerprint():
        raise RebuildRequiredError(
            f"the lexical rows were made by {head.analyzer!r}, this program has {analyzer_fingerprint()!r}",
            hint="run 'sqlindex refresh' to rebuild them",
        )
