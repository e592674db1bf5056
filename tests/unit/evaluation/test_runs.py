"""Runs: documents instead of chunks, pages until the depth, what the first page tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlindex.cancellation import CancelToken
from sqlindex.errors import CancelledError, EmbedderRequiredError, LexicalHistoryError
from sqlindex.evaluation.runs import (
    Answer,
    Latency,
    answer_query,
    percentile,
    ranking_of,
    run_queries,
)
from sqlindex.index import Index
from sqlindex.model.requests import MODES, Mode
from sqlindex.model.results import Hit
from sqlindex.snapshot import Snapshot
from sqlindex.sources.memory import Document
from sqlindex.testing.embedders import HashingEmbedder

pytestmark = pytest.mark.req("A-32")

_PARAGRAPHS = 40
_WORDS = " ".join(["filler"] * 150)


def document_of(hit: Hit) -> str:
    return hit.document_id


def documents(
    index: Index, query: str, mode: Mode = "lexical", depth: int | None = 100
) -> tuple[str, ...]:
    return answered(index, query, mode, depth).ranking


def answered(index: Index, query: str, mode: Mode = "lexical", depth: int | None = 100) -> Answer:
    with index.snapshot() as snapshot:
        return answer_query(snapshot, query, mode, name_of=document_of, depth=depth)


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
    found = documents(index, "harbour", mode)
    assert sorted(found) == sorted({*found})
    assert len(found) == 33


def test_a_document_stands_at_the_rank_of_its_best_chunk(index: Index) -> None:
    found = documents(index, "harbour 7")
    pages = [index.search("harbour 7", mode="lexical", limit=100, offset=at) for at in (0, 100)]
    hits = [hit.document_id for page in pages for hit in page.hits]
    assert found == tuple(dict.fromkeys(hits))


def test_the_ranking_ends_at_the_depth_or_with_the_last_hit(index: Index) -> None:
    whole = documents(index, "harbour", depth=None)
    assert len(whole) == 33
    assert documents(index, "harbour", depth=5) == whole[:5]
    with index.snapshot() as snapshot:
        chunks = answer_query(
            snapshot, "harbour", "lexical", name_of=lambda hit: hit.chunk_id, depth=None
        )
    assert len(chunks.ranking) == index.status().chunks


def test_repeats_are_positions_of_documents_that_stood_above(index: Index) -> None:
    hits = index.search("harbour 7", mode="lexical", limit=10).hits
    ids = [hit.document_id for hit in hits]
    repeats = answered(index, "harbour 7").repeats
    assert repeats == tuple(name in ids[:at] for at, name in enumerate(ids))
    assert any(repeats)
    assert not repeats[0]


def test_the_top_cosine_is_that_of_the_semantic_leader(index: Index) -> None:
    leader = index.search("harbour 7", mode="semantic", limit=1).hits[0]
    for mode in ("semantic", "hybrid"):
        assert answered(index, "harbour 7", mode).top_cosine == leader.semantic_score
    assert answered(index, "harbour 7").top_cosine is None


@pytest.mark.parametrize(
    ("query", "coverage"),
    [("harbour", 1.0), ("harbour lighthouse", 0.5), ("harbour a b c", 0.25), ("nowhere", None)],
)
def test_coverage_is_the_share_of_terms_in_the_first_hit(
    index: Index, query: str, coverage: float | None
) -> None:
    assert answered(index, query).coverage == coverage


def test_a_query_without_terms_covers_nothing_of_what_it_finds(index: Index) -> None:
    assert answered(index, "?!", "semantic").coverage == 0.0


def test_every_query_is_answered_and_timed(index: Index) -> None:
    prepared: list[str] = []
    with index.snapshot() as snapshot:
        answers, latency = run_queries(
            snapshot,
            {"q": "harbour", "none": "nowhere"},
            "lexical",
            name_of=document_of,
            prepare=prepared.append,
        )
    assert answers["q"].ranking == documents(index, "harbour")
    assert answers["none"].ranking == ()
    assert prepared == ["harbour", "nowhere"]
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
    with index.snapshot() as snapshot, pytest.raises(CancelledError):
        run_queries(
            snapshot,
            queries,
            "lexical",
            name_of=document_of,
            cancel=token,
            progress=stop_after_two,
        )
    assert seen == [(1, 5), (2, 5)]


def test_a_generation_published_meanwhile_ends_a_lexical_run_and_no_semantic_one(
    index: Index,
) -> None:
    def publish(_: str) -> None:
        index.upsert("corpus", [Document("new", f"harbour {len(index.history())}")])

    def run(snapshot: Snapshot, mode: Mode) -> dict[str, Answer]:
        return run_queries(snapshot, {"q": "harbour"}, mode, name_of=document_of, prepare=publish)[
            0
        ]

    before = documents(index, "harbour", "semantic")
    with index.snapshot() as snapshot:
        assert run(snapshot, "semantic")["q"].ranking == before
    with index.snapshot() as snapshot, pytest.raises(LexicalHistoryError):
        run(snapshot, "lexical")


def test_semantic_runs_need_an_embedder(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True) as opened:
        opened.upsert("corpus", [Document("d", "harbour")])
        with pytest.raises(EmbedderRequiredError):
            answered(opened, "harbour", "semantic")


def test_scores_are_ranked_by_descending_score_then_descending_name() -> None:
    assert ranking_of({"a": 1.0, "c": 2.0, "b": 1.0}) == ("c", "b", "a")


def test_percentiles_are_samples_by_nearest_rank() -> None:
    samples = [float(at) for at in range(1, 101)]
    assert percentile(samples, 50) == 50
    assert percentile(samples, 95) == 95
    assert percentile([3.0, 1.0, 2.0], 95) == 3
    assert percentile([7.0], 50) == 7
    assert Latency.of(0.0, []) == Latency(0.0, 0.0, 0.0)
