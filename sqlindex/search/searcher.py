"""Search an index: head → candidates → channels → fuse → hits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlindex.analysis.analyser import analyzer_fingerprint
from sqlindex.analysis.terms import query_terms
from sqlindex.cancellation import CancelToken, WorkerThread
from sqlindex.chunking.identity import chunk_id, content_fingerprint
from sqlindex.config import SearchConfig
from sqlindex.errors import (
    CorruptIndexError,
    EmbedderMismatchError,
    EmbedderRequiredError,
    GenerationGoneError,
    LexicalHistoryError,
    RebuildRequiredError,
)
from sqlindex.model.requests import NO_FILTERS, Filters, Mode, SearchRequest
from sqlindex.model.results import Hit, SearchResult
from sqlindex.rendering import rendered_text
from sqlindex.search.lexical.channel import LexicalChannel
from sqlindex.search.snippets import snippet
from sqlindex.store.driver import Connection
from sqlindex.store.head import Served, read_served, require_lexical
from sqlindex.store.inside import Readable
from sqlindex.store.lexical import LexicalTable
from sqlindex.store.snapshot import (
    ChunkRow,
    Condition,
    read_chunk,
    version_ranges,
)
from sqlindex.store.verified import VerifiedRows

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from sqlindex.ports import Embedder
    from sqlindex.search.cursor import Cursor
    from sqlindex.search.semantic.view import GenerationView
    from sqlindex.search.semantic.view_cache import ViewCache

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

    Keeps chunks and vectors of the head once it was searched semantically, and those of older
    generations that were asked for, within bounds: see `semantic.view_cache`.
    """

    def __init__(
        self, file: Readable, config: SearchConfig, uri_of: Callable[[ChunkRow], str | None]
    ) -> None:
        self._file = file
        self._config = config
        self._uri_of = uri_of
        self._verified = VerifiedRows()
        self._views: ViewCache | None = None

    @property
    def config(self) -> SearchConfig:
        """How channels are weighted and fused."""
        return self._config

    def search(
        self,
        request: SearchRequest,
        embedder_of: Callable[[], Embedder | None],
        cancel: CancelToken,
    ) -> SearchResult:
        """Answer one request from exactly one generation.

        The generation is pinned before the query is embedded. If a newer one is published
        meanwhile, a search of the head moves to it as a whole, because the lexical table serves the
        head only; the query is not embedded again, and the result says `head_moved`. A search of a
        named generation (`request.at`, `request.cursor`) stays with it or ends in an error.

        Args:
            embedder_of: gives the embedder; not called for a lexical search.

        Raises:
            EmbedderRequiredError: semantic or hybrid without an embedder.
            EmbedderMismatchError: the embedder is not the one that made the generation's vectors.
            RebuildRequiredError: the lexical rows were made by another analyser.
            FilterError: a filter is malformed.
            UnknownSourceError: a filter names a source that is not registered.
            GenerationGoneError: the generation `request.at` has been collected, or never was.
            LexicalHistoryError: lexical or hybrid, and it is not the head, or no longer.
            StaleCursorError: likewise for the generation of `request.cursor`.
            UsageError: the cursor is malformed or belongs to another search.
        """
        cancel.check()
        if request.cursor is None and request.at is None:
            return self._answer(request, None, embedder_of, cancel)
        return self._answer_pinned(request, embedder_of, cancel)

    def _answer_pinned(
        self,
        request: SearchRequest,
        embedder_of: Callable[[], Embedder | None],
        cancel: CancelToken,
    ) -> SearchResult:
        """Answer from the generation that the request or its cursor names; held meanwhile."""
        if request.cursor is None:
            assert request.at is not None
            with self._file.holding(request.at):
                return self._answer(request, None, embedder_of, cancel)
        from sqlindex.search.cursor import continued, stale

        meant, cursor = continued(request)
        try:
            with self._file.holding(cursor.generation):
                return self._answer(meant, cursor, embedder_of, cancel)
        except (GenerationGoneError, LexicalHistoryError) as exc:
            raise stale(cursor) from exc

    def _answer(
        self,
        request: SearchRequest,
        cursor: Cursor | None,
        embedder_of: Callable[[], Embedder | None],
        cancel: CancelToken,
    ) -> SearchResult:
        condition = _condition_of(request.filters)
        pinned = self._served(request.at)
        if cursor is not None:
            from sqlindex.search.cursor import require_same_search

            require_same_search(cursor, request, self._config, pinned)
        self._require_sources(request)
        mode, embedder = _effective_mode(request.mode, embedder_of, pinned)
        if not request.query.strip() or pinned.chunks == 0:
            return SearchResult((), pinned.generation, False, mode, _fusion_of(mode), False)
        terms = query_terms(request.query)
        query_vector = None
        if mode != "lexical":
            if condition is not None and not self._has_candidates(pinned, condition):
                return SearchResult((), pinned.generation, False, mode, _fusion_of(mode), False)
            query_vector = self._embed(request.query, embedder, pinned, cancel)
        cancel.check()
        with self._file.reading(cancel=cancel) as connection:
            served = read_served(connection, request.at)
            if mode != "lexical" and served.space_id != pinned.space_id:
                raise EmbedderMismatchError(
                    f"generation {served.generation} has other vectors than generation {pinned.generation}",
                    hint="search again",
                )
            window = request.offset + request.limit + 1
            if mode == "lexical":
                ranked = self._lexical(connection, served, terms, condition, window, cancel)
            else:
                ranked = self._with_vectors(
                    connection, served, terms, condition, query_vector, mode, window, cancel
                )
            cancel.check()
            wanted = ranked[request.offset : request.offset + request.limit]
            hits = tuple(
                self._hit(connection, served, found, request.offset + position, terms)
                for position, found in enumerate(wanted, start=1)
            )
        cancel.check()
        has_more = len(ranked) > request.offset + request.limit
        return SearchResult(
            hits=hits,
            generation=served.generation,
            head_moved=self._served().generation != pinned.head,
            mode=mode,
            fusion=_fusion_of(mode),
            has_more=has_more,
            cursor=self._cursor(request, mode, served) if has_more else None,
        )

    def _cursor(self, request: SearchRequest, mode: Mode, served: Served) -> str | None:
        from sqlindex.search.cursor import cursor_behind

        return cursor_behind(request, mode, self._config, served)

    def _served(self, at: int | None = None) -> Served:
        with self._file.reading() as connection:
            return read_served(connection, at)

    def _require_sources(self, request: SearchRequest) -> None:
        if request.filters.sources:
            from sqlindex.search.lookup import require_source

            with self._file.reading() as connection:
                for name in sorted(request.filters.sources):
                    require_source(connection, name, request.at)

    def _has_candidates(self, served: Served, condition: Condition) -> bool:
        with self._file.reading() as connection:
            ranges = version_ranges(connection, served.generation, condition)
        return any(chunks for _, chunks in ranges)

    def _embed(
        self, query: str, embedder: Embedder | None, served: Served, cancel: CancelToken
    ) -> npt.NDArray[np.float32]:
        from sqlindex.search.semantic.query_vector import embed_query
        from sqlindex.store.vectors import space_of

        assert embedder is not None
        if served.space_id is None:
            raise EmbedderMismatchError(
                f"generation {served.generation} has no vectors",
                hint="run 'sqlindex refresh' with the embedder, or search with mode lexical"
                if served.lexical is not None
                else "only its documents can be read; search the head",
            )
        with self._file.reading() as connection:
            identity, dimensions = space_of(connection, served.space_id)
        with WorkerThread(cancel) as worker:  # a service may be asked for it, the first time
            before = worker.run(lambda: (embedder.identity, embedder.dimensions))
        if before != (identity, dimensions):
            raise EmbedderMismatchError(
                f"the index was embedded with {identity} ({dimensions} wide), "
                f"the embedder is {embedder.identity} ({embedder.dimensions} wide)",
                hint="run 'sqlindex refresh' with this embedder, or search with mode lexical",
            )
        vector = embed_query(embedder, query, cancel)
        if (embedder.identity, embedder.dimensions) != before:
            raise EmbedderMismatchError(
                "the embedder changed during the search", hint="search again"
            )
        return vector

    def _lexical(
        self,
        connection: Connection,
        served: Served,
        terms: Sequence[str],
        condition: Condition | None,
        window: int,
        cancel: CancelToken,
    ) -> list[Ranked]:
        table = _lexical_table(connection, served)
        candidates = None
        if condition is not None:
            candidates = version_ranges(connection, served.generation, condition)
        channel = LexicalChannel(connection, table, self._config)
        top = channel.top(terms, candidates, served.generation, window, cancel)
        return [
            Ranked(slot, lexical_rank=rank, lexical_score=score)
            for rank, (slot, score) in enumerate(top, start=1)
        ]

    def _with_vectors(
        self,
        connection: Connection,
        served: Served,
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

        if query_vector is None or served.space_id is None:
            return []
        view = self._view(connection, served, cancel)
        ranges = None
        if condition is not None:
            ranges = version_ranges(connection, served.generation, condition)
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
            connection, served, view, terms, ranges, cancel
        )
        cancel.check()
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
        served: Served,
        view: GenerationView,
        terms: Sequence[str],
        ranges: Sequence[tuple[int, int]] | None,
        cancel: CancelToken,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The complete lexical ranking as positions of the view, with its scores."""
        import numpy as np

        channel = LexicalChannel(connection, _lexical_table(connection, served), self._config)
        matched = list(channel.scores(terms, ranges, cancel))
        positions = view.positions_of([slot for slot, _ in matched])
        scores = np.array([score for _, score in matched], np.float64)
        order = np.lexsort((positions, -scores))
        return positions[order], scores[order]

    def _view(self, connection: Connection, served: Served, cancel: CancelToken) -> GenerationView:
        from sqlindex.search.semantic.view import GenerationView
        from sqlindex.search.semantic.view_cache import ViewCache, ViewKey

        generation, space_id = served.generation, served.space_id
        assert space_id is not None
        views = self._views = self._views or ViewCache()
        return views.view(
            ViewKey(*self._file.identity(), generation, space_id, served.chunks),
            lambda: GenerationView.read(connection, generation, space_id, cancel),
            is_head=served.lexical is not None,
            cancel=cancel,
        )

    def _hit(
        self, connection: Connection, served: Served, found: Ranked, rank: int, terms: Sequence[str]
    ) -> Hit:
        chunk = read_chunk(connection, served.generation, found.slot, self._verified)
        if chunk is None:
            raise CorruptIndexError(
                f"slot {found.slot} was found and belongs to no chunk of generation {served.generation}",
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
    mode: Mode | None, embedder_of: Callable[[], Embedder | None], served: Served
) -> tuple[Mode, Embedder | None]:
    if served.lexical is None:
        return "semantic", _embedder_of_older(mode, embedder_of, served)
    # Before the first refresh with an embedder there is nothing to search but words.
    if mode == "lexical" or (mode is None and served.space_id is None):
        return "lexical", None
    embedder = embedder_of()
    if mode is None:
        return ("lexical" if embedder is None else "hybrid"), embedder
    if embedder is not None:
        return mode, embedder
    raise _lacks_embedder(mode, served)


def _embedder_of_older(
    mode: Mode | None, embedder_of: Callable[[], Embedder | None], served: Served
) -> Embedder:
    """The embedder for a generation that is not the head: it is searched semantically."""
    embedder = None
    if mode == "semantic" or (mode is None and served.space_id is not None):
        embedder = embedder_of()
    if embedder is not None:
        return embedder
    raise _lacks_embedder(mode, served) if mode == "semantic" else _lexical_history(served)


def _lexical_history(served: Served) -> LexicalHistoryError:
    reason = f"words are indexed for the head ({served.head}) only"
    if served.space_id is None:
        reason += ", and it has no vectors"
    return LexicalHistoryError(
        f"generation {served.generation} cannot be searched so: {reason}",
        hint="search the head"
        if served.space_id is None
        else "search with mode semantic (--mode semantic) and the index's embedder, or the head",
    )


def _lexical_table(connection: Connection, served: Served) -> LexicalTable:
    """The table with a generation's words.

    Raises:
        LexicalHistoryError: it is not the head.
        RebuildRequiredError: another analyser made the rows.
        CorruptIndexError: the table cannot hold all of the generation's rows.
    """
    if served.lexical is None:
        raise _lexical_history(served)
    if served.analyzer != analyzer_fingerprint():
        raise RebuildRequiredError(
            f"the lexical rows were made by {served.analyzer!r}, this program has {analyzer_fingerprint()!r}",
            hint="run 'sqlindex refresh' to rebuild them",
        )
    require_lexical(connection, served.lexical, served.chunks)
    return served.lexical


def _lacks_embedder(mode: Mode, served: Served) -> EmbedderRequiredError:
    if served.space_id is not None:
        return EmbedderRequiredError(
            f"{mode} search needs the embedder that made the index's vectors",
            hint="open the index with it, as the program that made it does (a model: 'sqlindex init --embedder "
            "NAME'), or search with mode lexical",
        )
    return EmbedderRequiredError(
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
