"""Results of answers: classes, no-answer queries, distributions; and comparisons of results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlindex.errors import UsageError
from sqlindex.evaluation.baseline import compare_with_baseline
from sqlindex.evaluation.compare import compare, compare_all
from sqlindex.evaluation.judgements import JudgedQuery, Judgements
from sqlindex.evaluation.report import SCHEMA, Distribution, RunResult
from sqlindex.evaluation.results import Judged, queries_to_run, result_of
from sqlindex.evaluation.runs import Answer
from sqlindex.evaluation.trec import write_run

pytestmark = pytest.mark.req("A-32")

_QUERIES = (
    JudgedQuery("q1", "one", ("direct",)),
    JudgedQuery("n1", "never", ("negative",), has_no_answer=True),
    JudgedQuery("q2", "two", ("direct", "German")),
    JudgedQuery("n2", "nearly", ("near miss",), has_no_answer=True),
    JudgedQuery("n3", "nearly too", ("near miss",), has_no_answer=True),
    JudgedQuery("q3", "three"),
)
_QRELS = {"q1": {"a": 1}, "q2": {"b": 2}, "q3": {"c": 1}, "other": {"x": 0}}
JUDGED = Judged(_QUERIES, _QRELS, ("MRR", "sufficient-RR"))


def answered(*ranking: str, cosine: float | None = None, coverage: float | None = None) -> Answer:
    return Answer(ranking, tuple(at > 0 for at in range(len(ranking))), cosine, coverage, 1.0)


ANSWERS = {
    "q1": answered("a", cosine=0.9, coverage=0.5),
    "q2": answered("x", "b", cosine=0.7, coverage=0.5),
    "q3": answered(),
    "n1": answered(),
    "n2": answered("a", cosine=0.4, coverage=0.5),
    "n3": answered("a", "b", cosine=0.2, coverage=0.4),
}


def a_result(name: str = "semantic", **answers: Answer) -> RunResult:
    return result_of(name, ANSWERS | answers, JUDGED, configuration="default", mode="semantic")


def test_means_are_of_the_answerable_queries_and_undefined_ones_are_none() -> None:
    found = a_result()
    assert found.mean == {"MRR": 0.5, "sufficient-RR": None}
    assert found.by_query["q3"]["MRR"] == 0.0
    assert list(found.bounds) == ["MRR"]
    assert found.bounds["MRR"].mean == 0.5
    assert found.first_relevant == {"q1": 1, "q2": 2, "q3": None}


def test_a_query_counts_in_each_of_its_classes() -> None:
    found = [(one.name, one.queries, one.mean["MRR"]) for one in a_result().classes]
    assert found == [("direct", 2, 0.75), ("German", 1, 0.5)]


def test_no_answer_queries_are_reported_apart() -> None:
    found = a_result()
    rates = {one.name: (one.non_empty_rate, one.false_alarm_rate) for one in found.no_answer}
    assert rates == {"negative": (0.0, 0.0), "near miss": (1.0, 0.5)}
    assert found.cosines == {
        "answerable": Distribution((0.7, 0.9)),
        "near miss": Distribution((0.2, 0.4)),
    }
    assert found.cosines["answerable"].median == pytest.approx(0.8)
    assert Distribution((1.0, 2.0, 9.0)).median == 2.0


def test_repeats_are_shares_of_the_answerable_queries_by_rank() -> None:
    repeats = (False, True, True)
    found = a_result(
        q1=Answer(("a",), repeats, 0.9, 0.5, 1.0), q3=Answer(("c",), (False,), None, None, 1.0)
    )
    assert found.repeated[:4] == pytest.approx((0.0, 2 / 3, 1 / 3, 0.0))


def test_of_a_saved_run_only_rankings_are_known() -> None:
    answers = {query_id: Answer.saved({"a": 1.0}) for query_id in ("q1", "n2")}
    found = result_of("saved", answers, JUDGED)
    rates = {one.name: (one.non_empty_rate, one.false_alarm_rate) for one in found.no_answer}
    assert rates == {"negative": (0.0, None), "near miss": (0.5, None)}
    assert (found.repeated, found.cosines, found.latency) == ((), {}, None)


def test_queries_that_are_neither_judged_nor_without_an_answer_are_not_run() -> None:
    queries = {query.id: query for query in (*_QUERIES, JudgedQuery("other", "unjudged"))}
    judgements = Judgements("c", queries, _QRELS, "", "")
    assert [query.id for query in queries_to_run(judgements, None)] == [q.id for q in _QUERIES]
    assert [query.id for query in queries_to_run(judgements, 2)] == ["q1", "n1"]


def test_a_comparison_names_the_greatest_loss_first() -> None:
    after = a_result("after", q1=answered("x", "y", "a"), q3=answered("c"))
    (found,) = compare_all([a_result("before"), after], JUDGED.measures)
    assert (found.before, found.after, found.is_baseline) == ("before", "after", False)
    assert [(delta.query_id, delta.difference) for delta in found.deltas] == [
        ("q1", pytest.approx(-2 / 3)),
        ("q2", 0.0),
        ("q3", 1.0),
    ]
    (mrr,) = found.differences
    assert (mrr.measure, mrr.queries, mrr.before) == ("MRR", 3, 0.5)
    assert mrr.difference.mean == pytest.approx(mrr.after - mrr.before)
    assert mrr.difference.low <= mrr.difference.mean <= mrr.difference.high
    assert 0 < mrr.p <= 1


def test_only_queries_that_both_sides_measure_are_compared() -> None:
    found = compare(
        ("a", {"q": {"MRR": 1.0}, "r": {"MRR": None}, "s": {"MRR": 1.0}}),
        ("b", {"q": {"MRR": 0.5}, "r": {"MRR": 1.0}, "t": {"MRR": 1.0}}),
        ["MRR"],
    )
    assert [delta.query_id for delta in found.deltas] == ["q"]
    assert found.differences[0].queries == 1
    assert compare(("a", {}), ("b", {}), ["MRR"]).differences == ()


def test_a_baseline_may_be_a_run_file(tmp_path: Path) -> None:
    write_run(tmp_path / "old.run", {"q1": ["a"], "q2": ["b"], "q3": ["c"]}, "old")
    (found,) = compare_with_baseline(
        tmp_path / "old.run", [a_result()], JUDGED, level="document", qrels_sha256=""
    )
    assert (found.before, found.after, found.is_baseline) == ("old.run", "semantic", True)
    assert found.differences[0].before == 1.0


def saved_report(path: Path, **changes: object) -> Path:
    runs = [
        {"name": name, "mode": mode, "by_query": {"q1": {"MRR": value}}}
        for name, mode, value in (
            ("small/semantic", "semantic", 0.1),
            ("semantic", "semantic", 0.2),
            ("lexical", "lexical", 0.3),
        )
    ]
    report = {"schema": SCHEMA, "qrels_sha256": "x", "level": "document", "runs": runs}
    path.write_text(json.dumps(report | changes))
    return path


@pytest.mark.parametrize(
    ("name", "before"),
    [("semantic", "old.json: semantic"), ("new/semantic", "old.json: small/semantic")],
)
def test_a_baseline_may_be_a_report_whose_runs_are_found_by_name_or_mode(
    tmp_path: Path, name: str, before: str
) -> None:
    path = saved_report(tmp_path / "old.json")
    (found,) = compare_with_baseline(
        path, [a_result(name)], JUDGED, level="document", qrels_sha256="x"
    )
    assert found.before == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 1}, "has schema 1, not 2"),
        ({"level": "chunk"}, "other judgements, or on the other level"),
        ({"qrels_sha256": "y"}, "other judgements"),
        ({"runs": 7}, "is no report of an evaluation"),
        ({"runs": []}, "has no run with the modes"),
        ({"runs": [{"name": "x", "mode": None, "by_query": {}}]}, "has no run with the modes"),
    ],
)
def test_a_report_that_cannot_be_compared_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    path = saved_report(tmp_path / "old.json", **changes)
    with pytest.raises(UsageError, match=message):
        compare_with_baseline(path, [a_result()], JUDGED, level="document", qrels_sha256="x")


def test_a_missing_baseline_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.run cannot be read"):
        compare_with_baseline(
            tmp_path / "gone.run", [a_result()], JUDGED, level="document", qrels_sha256=""
        )
