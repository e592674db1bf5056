"""Retrieval quality on SciFact, and the semantic value computed a second time independently."""

from __future__ import annotations

from collections.abc import Iterator

from bench.data import data_folder
from bench.figures import Figure, at_most, reported
from bench.independent import semantic_ndcg
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import require_staged
from sqlindex.evaluation.beir import read_collection
from sqlindex.evaluation.collection_index import default_index_path
from sqlindex.evaluation.evaluate import evaluate
from sqlindex.evaluation.options import EvalOptions

COLLECTION = "scifact-train"
DIFFERENCE_LIMIT = 0.001


def run(n: int | None) -> Iterator[Figure]:
    """Evaluate the three modes on the first `n` queries; all answerable ones by default.

    The index is kept in the user's cache: the first run embeds 5,183 abstracts, which takes
    minutes, later ones embed nothing.
    """
    folder = data_folder(COLLECTION)
    embedder = LocalEmbedder(require_staged("minilm"))
    try:
        report = evaluate(folder, embedder=embedder, options=EvalOptions(limit_queries=n))
        collection = read_collection(folder)
        query_ids = collection.answerable[:n]
        query_vectors = {
            query_id: embedder.embed_query(collection.queries[query_id]) for query_id in query_ids
        }
    finally:
        embedder.close()
    queries = len(report.queries)
    (index,) = report.indexes
    yield reported("scifact.documents", index.documents, "documents", queries)
    yield reported("scifact.chunks", index.chunks, "chunks", queries)
    yield reported("scifact.embedded", index.embedded, "texts", queries)
    yield reported("scifact.index", index.index_s or 0.0, "s", queries)
    for result in report.runs:
        for measure, value in result.mean.items():
            if value is not None:
                yield reported(f"scifact.{result.mode}.{measure}", value, "mean", queries)
        assert result.latency is not None
        yield reported(f"scifact.{result.mode}.p50", result.latency.p50_ms, "ms", queries)
        yield reported(f"scifact.{result.mode}.p95", result.latency.p95_ms, "ms", queries)
    if report.query_embedding is not None:
        for name in ("p50_ms", "p95_ms"):
            value = getattr(report.query_embedding, name)
            yield reported(f"scifact.embed_query.{name[:3]}", value, "ms", queries)
    (semantic,) = (result for result in report.runs if result.mode == "semantic")
    ours = {query_id: row["nDCG@10"] or 0.0 for query_id, row in semantic.by_query.items()}
    again = semantic_ndcg(default_index_path(collection), query_vectors, collection.qrels)
    mean = sum(again.values()) / len(again)
    yield Figure(
        figure="scifact.semantic.nDCG@10.difference",
        value=abs(sum(ours.values()) / len(ours) - mean),
        unit="absolute",
        n=queries,
        limit=DIFFERENCE_LIMIT,
        sense="<=",
        baseline=mean,
    )
    differing = sum(
        abs(ours[query_id] - value) > DIFFERENCE_LIMIT for query_id, value in again.items()
    )
    yield at_most("scifact.semantic.queries_differing", differing, "queries", queries, 0)
