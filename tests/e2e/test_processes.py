"""One opened index in the children of each start method: inherited over a fork, or pickled."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqlindex import Document, Index, IndexConfig, SearchConfig
from sqlindex.errors import NoIndexError, UsageError
from sqlindex.testing import HashingEmbedder

if TYPE_CHECKING:
    from sqlindex.embedding.staged import StagedModel

METHODS = multiprocessing.get_all_start_methods()
DOCUMENTS = [Document(f"d{n}", f"The pump number {n} is hot.") for n in range(5)]

inherited: list[Index] = []


def found(index: Index, query: str) -> tuple[int, str, list[str]]:
    result = index.search(query)
    return result.generation, result.mode, [hit.document_id for hit in result.hits]


def found_by_pickled(index: Index, query: str) -> tuple[int, str, list[str]]:
    with index:
        return found(index, query)


def found_by_inherited(query: str) -> tuple[int, str, list[str]]:
    return found(inherited[0], query)


@pytest.mark.req("A-24", "A-30")
@pytest.mark.parametrize("method", METHODS)
def test_the_children_of_a_pool_search_an_index_that_is_sent_to_them(
    method: str, tmp_path: Path
) -> None:
    context = multiprocessing.get_context(method)
    with (
        Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder(16)) as index,
        ProcessPoolExecutor(2, context) as pool,
    ):
        index.upsert("notes", DOCUMENTS)
        here = found(index, "pump 3")
        there = [pool.submit(found_by_pickled, index, "pump 3") for _ in range(3)]
        assert [each.result(60) for each in there] == [here] * 3
        assert here[1] == "hybrid"
        index.upsert("notes", [Document("new", "A valve.")])
        assert pool.submit(found_by_pickled, index, "valve").result(60)[0] == 2


@pytest.mark.req("A-24", "A-30")
@pytest.mark.skipif("fork" not in METHODS, reason="there is no fork here")
def test_the_forked_children_of_a_pool_search_the_index_that_they_inherit(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder(16)) as index:
        index.upsert("notes", DOCUMENTS)
        here = found(index, "pump 3")
        inherited[:] = [index]
        with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
            there = [pool.submit(found_by_inherited, "pump 3") for _ in range(4)]
            assert [each.result(60) for each in there] == [here] * 4
            index.upsert("notes", [Document("new", "A valve.")])
            assert pool.submit(found_by_inherited, "valve").result(60)[0] == 2
        inherited.clear()
        assert found(index, "valve")[0] == 2
        assert index.check() == []


def test_a_pickled_index_is_opened_as_it_was(tmp_path: Path) -> None:
    config, search_config = IndexConfig(embedding_batch=3), SearchConfig(title_weight=0.0)
    with Index.open(
        tmp_path / "i.db", create=True, config=config, search_config=search_config
    ) as index:
        index.upsert("notes", [Document("d", "text", title="pump"), Document("e", "pump")])
        scores = [hit.lexical_score for hit in index.search("pump").hits]
        with pickle.loads(pickle.dumps(index)) as copy:
            assert copy.path == index.path
            assert [hit.lexical_score for hit in copy.search("pump").hits] == scores
            assert copy.upsert("notes", [Document("f", "valve")]).generation == 2
        with Index.open(index.path) as other:
            assert [hit.lexical_score for hit in other.search("pump").hits] != scores
        packed = pickle.dumps(index)
    for suffix in ("", "-wal", "-shm", "-lock"):
        Path(f"{tmp_path / 'i.db'}{suffix}").unlink(missing_ok=True)
    with pytest.raises(NoIndexError):
        pickle.loads(packed)


def test_an_embedder_that_cannot_be_pickled_is_named_as_the_reason(tmp_path: Path) -> None:
    embedder = HashingEmbedder(16)
    embedder.lock = threading.Lock()  # type: ignore[attr-defined]  # what many real ones hold
    with (
        Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index,
        pytest.raises(UsageError, match=r"embedder .* cannot be pickled") as refused,
    ):
        pickle.dumps(index)
    assert "open the index in the other process" in refused.value.hint


@pytest.mark.model
def test_a_model_is_pickled_as_the_place_of_its_files() -> None:
    from sqlindex.embedding.local import LocalEmbedder
    from sqlindex.embedding.staged import find_staged

    staged: StagedModel | None = find_staged("minilm")
    assert staged is not None
    embedder = LocalEmbedder(staged, threads=1)
    vector = embedder.embed_query("pump")
    packed = pickle.dumps(embedder)
    assert len(packed) < 10_000
    copy = pickle.loads(packed)
    assert copy.identity == embedder.identity
    assert copy.embed_query("pump").tobytes() == vector.tobytes()
    embedder.close()
    copy.close()
