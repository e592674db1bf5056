"""Runs: what an index answers to the queries of a collection, one ranking of documents a query."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlindex.cancellation import NEVER, CancelToken
from sqlindex.errors import HeadMovedError
from sqlindex.index import Index
from sqlindex.model.requests import MAX_LIMIT, Mode

DEFAULT_DEPTH = 100
"""Distinct documents in a ranking: as many as the deepest measure looks at."""

Run = Mapping[str, Mapping[str, float]]
"""Scores by query id and document id, strictly decreasing with the rank."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How long searches took, in milliseconds, the query's embedding included.

    Attributes:
        first_ms: the first search, which loads vectors and model; not in the percentiles.
        p50_ms, p95_ms: of each query's search for its first 100 hits, by nearest rank.
    """

    first_ms: float
    p50_ms: float
    p95_ms: float

    @classmethod
    def of(cls, first_ms: float, samples_ms: Sequence[float]) -> Latency:
        """Summarise; all zero without samples."""
        return cls(first_ms, percentile(samples_ms, 50), percentile(samples_ms, 95))


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that `percent` of all samples do not exceed; 0 without samples."""
    if not samples:
        return 0.0
    rank = math.ceil(percent / 100 * len(samples))
    return sorted(samples)[max(rank, 1) - 1]


def run_queries(
    index: Index,
    queries: Mapping[str, str],
    mode: Mode,
    *,
    depth: int = DEFAULT_DEPTH,
    cancel: CancelToken | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, dict[str, float]], Latency]:
    """Search every query in one mode.

    Args:
        queries: text by query id.
        depth: distinct documents wanted for each query.
        cancel: checked between queries and inside each search.
        progress: called with the number of finished queries and of all.

    Returns:
        The run, and how long the searches took.

    Raises:
        EmbedderRequiredError: semantic or hybrid without an embedder.
        HeadMovedError: the index changed between two pages of one ranking.
    """
    token = cancel or NEVER
    run: dict[str, dict[str, float]] = {}
    samples_ms: list[float] = []
    first_ms = 0.0
    for position, (query_id, text) in enumerate(queries.items()):
        token.check()
        if position == 0:
            first_ms = rank_documents(index, text, mode, depth=depth, cancel=token).first_page_ms
        ranking = rank_documents(index, text, mode, depth=depth, cancel=token)
        samples_ms.append(ranking.first_page_ms)
        # Ranks as scores: the index has broken its ties already, and any tool keeps this order.
        run[query_id] = {name: float(depth - at) for at, name in enumerate(ranking.documents)}
        if progress is not None:
            progress(position + 1, len(queries))
    return run, Latency.of(first_ms, samples_ms)


@dataclass(frozen=True, slots=True)
class DocumentRanking:
    """One query's documents, best first, and how long the search for its first page took."""

    documents: tuple[str, ...]
    first_page_ms: float


def rank_documents(
    index: Index, query: str, mode: Mode, *, depth: int, cancel: CancelToken | None = None
) -> DocumentRanking:
    """Rank documents by their best chunk.

    Chunks are reduced to documents before the cutoff: pages are read until `depth` distinct
    documents are found or there are no more hits.

    Raises:
        HeadMovedError: the index changed between two pages.
    """
    started = time.perf_counter()
    page = index.search(query, mode=mode, limit=MAX_LIMIT, cancel=cancel)
    first_page_ms = (time.perf_counter() - started) * 1000
    generation = page.generation
    found = dict.fromkeys(hit.document_id for hit in page.hits)
    offset = len(page.hits)
    while page.has_more and len(found) < depth:
        page = index.search(query, mode=mode, limit=MAX_LIMIT, offset=offset, cancel=cancel)
        if page.generation != generation:
            raise HeadMovedError(
                f"generation {page.generation} was published during an evaluation of {generation}",
                hint="evaluate again while nothing else writes to the index",
            )
        found.update((hit.document_id, None) for hit in page.hits)
        offset += len(page.hits)
    return DocumentRanking(tuple(found)[:depth], first_page_ms)
