"""Runs: documents instead of chunks, pages until the depth, scores that leave no ties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlindex.cancellation import CancelToken
from sqlindex.errors import CancelledError, EmbedderRequiredError, HeadMovedError
from sqlindex.evaluation.runs import Latency, percentile, rank_documents, run_queries
from sqlindex.index import Index
from sqlindex.model.requests import MODES, Mode
from sqlindex.model.results import SearchResult
from sqlindex.sources.memory import Document
from sqlindex.testing.embedders import HashingEmbedder

pytestmark = pytest.mark.req("A-32")

_PARAGRAPHS = 40
_WORDS = " ".join(["filler"] * 150)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """Three documents of 40 chunks each, all about the same, and thirty of one chunk."""
    long = "\n\n".join(f"harbour {at} {_WORDS}" for at in range(_PARAGRAPHS))
    documents = [Document(f"long{at}", f"harbour harbour {long} {at}") for at in range(3)]
    documents += [Document(f"short{at:02}", f"{_WORDS} harbour {at}") for at in range(30)]
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as opened:
        opened.upsert("corpus", documents)
        yield opened
        assert opened.check() == []


@pytest.mark.parametrize("mode", MODES)
def test_chunks_are_reduced_to_documents_over_several_pages(index: Index, mode: Mode) -> None:
    assert index.status().chunks > 100
    found = rank_documents(index, "harbour", mode, depth=100).documents
    assert sorted(found) == sorted({*found})
    assert len(found) == 33


def test_a_document_stands_at_the_rank_of_its_best_chunk(index: Index) -> None:
    found = rank_documents(index, "harbour 7", "lexical", depth=100).documents
    pages = [index.search("harbour 7", mode="lexical", limit=100, offset=at) for at in (0, 100)]
    hits = [hit.document_id for page in pages for hit in page.hits]
    assert found == tuple(dict.fromkeys(hits))


def test_the_ranking_ends_at_the_depth(index: Index) -> None:
    deep = rank_documents(index, "harbour", "lexical", depth=100).documents
    assert rank_documents(index, "harbour", "lexical", depth=5).documents == deep[:5]


def test_scores_of_a_run_strictly_decrease_in_the_order_of_the_ranking(index: Index) -> None:
    run, latency = run_queries(index, {"q": "harbour", "none": "nowhere"}, "lexical")
    scores = list(run["q"].values())
    assert scores == sorted(set(scores), reverse=True)
    assert list(run["q"]) == list(rank_documents(index, "harbour", "lexical", depth=100).documents)
    assert run["none"] == {}
    assert latency.first_ms > 0
    assert latency.p50_ms <= latency.p95_ms


def test_progress_counts_queries_and_a_cancelled_run_stops(index: Index) -> None:
    token = CancelToken()
    seen: list[tuple[int, int]] = []

    def stop_after_two(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 2:
            token.cancel()

    queries = {str(at): "harbour" for at in range(5)}
    with pytest.raises(CancelledError):
        run_queries(index, queries, "lexical", cancel=token, progress=stop_after_two)
    assert seen == [(1, 5), (2, 5)]


def test_a_generation_published_between_two_pages_is_an_error(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = index.search

    def search_and_publish(*args: object, **kwargs: object) -> SearchResult:
        result = search(*args, **kwargs)  # type: ignore[arg-type]  # handed through
        index.upsert("corpus", [Document("new", f"harbour {result.generation}")])
        return result

    monkeypatch.setattr(index, "search", search_and_publish)
    with pytest.raises(HeadMovedError):
        rank_documents(index, "harbour", "lexical", depth=100)


def test_semantic_runs_need_an_embedder(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True) as opened:
        opened.upsert("corpus", [Document("d", "harbour")])
        with pytest.raises(EmbedderRequiredError):
            run_queries(opened, {"q": "harbour"}, "semantic")


def test_percentiles_are_samples_by_nearest_rank() -> None:
    samples = [float(at) for at in range(1, 101)]
    assert percentile(samples, 50) == 50
    assert percentile(samples, 95) == 95
    assert percentile([3.0, 1.0, 2.0], 95) == 3
    assert percentile([7.0], 50) == 7
    assert Latency.of(0.0, []) == Latency(0.0, 0.0, 0.0)
