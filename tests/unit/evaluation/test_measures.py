"""Measures against values computed by hand."""

from __future__ import annotations

import builtins
import math

import pytest

from sqlindex.errors import OptionalDependencyError
from sqlindex.evaluation.measures import MEASURES, measure_run

pytestmark = pytest.mark.req("A-32")


def ranking(*documents: str) -> dict[str, float]:
    return {document: float(100 - at) for at, document in enumerate(documents)}


def test_ndcg_has_linear_gain_and_a_logarithmic_discount() -> None:
    qrels = {"q": {"a": 2, "b": 1, "c": 3}}
    found = measure_run(qrels, {"q": ranking("x", "a", "c")}, ["q"])
    gained = 2 / math.log2(3) + 3 / math.log2(4)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert found.by_query["q"]["nDCG@10"] == pytest.approx(gained / ideal)


def test_mrr_is_the_reciprocal_of_the_first_relevant_rank_however_deep() -> None:
    documents = [f"x{at}" for at in range(19)]
    found = measure_run({"q": {"a": 1, "b": 1}}, {"q": ranking(*documents, "b", "a")}, ["q"])
    assert found.mean["MRR"] == pytest.approx(1 / 20)


def test_recall_counts_what_lies_above_the_cutoff() -> None:
    run = {"q": ranking("a", *(f"x{at}" for at in range(9)), "b")}
    found = measure_run({"q": {"a": 1, "b": 2, "c": 1, "d": 0}}, run, ["q"])
    assert found.mean["R@10"] == pytest.approx(1 / 3)
    assert found.mean["R@100"] == pytest.approx(2 / 3)


def test_every_answerable_query_counts_the_same_and_an_empty_ranking_counts_zero() -> None:
    qrels = {"one": {"a": 1}, "many": {"a": 1, "b": 1, "c": 1}, "missed": {"a": 1}}
    run = {"one": ranking("a"), "many": ranking("a", "b", "c"), "missed": {}}
    found = measure_run(qrels, run, ["one", "many", "missed", "unjudged"])
    assert list(found.by_query) == ["one", "many", "missed"]
    assert found.mean == pytest.approx(dict.fromkeys(MEASURES, 2 / 3))
    assert found.by_query["missed"] == dict.fromkeys(MEASURES, 0.0)


def test_a_query_without_a_relevant_document_has_no_value() -> None:
    found = measure_run({"q": {"a": 0, "b": -1}}, {"q": ranking("a")}, ["q"])
    assert found.by_query == {}
    assert found.mean == dict.fromkeys(MEASURES, 0.0)


def test_grades_below_zero_count_as_zero() -> None:
    found = measure_run({"q": {"a": 1, "b": -2}}, {"q": ranking("b", "a")}, ["q"])
    assert found.mean["nDCG@10"] == pytest.approx(1 / math.log2(3))
    assert found.mean["MRR"] == pytest.approx(1 / 2)


def test_only_the_named_queries_count() -> None:
    qrels = {"p": {"a": 1}, "q": {"a": 1}}
    found = measure_run(qrels, {"p": ranking("a"), "q": ranking("b")}, ["p"])
    assert found.mean["MRR"] == 1.0


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *args: object, **kwargs: object) -> object:
        if name == "ir_measures":
            raise ImportError(name)
        return original(name, *args, **kwargs)  # type: ignore[arg-type]  # handed through

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(OptionalDependencyError) as caught:
        measure_run({}, {}, [])
    assert caught.value.hint == "pip install 'sqlindex[eval]'"
