"""What a plan says that embedding will take; the documents it names are tested with the refresh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sqlindex import Index
from sqlindex.cli.refresh_cmd import _cost
from sqlindex.errors import BadVectorError, EmbedderError
from sqlindex.indexing.report import Changes, EmbeddingEstimate
from sqlindex.ports import OverLongPolicy
from sqlindex.testing import HashingEmbedder


class Counting(HashingEmbedder):
    """Counts words as tokens, and a start and an end."""

    token_limit = 512
    over_long_policy: OverLongPolicy = "truncate"

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) + 2 for text in texts]


class CountingHere(Counting):
    """The same, and it says that it runs in this process."""

    runs_locally = True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    return made


def _fill(folder: Path, documents: int) -> None:
    for number in range(documents):
        words = " ".join(f"word{number}x{at}" for at in range(3 + 17 * number % 90))
        (folder / f"{number:04}.md").write_text(f"# Note {number}\n\n{words}\n", encoding="utf-8")


def _index(tmp_path: Path, folder: Path, embedder: HashingEmbedder | None) -> Index:
    index = Index.open(tmp_path / "i.db", create=True, embedder=embedder)
    index.add_source(folder)
    return index


@pytest.mark.req("D-11")
def test_the_tokens_of_a_small_plan_are_those_that_are_then_embedded(
    tmp_path: Path, folder: Path
) -> None:
    _fill(folder, 40)
    embedder = Counting()
    with _index(tmp_path, folder, embedder) as index:
        estimate = index.plan().estimate
        assert embedder.document_inputs == []
        index.refresh()
    assert estimate == EmbeddingEstimate(sum(embedder.count_tokens(embedder.document_inputs)), None)


@pytest.mark.req("D-11")
def test_the_tokens_of_a_large_plan_are_close(tmp_path: Path, folder: Path) -> None:
    _fill(folder, 700)
    embedder = Counting()
    with _index(tmp_path, folder, embedder) as index:
        estimate = index.plan().estimate
        index.refresh()
    assert estimate is not None
    tokens = sum(embedder.count_tokens(embedder.document_inputs))
    assert estimate.tokens == pytest.approx(tokens, rel=0.1)


@pytest.mark.req("D-11")
def test_a_local_embedder_is_tried_on_texts_that_are_then_embedded(
    tmp_path: Path, folder: Path
) -> None:
    _fill(folder, 40)
    embedder = CountingHere()
    with _index(tmp_path, folder, embedder) as index:
        estimate = index.plan().estimate
        tried = embedder.document_inputs[:]
        assert 1 < len(tried) <= 17
        index.refresh()
        assert set(tried) <= set(embedder.document_inputs[len(tried) :])
        assert index.plan().estimate == EmbeddingEstimate(0, 0.0)
    assert estimate is not None
    assert estimate.seconds is not None
    assert estimate.seconds > 0


@pytest.mark.req("D-11", "A-29")
def test_another_embedder_is_told_the_texts_as_they_are_stored(
    tmp_path: Path, folder: Path
) -> None:
    _fill(folder, 40)
    first = Counting()
    with _index(tmp_path, folder, first) as index:
        index.refresh()
    second = CountingHere(revision="2")
    with Index.open(tmp_path / "i.db", embedder=second) as index:
        estimate = index.plan().estimate
    assert estimate is not None
    assert estimate.tokens == sum(first.count_tokens(first.document_inputs))
    assert set(second.document_inputs) <= set(first.document_inputs)


def test_a_plan_without_an_embedder_estimates_nothing(tmp_path: Path, folder: Path) -> None:
    _fill(folder, 3)
    with _index(tmp_path, folder, None) as index:
        assert index.plan().estimate is None


@pytest.mark.parametrize(
    ("tokens", "seconds", "told"),
    [
        (0, 0.0, ", about 0 tokens, less than a second on this machine"),
        (1_234_567, 75.4, ", about 1,200,000 tokens, about 75 s on this machine"),
        (99, 600.0, ", about 99 tokens, about 10 min on this machine"),
        (None, 36_000.0, ", about 10.0 h on this machine"),
        (500, None, ", about 500 tokens, how long the embedder takes is not known"),
    ],
)
def test_the_command_says_no_more_digits_than_it_knows(
    tokens: int | None, seconds: float | None, told: str
) -> None:
    estimate = EmbeddingEstimate(tokens, seconds)
    assert _cost(Changes(embedding_inputs=1, estimate=estimate)) == told


@pytest.mark.req("D-11")
@pytest.mark.parametrize("counted", [[math.nan, 3], [-1, 3], [3], None, ["3", "3"]])
def test_rubbish_for_token_counts_is_the_embedders_error(
    tmp_path: Path, folder: Path, counted: object
) -> None:
    _fill(folder, 2)
    embedder = Counting()
    embedder.count_tokens = lambda texts: counted  # type: ignore[method-assign, assignment, return-value]
    with _index(tmp_path, folder, embedder) as index, pytest.raises(EmbedderError) as caught:
        index.plan()
    assert caught.value.hint


@pytest.mark.req("D-11")
def test_what_counting_tokens_raises_is_the_embedders_error(tmp_path: Path, folder: Path) -> None:
    class Broken(Counting):
        def count_tokens(self, texts: Sequence[str]) -> list[int]:
            raise RuntimeError("no tokenizer")

    _fill(folder, 2)
    with (
        _index(tmp_path, folder, Broken()) as index,
        pytest.raises(EmbedderError, match="RuntimeError: no tokenizer"),
    ):
        index.plan()


@pytest.mark.req("D-11", "A-21")
def test_a_plan_that_leaves_out_bad_vectors_does_not_fail_at_one(
    tmp_path: Path, folder: Path
) -> None:
    class Spoilt(CountingHere):
        def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            raise BadVectorError("all zeros", row=0)

    _fill(folder, 2)
    with _index(tmp_path, folder, Spoilt()) as index:
        with pytest.raises(BadVectorError):
            index.plan()
        estimate = index.plan(allow_bad_vectors=True).estimate
        assert index.refresh(allow_bad_vectors=True).is_published
    assert estimate is not None
    assert estimate.seconds is None
