"""TREC files: what is written is read again, by other tools too, and errors name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex.errors import StorageError, UsageError
from sqlindex.evaluation.runs import ranking_of
from sqlindex.evaluation.trec import read_run, write_qrels, write_run

pytestmark = pytest.mark.req("A-32")


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    rankings = {"q 1": ("b", "a c", "ä"), "q2": ("z",), "q3": ()}
    write_run(tmp_path / "new" / "a.run", rankings, "small cut/lexical")
    lines = (tmp_path / "new" / "a.run").read_text().splitlines()
    assert lines[0] == "q 1\tQ0\tb\t1\t3\tsmall-cut/lexical"
    found = read_run(tmp_path / "new" / "a.run")
    assert {query_id: ranking_of(scores) for query_id, scores in found.items()} == {
        "q 1": ("b", "a c", "ä"),
        "q2": ("z",),
    }


def test_scores_strictly_descend_in_single_precision(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    write_run(tmp_path / "a.run", {"q": [str(at) for at in range(20_000)]}, "x")
    scores = numpy.array(list(read_run(tmp_path / "a.run")["q"].values()), numpy.float32)
    assert (numpy.diff(scores) < 0).all()


def test_runs_of_other_tools_have_spaces_and_any_order(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q Q0 a 2 -1.5 x\nq  Q0\tb 1 1e3 x\n\nr Q0 a 1 0 x\n")
    assert read_run(tmp_path / "a.run") == {"q": {"a": -1.5, "b": 1000.0}, "r": {"a": 0.0}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q Q0 a 1 2", "line 2: 5 columns instead of 6"),
        ("q", "line 2: 1 column instead of 6"),
        ("q Q0 a 1 high x", "line 2: the score 'high'"),
        ("q Q0 a 1 nan x", "line 2: the score 'nan'"),
        ("q Q0 a 1 1e999 x", "line 2: the score '1e999'"),
        ("q Q0 a 1 1_0 x", "line 2: the score '1_0'"),
        ("q Q0 a 1 \u0661 x", "line 2: the score '\u0661'"),
        ("q Q0 d 1 2 x", "line 2: document 'd' is ranked twice for query 'q'"),
    ],
)
def test_a_malformed_run_is_named_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.run").write_text(f"q Q0 d 1 9 x\n{line}\n")
    with pytest.raises(UsageError, match=rf"a\.run, {message}"):
        read_run(tmp_path / "a.run")


def test_scores_are_compared_in_single_precision_as_trec_eval_does() -> None:
    ir_measures = pytest.importorskip("ir_measures")
    for relevant, run in (
        ("b", {"a": 1.000_000_01, "b": 1.0}),
        ("b", {"a": 1e300, "b": 1e200}),
        ("b", {"b": 1e-50, "a": 0.0}),
        ("a", {"b": -1e300, "a": 1.0}),
        ("a", {"a": 1.000_001, "b": 1.0}),
    ):
        assert ranking_of(run)[0] == relevant
        assert ir_measures.calc_aggregate([ir_measures.RR], {"q": {relevant: 1}}, {"q": run}) == {
            ir_measures.RR: 1.0
        }


def test_qrels_have_no_grade_below_zero(tmp_path: Path) -> None:
    write_qrels(tmp_path / "q.txt", {"q": {"a": 2, "b": -1}})
    assert (tmp_path / "q.txt").read_text() == "q\t0\ta\t2\nq\t0\tb\t0\n"


def test_what_no_trec_file_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'a\\tb'"):
        write_run(tmp_path / "a.run", {"q": ["a\tb"]}, "x")
    assert not (tmp_path / "a.run").exists()


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        write_run(tmp_path / "file" / "a.run", {}, "x")
