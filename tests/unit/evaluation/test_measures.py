"""Measures against values computed by hand."""

from __future__ import annotations

import builtins
import math

import pytest

from sqlindex.errors import OptionalDependencyError, UsageError
from sqlindex.evaluation.measures import MEASURES, measure_run, parse_measure

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
    means = {name: value for name, value in found.mean.items() if name != "P@5"}
    assert means == pytest.approx(dict.fromkeys(means, 2 / 3))
    assert found.mean["P@5"] == pytest.approx((1 / 5 + 3 / 5 + 0) / 3)
    assert found.by_query["missed"] == dict.fromkeys(MEASURES, 0.0)


def test_a_query_without_a_relevant_document_has_no_value() -> None:
    found = measure_run({"q": {"a": 0, "b": -1}}, {"q": ranking("a")}, ["q"])
    assert found.by_query == {}
    assert found.mean == dict.fromkeys(MEASURES)


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


@pytest.mark.parametrize(
    ("spellings", "name"),
    [
        (("nDCG@10", "ndcg@10", " NDCG_10", "ndcg_cut_10", "ndcg_cut.10", "ndcg@010"), "nDCG@10"),
        (("ndcg",), "nDCG"),
        (("nDCG(exp)@10", "ndcg(EXP)@10", "ndcg-exp@10", "ndcg_exp_10"), "nDCG(exp)@10"),
        (("P@5", "precision@5", "p_5"), "P@5"),
        (("r@100", "Recall@100", "recall_100"), "R@100"),
        (("hit@5", "hits@5", "hit_rate@5", "hit-rate@5", "Success@5", "success_5"), "hit@5"),
        (("mrr", "RR", "recip_rank"), "MRR"),
        (("mrr@10", "rr@10"), "MRR@10"),
        (("map", "AP"), "MAP"),
        (("map@10", "map_cut_10"), "MAP@10"),
        (("sufficient-hit@5", "sufficient_hit@5"), "sufficient-hit@5"),
        (("sufficient-RR",), "sufficient-RR"),
    ],
)
def test_usual_spellings_are_one_measure(spellings: tuple[str, ...], name: str) -> None:
    assert {parse_measure(spelling) for spelling in (*spellings, name)} == {name}
    sets = {"q": (frozenset("a"),)}
    found = measure_run({"q": {"a": 1}}, {"q": ranking("a")}, ["q"], [name], sufficient=sets)
    expected = 1 / int(name[2:]) if name.startswith("P@") else 1
    assert found.mean == pytest.approx({name: expected})


_UNKNOWN = ["", "@10", "10", "ndcg@", "ndcg@0", "ndcg@-1", "ndcg@x", "ndcg(2)@10", "ndcg@\n10"]
_BAD_CUTOFFS = ["P", "R", "hit", "sufficient-hit", "sufficient-RR@5", "ndcg@10@5", "P@1000000000"]


@pytest.mark.parametrize("text", [*_UNKNOWN, *_BAD_CUTOFFS, "ndcg@1.5", "f1@10"])
def test_what_is_no_measure_is_a_usage_error_that_names_the_measures(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_measure(text)
    assert repr(text) in str(caught.value)
    assert "nDCG@K" in caught.value.hint


def test_missing_places_count_as_not_relevant_in_precision() -> None:
    found = measure_run({"q": {"a": 1, "b": 1}}, {"q": ranking("a", "b")}, ["q"], ["P@2", "P@8"])
    assert found.mean == {"P@2": 1.0, "P@8": 0.25}


def test_exponential_gain_does_not_depend_on_the_order_of_the_measures() -> None:
    qrels = {"q": {"a": 3, "b": 1}}
    run = {"q": ranking("b", "a")}
    one = measure_run(qrels, run, ["q"], ["nDCG(exp)@10", "nDCG@10"])
    other = measure_run(qrels, run, ["q"], ["nDCG@10", "nDCG(exp)@10"])
    assert one.mean == other.mean
    assert one.mean["nDCG(exp)@10"] == pytest.approx(
        (1 + 7 / math.log2(3)) / (7 + 1 / math.log2(3))
    )
    assert one.mean["nDCG@10"] == pytest.approx((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)))


def test_a_sufficient_set_counts_when_it_is_whole() -> None:
    qrels = {query_id: {"a": 1} for query_id in ("q", "none", "unset")}
    sets = {"q": (frozenset("ab"), frozenset("c")), "none": (frozenset("z"),)}
    run = dict.fromkeys(qrels, ranking("a", "x", "b", "y", "c"))
    measures = ["sufficient-hit@2", "sufficient-hit@3", "sufficient-RR"]
    found = measure_run(qrels, run, list(qrels), measures, sufficient=sets)
    assert list(found.by_query["q"].values()) == [0.0, 1.0, 1 / 3]
    assert list(found.by_query["none"].values()) == [0.0, 0.0, 0.0]
    assert list(found.by_query["unset"].values()) == [None, None, None]
    assert list(found.mean.values()) == [0.0, 0.5, 1 / 6]


def test_equal_scores_are_ranked_as_trec_eval_does() -> None:
    found = measure_run({"q": {"a": 1}}, {"q": {"a": 1.0, "b": 1.0, "c": 0.5}}, ["q"], ["MRR"])
    assert found.mean == {"MRR": 0.5}
