"""Golden questions: stored beside the generations, named like documents, imported from files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlindex import Document, Expectation, Index, Question
from sqlindex.errors import CorruptIndexError, DuplicateError, UnknownQuestionError, UsageError
from sqlindex.store.driver import connect

Shell = Callable[[Path, str], list[str]]


@pytest.fixture
def notes(index: Index) -> Index:
    """Two documents of one source, and one that a second source has too."""
    index.upsert("notes", [Document("pump", "the pump"), Document("valve", "the valve")])
    index.upsert("cards", [Document("valve", "a valve of a card")])
    return index


@pytest.mark.req("D-10")
def test_questions_are_kept_in_the_order_in_which_they_were_added(notes: Index) -> None:
    first = notes.add_question("where is the pump", ["pump"], class_name="place")
    second = notes.add_question(
        "which valves", {"pump": 1, ("cards", "valve"): 3, ("cards", "later"): 2}, id="valves"
    )
    third = notes.add_question("who won", is_answerable=False)
    assert first == Question(
        "q1", "where is the pump", "place", True, (Expectation("notes", "pump", 1, True),)
    )
    assert [(e.source, e.document_id, e.grade, e.is_indexed) for e in second.expected] == [
        ("cards", "later", 2, False),
        ("cards", "valve", 3, True),
        ("notes", "pump", 1, True),
    ]
    assert (third.id, third.expected) == ("q3", ())
    assert notes.questions() == [first, second, third]
    notes.upsert("cards", [Document("later", "now it is here")])
    assert all(e.is_indexed for e in notes.questions()[1].expected)
    notes.remove_questions(["q1"])
    assert notes.add_question("again", ["pump"]).id == "q4"
    notes.rollback(1)
    assert [question.id for question in notes.questions()] == ["valves", "q3", "q4"]


@pytest.mark.req("D-10")
def test_a_document_that_cannot_be_told_is_refused(notes: Index) -> None:
    cases: tuple[tuple[list[str | tuple[str, str]], str], ...] = (
        (["valve"], "more than one document: valve of cards, valve of notes"),
        (["later"], "not said which source"),
        ([("notes", "pump"), "pump"], "named twice"),
    )
    for expected, problem in cases:
        with pytest.raises(UsageError, match=problem):
            notes.add_question("which", expected)
    with pytest.raises(ValueError, match="several documents"):
        notes.add_question("which", "pump")
    assert notes.add_question("which", ["valve"], source="cards").expected[0].source == "cards"
    assert notes.add_question("which", ["cards:later"]).expected[0] == Expectation("cards", "later")


@pytest.mark.req("D-10")
def test_malformed_questions_are_refused(notes: Index) -> None:
    for text, expected, options, problem in (
        (" ", ["pump"], {}, "text of a question"),
        ("a\0b", ["pump"], {}, "text of a question"),
        ("\ud800", ["pump"], {}, "not encodable"),
        ("x", [], {}, "expects no document"),
        ("x", ["pump"], {"is_answerable": False}, "said to have no answer"),
        ("x", {"pump": 0}, {}, "grade of 'pump' is 0"),
        ("x", {"pump": 21}, {}, "grade of 'pump' is 21"),
        ("x", {"pump": True}, {}, "grade of 'pump' is True"),
        ("x", ["pump"], {"id": "a\tb"}, "holds a tab"),
        ("x", ["pump"], {"class_name": ""}, "class of a question"),
    ):
        with pytest.raises(UsageError, match=problem):
            notes.add_question(text, expected, **options)
    with pytest.raises(UsageError) as caught:
        notes.add_question("x", [])
    assert caught.value.hint == (
        "name one in expected, or say that none answers it (is_answerable=False)"
    )
    notes.add_question("x", ["pump"], id="one")
    with pytest.raises(DuplicateError, match="a question 'one' already"):
        notes.add_question("x", ["pump"], id="one")
    with pytest.raises(UnknownQuestionError, match="no question 'two'"):
        notes.remove_questions(["one", "two"])
    assert [question.id for question in notes.questions()] == ["one"]


@pytest.mark.req("D-10")
def test_a_folder_of_queries_and_qrels_is_imported_and_replaces_the_same_ids(
    notes: Index, tmp_path: Path
) -> None:
    folder = tmp_path / "judged"
    folder.mkdir()
    lines = [
        {"_id": "1", "text": "the pump", "class": "easy"},
        {"id": "2", "text": "nothing judged"},
        {"id": "3", "text": "no answer", "answerable": False, "kind": "near miss"},
    ]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "qrels.tsv").write_text("query\tdocument\tgrade\n1\tpump\t2\n1\tcards:valve\t0\n")
    done = notes.import_questions(folder)
    assert (done.added, done.replaced, done.missing) == (("1", "3"), (), ())
    (folder / "qrels.tsv").write_text("1 0 pump 2\n1 0 cards:valve 1\n1 0 cards:new 1\n")
    done = notes.import_questions(folder)
    assert (done.added, done.replaced) == ((), ("1", "3"))
    assert done.missing == (("1", "cards", "new"),)
    assert [(e.document_id, e.grade) for e in notes.questions()[0].expected] == [
        ("new", 1),
        ("valve", 1),
        ("pump", 2),
    ]
    assert [question.class_name for question in notes.questions()] == ["easy", "near miss"]
    for grade in ("1_0", "\u0661", "1.5"):
        (folder / "qrels.tsv").write_text(f"1\tpump\t1\n1\tcards:valve\t{grade}\n")
        with pytest.raises(UsageError, match=r"line 2: the grade .* is no whole number"):
            notes.import_questions(folder)
    for grade in ("1.5", "", "one", "9" * 5_000):  # of a query that there is, it is no header
        (folder / "qrels.tsv").write_text(f"1\tpump\t{grade}\n3\tcards:valve\t0\n")
        with pytest.raises(UsageError, match=r"line 1: the grade .* is no whole number"):
            notes.import_questions(folder)
    for qrels in ("1\tpump\t2 \n", "1\t0\tmy pump\t1\n1\t0\tpump\t2\n"):
        (folder / "qrels.tsv").write_text(qrels)
        notes.import_questions(folder, source="notes")
        grade_by_document = {e.document_id: e.grade for e in notes.questions()[0].expected}
        assert grade_by_document["pump"] == 2
        assert ("my pump" in grade_by_document) is ("my pump" in qrels)
    (folder / "qrels.tsv").write_text("1\tpump\n")
    with pytest.raises(UsageError, match=r"qrels\.tsv, line 1: neither 3 columns nor TREC's 4"):
        notes.import_questions(folder)


@pytest.mark.req("D-10")
def test_a_malformed_file_names_its_line_and_nothing_is_stored(
    notes: Index, tmp_path: Path
) -> None:
    path = tmp_path / "questions.jsonl"
    good = json.dumps({"id": "1", "text": "the pump", "expect": ["pump"]})
    for line, problem in (
        ("{", "line 2: not JSON"),
        ("[]", "line 2: not a JSON object"),
        ('{"id": 1, "text": "x"}', "line 2: id and text must be texts"),
        ('{"id": "1", "text": "x", "expect": ["pump"]}', "line 2: the id '1' is taken"),
        ('{"id": "2", "text": "x", "expect": "pump"}', "line 2: expect must be a list"),
        ('{"id": "2", "text": "x", "expect": {"pump": 1.5}}', "line 2: expect must be a list"),
        ('{"id": "2", "text": "x", "answerable": "no"}', "line 2: answerable must be true"),
        ('{"id": "2", "text": "x", "answerable": false, "class": 7}', "line 2: class must be"),
        ('{"id": "2", "text": "x"}', "line 2: the question expects no document"),
        ('{"id": "2", "text": "x", "expects": ["pump"]}', "line 2: unknown key 'expects'"),
        (
            '{"id": "2", "text": "x", "text": "y", "expect": ["pump"]}',
            "line 2: 'text' is there twice",
        ),
        ('{"id": "2", "text": "x", "expect": {"pump": 1, "pump": 2}}', "line 2: 'pump' is there"),
        (
            '{"id": "2", "text": "x", "expect": ["pump", "pump"]}',
            "line 2: document 'pump' is named",
        ),
        (
            '{"id": "2", "_id": "3", "text": "x", "expect": ["pump"]}',
            "line 2: id and _id say the same",
        ),
        ('{"id": "2", "text": "\\u0000", "expect": ["pump"]}', "line 2: question '2': the text of"),
        ('{"id": "\\ud800", "text": "x", "expect": ["pump"]}', "line 2: question .*not encodable"),
        *(
            (f'{{"id": "2", "text": "x", {fields}}}', f"line 2: question '2': {problem}")
            for fields, problem in (
                ('"expect": ["valve"]', "'valve' is more than one"),
                ('"expect": ["pump", "notes:pump"]', "document 'pump' of notes is named twice"),
                ('"expect": {"pump": 21}', "the grade of 'pump' is 21"),
                ('"expect": ["later"]', "the index holds no document 'later'"),
                ('"expect": ["pump"], "answerable": false', "question 'x' expects documents"),
                ('"expect": ["pump"], "class": " "', "the class of a question is ' '"),
            )
        ),
    ):
        path.write_text(f"{good}\n{line}\n")
        with pytest.raises(UsageError, match=problem) as caught:
            notes.import_questions(path)
        assert "--expect" not in caught.value.hint
        assert "--none" not in caught.value.hint
        assert notes.questions() == []
    with pytest.raises(UsageError, match="cannot be read"):
        notes.import_questions(tmp_path / "nowhere.jsonl")
    (tmp_path / "queries.jsonl").write_text(good)
    with pytest.raises(UsageError, match=r"has no qrels\.tsv"):
        notes.import_questions(tmp_path)
    (tmp_path / "qrels.tsv").write_text("9\tpump\t1\n")
    with pytest.raises(UsageError, match="name '9', which is no query"):
        notes.import_questions(tmp_path)
    path.write_text(f"{good}\n")
    assert notes.import_questions(path).added == ("1",)


@pytest.mark.req("D-10", "D-13")
def test_a_purged_document_is_in_no_question_and_in_no_byte(notes: Index, shell: Shell) -> None:
    secret = "swordfish-document"
    notes.upsert("notes", [Document(secret, "something")])
    notes.add_question("something", {secret: 2, "pump": 1}, source="notes")
    notes.add_question("that alone", [secret])
    notes.add_question("it comes later", ["walrus-document"], source="notes")
    notes.purge([secret, "walrus-document"])
    for suffix in ("", "-wal"):
        data = Path(f"{notes.path}{suffix}").read_bytes()
        assert b"swordfish" not in data
        assert b"walrus" not in data
    expected = [[e.document_id for e in question.expected] for question in notes.questions()]
    assert expected == [["pump"], [], []]
    assert all(question.is_answerable for question in notes.questions())


@pytest.mark.req("D-10", "A-29")
def test_backup_compaction_repair_and_salvage_keep_questions(notes: Index, tmp_path: Path) -> None:
    notes.add_question("where is the pump", {"pump": 2}, id="a", class_name="place")
    notes.add_question("who won", is_answerable=False)
    before = notes.questions()
    notes.backup(tmp_path / "backup.db")
    notes.compact("full")
    assert notes.repair().mended == ()
    notes.salvage(tmp_path / "salvaged.db")
    assert notes.questions() == before
    for name in ("backup.db", "salvaged.db"):
        with Index.open(tmp_path / name) as copy:
            assert copy.questions() == before
            assert copy.check() == []


@pytest.mark.req("D-10", "A-29")
def test_a_damaged_question_is_an_error_and_a_repair_takes_out_that_one(tmp_path: Path) -> None:
    with Index.open(tmp_path / "index.db", create=True) as index:
        index.upsert("notes", [Document("pump", "the pump")])
        index.add_question("one", ["pump"], id="one")
        index.add_question("two", ["pump", "later"], id="two")
    connection = connect(tmp_path / "index.db", "rw")
    connection.execute("UPDATE expectation SET grade = 9 WHERE question_id = 'two'")
    connection.close()
    with Index.open(tmp_path / "index.db") as index:
        with pytest.raises(CorruptIndexError, match="question 'two' is damaged"):
            index.questions()
        assert [finding.detail for finding in index.check()] == ["question 'two' is damaged"]
        assert [q.is_damaged for q in index.questions(with_damaged=True)] == [False, True]
        index.purge("pump")
        assert [finding.detail for finding in index.check()] == ["question 'two' is damaged"]
        report = index.repair()
        assert [(each.what, each.outcome) for each in report.mended] == [
            ("question two: two; expected: later of notes (grade 9)", "removed")
        ]
        assert (report.lost_questions, report.needs_refresh) == (True, False)
        assert [question.id for question in index.questions()] == ["one"]


@pytest.mark.req("D-6", "D-10")
def test_a_shell_shows_the_questions_and_whether_the_head_holds_what_they_expect(
    notes: Index, shell: Shell
) -> None:
    notes.add_question("where is the pump", {"pump": 2, ("notes", "gone"): 1}, id="a")
    notes.add_question("who won", id="b", is_answerable=False)
    wanted = (
        "SELECT question_id, source, document_id, grade, is_in_head FROM v_question ORDER BY 1, 3"
    )
    assert shell(notes.path, wanted) == ["a|notes|gone|1|0", "a|notes|pump|2|1", "b||||"]
