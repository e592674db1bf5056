"""The lexical ranking of two judged sets is the one whose values are saved with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.quality import golden
from sqlindex.evaluation.evaluate import evaluate
from sqlindex.evaluation.options import EvalOptions


@pytest.mark.data
@pytest.mark.req("A-32")
@pytest.mark.parametrize("name", ["claude-docs", "cranfield"])
def test_each_query_is_answered_as_saved(name: str, data: Path, tmp_path: Path) -> None:
    saved = golden.read(name)
    assert saved is not None
    report = evaluate(
        data / name,
        ["lexical"],
        index_path=tmp_path / "index.db",
        options=EvalOptions(("nDCG@10",)),
    )
    (run,) = report.runs
    assert run.by_query.keys() == saved.keys()
    for query_id, values in run.by_query.items():
        ndcg, rank = values["nDCG@10"], run.first_relevant[query_id]
        assert golden.value_of(ndcg, rank) == saved[query_id]["lexical"], (
            f"query {query_id}: rank them anew with 'python -m bench quality --save', and look at the diff"
        )


def test_a_lost_query_is_told_before_a_gained_one() -> None:
    before = {
        "q1": {"lexical": golden.value_of(1.0, 1)},
        "q2": {"lexical": golden.value_of(0.5, 2)},
    }
    after = {
        "q1": {"lexical": golden.value_of(0.25, 8)},
        "q2": {"lexical": golden.value_of(1.0, 1)},
    }
    found = list(golden.changes(before, after))
    assert [(one.query_id, round(one.difference, 4)) for one in found] == [
        ("q1", -0.75),
        ("q2", 0.5),
    ]
    assert list(golden.changes(before, before)) == []
