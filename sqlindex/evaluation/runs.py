"""Runs: what an index answers to queries, one ranking of documents or chunks a query."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct

from sqlindex.analysis.terms import document_terms, query_terms
from sqlindex.cancellation import NEVER, CancelToken
from sqlindex.model.requests import MAX_LIMIT, Mode
from sqlindex.model.results import Hit
from sqlindex.snapshot import Snapshot

DEFAULT_DEPTH = 100
"""Names in a ranking: as many as the deepest usual cutoff looks at."""

REPEATS_DEPTH = 10
"""Chunks that are looked at for documents that come again."""

_FLOAT32 = Struct("<f")

Run = Mapping[str, Mapping[str, float]]
"""Scores by query id and document (or chunk); a higher score stands before a lower one."""


def ranking_of(scores: Mapping[str, float]) -> tuple[str, ...]:
    """Names by descending score, equal scores by descending name, as trec_eval orders them.

    As there, scores are equal if they are so in single precision (float32).
    """
    return tuple(sorted(scores, key=lambda name: (_single(scores[name]), name), reverse=True))


def _single(score: float) -> float:
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(score))[0]
    except OverflowError:
        return math.copysign(math.inf, score)
    return rounded


@dataclass(frozen=True, slots=True)
class Latency:
    """How long searches took, in milliseconds, the query's embedding left out.

    Attributes:
        first_ms: the first search, which loads vectors; not in the percentiles.
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


@dataclass(frozen=True, slots=True)
class Answer:
    """One query's ranking and what its first page tells.

    Attributes:
        ranking: names, best first, each once.
        repeats: for each of the first ten chunks, whether its document stood above already.
        top_cosine: the best cosine on the first page; None without one.
        coverage: share of the query's terms that the first hit holds; None without a hit, or for a
            saved run.
        first_page_ms: how long the search for the first page took.
    """

    ranking: tuple[str, ...]
    repeats: tuple[bool, ...]
    top_cosine: float | None
    coverage: float | None
    first_page_ms: float

    @classmethod
    def saved(cls, scores: Mapping[str, float]) -> Answer:
        """The answer of a saved run: a ranking and nothing else."""
        return cls(ranking_of(scores), (), None, None, 0.0)


def run_queries(
    snapshot: Snapshot,
    queries: Mapping[str, str],
    mode: Mode,
    *,
    name_of: Callable[[Hit], str],
    depth: int | None = DEFAULT_DEPTH,
    prepare: Callable[[str], None] | None = None,
    cancel: CancelToken | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, Answer], Latency]:
    """Search every query in one mode.

    Args:
        queries: text by query id.
        name_of: names what is ranked: a hit's document, or its chunk.
        depth: names wanted for each query; None for the whole ranking, at the cost of a search for
            every 100 chunks that match.
        prepare: called with each text before its search, outside of its time.
        cancel: checked between queries and inside each search.
        progress: called with the number of finished queries and of all.

    Returns:
        An answer by query id, and how long the searches took.

    Raises:
        EmbedderRequiredError: semantic or hybrid without an embedder.
        LexicalHistoryError: lexical or hybrid, and the snapshot is not the head, or no longer.
    """
    token = cancel or NEVER
    answers: dict[str, Answer] = {}
    first_ms = 0.0

    def ask(text: str) -> Answer:
        return answer_query(snapshot, text, mode, name_of=name_of, depth=depth, cancel=token)

    for position, (query_id, text) in enumerate(queries.items()):
        token.check()
        if prepare is not None:
            prepare(text)
        if position == 0:
            first_ms = ask(text).first_page_ms
        answers[query_id] = ask(text)
        if progress is not None:
            progress(position + 1, len(queries))
    samples_ms = [answer.first_page_ms for answer in answers.values()]
    return answers, Latency.of(first_ms, samples_ms)


def answer_query(
    snapshot: Snapshot,
    query: str,
    mode: Mode,
    *,
    name_of: Callable[[Hit], str],
    depth: int | None,
    cancel: CancelToken | None = None,
) -> Answer:
    """Rank names by their best chunk.

    Chunks are reduced to names before the cutoff: pages are read until there are `depth` different
    ones or no more hits.
    """
    started = time.perf_counter()
    page = snapshot.search(query, mode=mode, limit=MAX_LIMIT, cancel=cancel)
    first_page_ms = (time.perf_counter() - started) * 1000
    first = page.hits
    found = dict.fromkeys(map(name_of, first))
    offset = len(first)
    while page.has_more and (depth is None or len(found) < depth):
        page = snapshot.search(query, mode=mode, limit=MAX_LIMIT, offset=offset, cancel=cancel)
        found.update(dict.fromkeys(map(name_of, page.hits)))
        offset += len(page.hits)
    cosines = [hit.semantic_score for hit in first if hit.semantic_score is not None]
    return Answer(
        ranking=tuple(found)[:depth],
        repeats=_repeats(first[:REPEATS_DEPTH]),
        top_cosine=max(cosines, default=None),
        coverage=_coverage(query, first[0]) if first else None,
        first_page_ms=first_page_ms,
    )


def _repeats(hits: Sequence[Hit]) -> tuple[bool, ...]:
    documents = [(hit.source, hit.document_id) for hit in hits]
    return tuple(document in documents[:at] for at, document in enumerate(documents))


def _coverage(query: str, hit: Hit) -> float:
    terms = query_terms(query)
    if not terms:
        return 0.0
    held = document_terms(
        "\n".join((hit.title, *hit.heading_path, hit.context, hit.text, hit.path))
    )
    return sum(term in held for term in terms) / len(terms)
