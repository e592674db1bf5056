"""Conditions of a gate: read strictly, with errors that point at the column."""

from __future__ import annotations

import pytest

from sqlindex import Gate
from sqlindex.errors import UsageError
from sqlindex.model.gate import GateCondition


@pytest.mark.req("D-10")
def test_conditions_are_read_with_canonical_measures_and_the_depth_they_need() -> None:
    gate = Gate(" NDCG@10>=.8 , hit@5 > 0.9,mrr@20 >= 1", "lexical")
    assert gate.conditions == (
        GateCondition("nDCG@10", ">=", 0.8),
        GateCondition("hit@5", ">", 0.9),
        GateCondition("MRR@20", ">=", 1.0),
    )
    assert gate.depth == 20
    assert Gate("mrr >= 0.5, p@3 >= 0").depth == 100
    assert [str(c) for c in gate.conditions] == ["nDCG@10 >= 0.8", "hit@5 > 0.9", "MRR@20 >= 1"]


@pytest.mark.req("D-10")
@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, "a condition is missing"),
        ("ndcg@10 >= 0.8,", 16, "a condition is missing"),
        ("ndcg@10", 8, "a comparison is missing"),
        ("ndcg@10 <= 0.8", 9, "'<=' is no comparison"),
        ("ndcg@10 => 0.8", 9, "'=>' is no comparison"),
        ("hit@5 >= 0.9, ndcg@10 >= high", 26, "'high' is no number"),
        ("ndcg@10 >= 80", 12, "'80' is no number within 0..1"),
        ("hit@5 >= 50%", 10, "'50%' is no number within 0..1: write 0.5"),
        ("hit@5 >= 80", 10, "'80' is no number within 0..1: write 0.8"),
        ("hit@5 >= 0,5", 11, "a comma parts conditions: write numbers like 0.5"),
        ("hit@5 ≤ 0.5", 7, "'≤' is no comparison"),
        ("ndcg@10 >= -1", 12, "'-1' is no number"),
        ("ndcg@10 >= ", 12, "'' is no number"),
        ("ndcg@10 >= nan", 12, "'nan' is no number"),
        ("ndcg@10 >= 0.8 0.9", 12, "'0.8 0.9' is no number"),
        ("hit@5 >= 0.9,  nice@5 >= 0.8", 16, "'nice@5' is no measure"),
        ("hit >= 0.9", 1, "needs a cutoff"),
        ("hit@5 > 1", 7, "no value is above 1"),
        (">= 0.9", 1, "'' is no measure"),
        ("sufficient-hit@5 >= 0.5", 1, "needs sets that questions do not have"),
    ],
)
def test_an_error_names_the_column(text: str, column: int, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        Gate(text)
    assert f"gate {text!r}, column {column}: " in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.req("D-10")
def test_rankings_are_measured_question_by_question() -> None:
    gate = Gate("hit@1 >= 0, rr >= 0")
    qrels = {"a": {"1": 1}, "b": {"2": 3}, "c": {"9": 1}}
    rankings = {"a": ["1", "2"], "b": ["1", "2"], "c": []}
    assert gate.measure(qrels, rankings) == {
        "a": {"hit@1": 1.0, "MRR": 1.0},
        "b": {"hit@1": 0.0, "MRR": 0.5},
        "c": {"hit@1": 0.0, "MRR": 0.0},
    }


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="mode must be one of"):
        Gate("hit@1 >= 0", "fuzzy")  # type: ignore[arg-type]  # that is the point


def test_a_hint_names_only_measures_that_a_gate_takes() -> None:
    for text in ("nice@5 >= 0.8", "hit >= 0.9", "sufficient-hit@5 >= 0.5"):
        with pytest.raises(UsageError) as caught:
            Gate(text)
        assert "hit@K" in caught.value.hint
        assert "sufficient" not in caught.value.hint


def test_the_sign_of_mathematics_is_read_too() -> None:
    assert Gate("hit@5 ≥ 0.5").conditions == Gate("hit@5 >= 0.5").conditions
