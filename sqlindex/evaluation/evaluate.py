"""Evaluate an index on a judged collection: read → index → run → measure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from sqlindex.cancellation import NEVER, CancelToken
from sqlindex.errors import EmbedderRequiredError, UsageError
from sqlindex.evaluation.beir import CorpusDocument, JudgedCollection, read_collection
from sqlindex.evaluation.measures import measure_run
from sqlindex.evaluation.report import EvalReport, ModeResult
from sqlindex.evaluation.runs import run_queries
from sqlindex.index import Index
from sqlindex.indexing.report import Progress, ProgressSink, RefreshReport, no_progress
from sqlindex.model.requests import MODES, Mode
from sqlindex.ports import Embedder
from sqlindex.sources.memory import Document, MemorySource

SOURCE = "corpus"
"""Name of the collection's source in its index."""


def evaluate(
    folder: Path,
    modes: Sequence[Mode] = MODES,
    *,
    embedder: Embedder | None = None,
    index_path: Path | None = None,
    limit_queries: int | None = None,
    progress: ProgressSink | None = None,
    cancel: CancelToken | None = None,
) -> EvalReport:
    """Index a collection, search its queries in each mode, and measure the rankings.

    Judged are documents: chunks are reduced to their documents before every cutoff, 100 documents
    deep. Queries without a relevant document are not run. The index is kept and refreshed, so a
    second run embeds only what changed.

    Args:
        folder: see `beir.read_collection`.
        modes: in the order of the report.
        embedder: for semantic and hybrid; it stays the caller's.
        index_path: where the collection's index is kept; the user's cache folder if None.
        limit_queries: only the first queries of the file; at least 1.
        progress: called with the phases of the refresh, then with the phase `search`.
        cancel: checked between documents, batches and queries.

    Raises:
        UsageError: the collection is malformed, or the index holds something else.
        EmbedderRequiredError: a mode needs an embedder and none is given.
        OptionalDependencyError: ir-measures is missing.
        ValueError: `modes` or `limit_queries` is out of range.
    """
    _check_request(modes, embedder, limit_queries)
    measure_run({}, {}, ())  # a missing package shows now, not after an hour of embedding
    sink = progress or no_progress
    token = cancel or NEVER
    collection = read_collection(folder)
    query_ids = collection.answerable[:limit_queries]
    queries = {query_id: collection.queries[query_id] for query_id in query_ids}
    if all(mode == "lexical" for mode in modes):
        embedder = None
    with Index.open(
        index_path or default_index_path(collection), create=True, embedder=embedder
    ) as index:
        started = time.perf_counter()
        refreshed = _bring_up_to_date(index, collection, embedder, token, sink)
        index_s = time.perf_counter() - started
        results = []
        for position, mode in enumerate(modes):

            def searched(done: int, _: int, finished: int = position * len(queries)) -> None:
                sink(Progress("search", finished + done, len(modes) * len(queries)))

            run, latency = run_queries(index, queries, mode, cancel=token, progress=searched)
            measured = measure_run(collection.qrels, run, query_ids)
            results.append(ModeResult(mode, measured.mean, measured.by_query, latency))
        status = index.status()
    return EvalReport(
        collection=collection.name,
        corpus_sha256=collection.corpus_sha256,
        queries_sha256=collection.queries_sha256,
        qrels_sha256=collection.qrels_sha256,
        documents=len(collection.documents),
        refused=len(refreshed.changes.refused),
        chunks=status.chunks,
        unknown_judged=collection.unknown_judged,
        queries=len(queries),
        answerable=len(collection.answerable),
        embedder=status.space,
        embedded=refreshed.embedded,
        reused=refreshed.reused,
        truncated=refreshed.truncated,
        index_s=index_s,
        modes=tuple(results),
    )


def default_index_path(collection: JudgedCollection) -> Path:
    """Where a collection's index is kept: the user's cache, by name and corpus; its folder is made."""
    import platformdirs

    cache = Path(platformdirs.user_cache_dir("sqlindex", appauthor=False)) / "eval"
    cache.mkdir(parents=True, exist_ok=True)
    return cache / f"{collection.name}-{collection.corpus_sha256[:8]}.db"


def host_document(document: CorpusDocument) -> Document:
    """A document of a corpus as the index gets it.

    The title stands above the text, as BEIR feeds embedders; so both channels see it. It is the
    title of the document too, which lexical search weighs by itself.
    """
    text = f"{document.title}\n\n{document.text}" if document.title else document.text
    return Document(document.id, text, title=document.title or None)


def _check_request(
    modes: Sequence[Mode], embedder: Embedder | None, limit_queries: int | None
) -> None:
    if not modes or len(set(modes)) != len(modes) or not set(modes) <= set(MODES):
        raise ValueError(f"modes must be different ones of {', '.join(MODES)}, not {list(modes)}")
    if limit_queries is not None and limit_queries < 1:
        raise ValueError(f"limit_queries must be at least 1, not {limit_queries}")
    if embedder is None and any(mode != "lexical" for mode in modes):
        raise EmbedderRequiredError(
            "evaluating semantic or hybrid search needs an embedder",
            hint="name one, or evaluate with mode lexical only",
        )


def _bring_up_to_date(
    index: Index,
    collection: JudgedCollection,
    embedder: Embedder | None,
    cancel: CancelToken,
    progress: ProgressSink,
) -> RefreshReport:
    foreign = [source.name for source in index.status().sources if source.name != SOURCE]
    if foreign:
        raise UsageError(
            f"index {index.path} has the sources {', '.join(foreign)}; their documents would be "
            "ranked too",
            hint="name an index of its own for the evaluation",
        )
    index.add_source(MemorySource(SOURCE, map(host_document, collection.documents)))
    # Without an embedder the head goes lexical only; its vectors stay stored and are found again.
    return index.refresh([SOURCE], drop_vectors=embedder is None, cancel=cancel, progress=progress)
