"""Golden questions and the publish gate on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlindex.cli.main import run
from sqlindex.store.driver import connect
from tests.faults import CommandResult, assert_told, clean_environment, sqlindex

SHEETS = {
    "cooling": ("coolant", "radiator", "leak", "winter", "hose"),
    "brakes": ("caliper", "fluid", "bleed", "pedal", "disc"),
    "engine": ("piston", "timing", "belt", "camshaft", "knock"),
    "lights": ("bulb", "fuse", "relay", "beam", "socket"),
}
QUESTIONS = {
    "c1": ("coolant leak radiator winter", "cooling.md"),
    "b1": ("bleed caliper fluid pedal", "brakes.md"),
    "e1": ("timing belt camshaft knock", "engine.md"),
    "l1": ("bulb relay fuse socket", "lights.md"),
}
GATE = "ndcg@10 >= 0.8, hit@1 >= 0.9"

WITH_MODEL = """
import sys
from sqlindex.cli.main import main
from sqlindex.testing import HashingEmbedder
from sqlindex.wiring import Wiring

class Rotated(HashingEmbedder):
    identity = "rotated"

    def embed_documents(self, texts):
        import numpy as np
        vectors = super().embed_documents(texts)
        return np.stack([np.roll(v, 7 * (row + 1)) for row, v in enumerate(vectors)])

model = {"good": HashingEmbedder(512), "better": HashingEmbedder(512, "2"), "bad": Rotated(512)}[sys.argv[1]]
Wiring.embedder = lambda self: model
main(sys.argv[2:])
"""
"""The program with a model of that name in the place of the index's own."""


def _sheet(words: tuple[str, ...]) -> str:
    """A line for each word, with others that no question has."""
    return "\n".join(" ".join(f"{word}{end}" for end in ("", "xa", "xb", "xc")) for word in words)


Run = Callable[..., CommandResult]


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process, for what does not depend on one of its own."""

    def call(*arguments: str | Path) -> CommandResult:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return CommandResult(code, printed.out, printed.err)

    return call


@pytest.fixture
def db(tmp_path: Path, folder: Path) -> Path:
    """An index of four sheets, and short notes that name two words of a question each."""
    for number, (name, words) in enumerate(SHEETS.items()):
        (folder / f"{name}.md").write_text(f"# Sheet\n\n{_sheet(words)}\n")
        asked = [word for word in words if any(word in text for text, _ in QUESTIONS.values())]
        others = " ".join(f"word{number}{end}" for end in "abcdefghij")
        (folder / f"{number}.md").write_text(f"# Note\n\n{asked[0]} {asked[1]} {others}\n")
    path = tmp_path / "index.db"
    lines = [
        json.dumps({"id": id_, "text": text, "expect": {document: 2}})
        for id_, (text, document) in QUESTIONS.items()
    ]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    assert sqlindex("init", folder, "--db", path).code == 0
    return path


def _import(db: Path) -> None:
    done = sqlindex("questions", "import", db.with_name("questions.jsonl"), "--db", db)
    assert (done.code, done.err) == (0, "added 4 questions, replaced 0\n")


def _with_model(name: str, *arguments: str | Path) -> CommandResult:
    done = subprocess.run(
        [sys.executable, "-c", WITH_MODEL, name, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


@pytest.mark.req("D-10")
def test_a_bad_chunk_size_is_stopped_and_a_good_refresh_passes(db: Path, folder: Path) -> None:
    assert sqlindex("refresh", "--db", db).code == 0
    _import(db)
    (folder / "more.md").write_text("# More\n\nSomething else.\n")
    passed = sqlindex("refresh", "--gate", GATE, "--db", db)
    assert passed.code == 0
    assert "the gate is met: nDCG@10 1.0000, hit@1 1.0000 (lexical, 4 questions)" in passed.err

    assert sqlindex("init", "--chunk-chars", "40", "--db", db).code == 0
    assert "chunks of about 40 characters" in sqlindex("status", "--db", db).out
    stopped = sqlindex("refresh", "--gate", GATE, "--db", db)
    assert stopped.code == 7
    first, changes, *fell, hint = stopped.err.splitlines()
    assert changes == "  what it changes: 9 reparsed, 0 unchanged"
    assert first.startswith("error: the gate keeps the new generation back: nDCG@10 0.")
    assert "hit@1 0.0000 (now 1.0000), wanted >= 0.9" in first
    assert fell[:4] == [
        f"  {id_}: hit@1 1.0000 -> 0.0000: {QUESTIONS[id_][0]}" for id_ in ("b1", "c1", "e1", "l1")
    ]
    assert hint.startswith("hint: the head stays")
    status = sqlindex("status", "--db", db)
    assert "generation  2," in status.out
    assert "gated       a generation of " in status.out
    assert "waits (9 reparsed, 0 unchanged): nDCG@10" in status.out
    assert "hit@1 0.0000 (now 1.0000), wanted >= 0.9 (lexical, 4 questions)" in status.out
    assert "of about 40 characters; the next refresh cuts 9 documents anew" in status.out

    # Undone and refreshed, the index is as it was: what waited is gone.
    assert sqlindex("init", "--chunk-chars", "1200", "--db", db).code == 0
    again = sqlindex("refresh", "--gate", GATE, "--db", db)
    assert again.code == 0, again.err
    assert "the gate is met by the head: nDCG@10 1.0000, hit@1 1.0000" in again.err
    assert sqlindex("status", "--json", "--db", db).json["gated"] is None
    assert sqlindex("check", "--db", db).code == 0


@pytest.mark.req("D-10")
def test_a_swapped_model_is_stopped_published_by_force_and_discarded(db: Path) -> None:
    assert _with_model("good", "refresh", "--db", db).code == 0
    _import(db)
    semantic = ("refresh", "--gate", "hit@1 >= 0.9", "--gate-mode", "semantic", "--db", db)
    assert _with_model("better", *semantic).code == 0
    stopped = _with_model("bad", *semantic, "--json")
    assert stopped.code == 7
    error = stopped.json["error"]
    assert (error["code"], error["retryable"]) == ("gate", False)
    assert error["missed"][0]["measure"] == "hit@1"
    assert error["missed"][0]["before"] is None
    assert error["fell"]
    assert (error["is_held"], error["below"], error["absent"]) == (True, [], [])
    assert error["changes"]["unchanged"] == 8
    status = sqlindex("status", "--json", "--db", db).json
    assert (status["generation"], status["unfinished"]) == (2, [])
    assert status["gated"]["result"]["mode"] == "semantic"

    again = _with_model(
        "bad", "publish", "--gate", "hit@1 >= 0.8", "--gate-mode", "semantic", "--db", db
    )
    assert again.code == 7
    discarded = sqlindex("discard", "--db", db)
    assert (discarded.code, discarded.err) == (0, "discarded; the head is generation 2\n")
    assert_told(sqlindex("discard", "--db", db), 2, "no generation waits behind a gate")
    assert_told(sqlindex("publish", "--force", "--db", db), 2, "no generation waits behind a gate")
    assert _with_model("better", "search", "--mode", "semantic", "bulb", "--db", db).code == 0

    assert _with_model("bad", *semantic).code == 7
    forced = sqlindex("publish", "--force", "--json", "--db", db)
    assert forced.json == {"schema": 1, "generation": 3}
    assert sqlindex("check", "--db", db).code == 0


@pytest.mark.req("D-10")
def test_the_options_of_a_gate_are_strict(db: Path, here: Run) -> None:
    assert_told(
        here("refresh", "--gate", "hit@1 >= 0.5", "--db", db), 2, "no question of the index"
    )
    assert_told(
        here("refresh", "--gate", "hit@1 >= 2", "--db", db), 2, "column 10: '2' is no number"
    )
    for arguments, words in (
        (("refresh", "--gate-mode", "lexical"), "--gate-mode belongs to --gate"),
        (("refresh", "--plan", "--gate", "hit@1 >= 0.5"), "--plan makes nothing"),
        (("publish",), "say --force, or --gate"),
        (("publish", "--force", "--gate", "hit@1 >= 0.5"), "say --force, or --gate"),
    ):
        told = here(*arguments, "--db", db)
        assert told.code == 2
        assert words in told.err


@pytest.mark.req("D-10")
def test_questions_are_added_listed_and_removed(db: Path, folder: Path, here: Run) -> None:
    early = here("questions", "add", "what leaks", "--expect", "cooling.md=3", "--db", db)
    assert early.err == (
        "warning: cooling.md of documents is not in the index (yet)\nadded question q1\n"
    )
    (folder / "odd=3").mkdir()
    (folder / "odd=3" / "x=2.md").write_text("# Odd\n")
    assert here("refresh", "--db", db).code == 0
    added = here(
        *("questions", "add", "what bleeds", "--class", "service", "--id", "bleed", "--json"),
        *("--expect", folder / "brakes.md", "--expect", "odd=3/x=2.md", "--db", db),
    )
    assert added.json["question"] == {
        "id": "bleed",
        "text": "what bleeds",
        "class": "service",
        "is_answerable": True,
        "is_damaged": False,
        "expected": [
            {"source": "documents", "document_id": "brakes.md", "grade": 1, "is_indexed": True},
            {"source": "documents", "document_id": "odd=3/x=2.md", "grade": 1, "is_indexed": True},
        ],
    }
    assert here("questions", "add", "who won", "--none", "--db", db).code == 0
    for options in ((), ("--none", "--expect", "brakes.md")):
        told = here("questions", "add", "x", *options, "--db", db)
        assert_told(told, 2, "question 'x' ", "(--expect DOCUMENT)", "(--none)")
    listed = here("questions", "list", "--db", db).out
    assert listed.splitlines() == [
        "q1\twhat leaks",
        "\t3\tcooling.md\tdocuments",
        "bleed (service)\twhat bleeds",
        "\t1\tbrakes.md\tdocuments",
        "\t1\todd=3/x=2.md\tdocuments",
        "q3\twho won",
        "\tno document answers it",
    ]
    assert_told(here("questions", "rm", "q9", "--db", db), 3, "no question 'q9'")
    assert here("questions", "rm", "q1", "bleed", "--json", "--db", db).json["removed"] == [
        "q1",
        "bleed",
    ]
    questions = here("questions", "list", "--json", "--db", db).json["questions"]
    assert [question["id"] for question in questions] == ["q3"]
    (folder.parent / "more.jsonl").write_text('{"id": "m", "text": "m", "expect": ["gone.md"]}\n')
    imported = here("questions", "import", folder.parent / "more.jsonl", "--json", "--db", db)
    assert imported.json == {
        "schema": 1,
        "added": ["m"],
        "replaced": [],
        "missing": [{"question": "m", "source": "documents", "document_id": "gone.md"}],
    }


@pytest.mark.req("D-10")
def test_what_was_kept_back_is_told_and_gone_on_with(db: Path, folder: Path, here: Run) -> None:
    refused = ("refresh", "--gate", "hit@1 >= 1", "--db", db)
    assert here("refresh", "--db", db).code == 0
    assert here("questions", "add", "piston", "--expect", "brakes.md", "--db", db).code == 0
    told = here(*refused)
    assert told.code == 7
    assert told.err.splitlines() == [
        "error: nothing to publish, and the head misses the gate: hit@1 0.0000, wanted >= 1 (lexical, 1 question)",
        "  q1: hit@1 0.0000: piston",
        "hint: no generation waits; change the sources, the questions or the settings and refresh again, or ask for less",
    ]
    assert here(*refused, "--json").json["error"]["is_held"] is False
    (folder / "brakes.md").write_text("# Brakes\n\nNothing.\n")
    assert here(*refused).err.splitlines()[1:4] == [
        "  what it changes: 1 changed, 7 unchanged",
        "  below the bound, in the head as well:",
        "  q1: hit@1 0.0000 -> 0.0000: piston",
    ]
    assert "waits (1 changed, 7 unchanged): hit@1 0.0000" in here("status", "--db", db).out
    went_on = here("refresh", "--db", db)
    assert "went on with an unfinished refresh: 1 document was staged" in went_on.err
    (folder / "brakes.md").write_text("# Brakes\n\nSomething.\n")
    assert here(*refused).code == 7
    purged = here("purge", "brakes.md", "--yes", "--db", db)
    assert "note: the generation that a gate kept back held it" in purged.err


@pytest.mark.req("D-10")
def test_grades_that_are_none_and_contradictions_are_refused(db: Path, here: Run) -> None:
    for expected in (("a.md=-1",), ("a.md=1.5",), ("a.md=",), ("a.md=0",), ("a.md=9999999999",)):
        told = here("questions", "add", "x", "--expect", *expected, "--db", db)
        assert_told(told, 2, "the grade of 'a.md' is ", "from 1 to 20")
    twice = ("--expect", "a.md=1", "--expect", "a.md=2")
    assert_told(here("questions", "add", "x", *twice, "--db", db), 2, "'a.md' is named twice")
    assert here("questions", "list", "--db", db).out == ""


@pytest.mark.req("D-10", "A-29")
def test_a_damaged_question_is_listed_and_its_words_survive_the_repair(db: Path, here: Run) -> None:
    assert here("refresh", "--db", db).code == 0
    _import(db)
    connection = connect(db, "rw")
    connection.execute("UPDATE question SET text = CAST(x'62ff' AS TEXT) WHERE question_id = 'b1'")
    connection.close()
    listed = here("questions", "list", "--db", db)
    assert listed.code == 6
    assert listed.out.startswith("c1\tcoolant leak radiator winter\n")
    assert "b1\tb\\udcff\t(damaged)\n\t2\tbrakes.md" in listed.out
    assert listed.err.startswith("error: damaged: b1\nhint: remove")
    as_json = here("questions", "list", "--json", "--db", db)
    assert (as_json.code, [q["is_damaged"] for q in as_json.json["questions"]]) == (
        6,
        [False, True, False, False],
    )
    repaired = here("repair", "--db", db)
    assert repaired.code == 5
    assert (
        "question b1: b\\udcff; expected: brakes.md of documents (grade 2): damaged, taken out"
        in (repaired.out)
    )
    assert "refresh" not in repaired.err
    assert "add the questions again" in repaired.err
    assert here("questions", "list", "--db", db).code == 0
