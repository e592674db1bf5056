"""Reading judged collections: both spellings, both places, and errors that name the line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sqlindex.errors import UsageError
from sqlindex.evaluation.beir import read_collection

pytestmark = pytest.mark.req("A-32")

_HEADER = "query-id\tdoc-id\tgrade\n"


def written(folder: Path, **contents: str) -> Path:
    """A collection of one document and one query, with some files replaced."""
    files = {
        "corpus": '{"id": "d", "title": "T", "text": "a text"}\n',
        "queries": '{"id": "q", "text": "a query"}\n',
        "qrels": _HEADER + "q\td\t1\n",
    } | contents
    (folder / "corpus.jsonl").write_text(files["corpus"], encoding="utf-8")
    (folder / "queries.jsonl").write_text(files["queries"], encoding="utf-8")
    (folder / "qrels.tsv").write_text(files["qrels"], encoding="utf-8")
    return folder


def test_documents_queries_and_grades_are_read_in_order(tmp_path: Path) -> None:
    corpus = '{"id": "d2", "text": "two"}\n\n{"_id": "d1", "title": "One", "text": "one"}\n'
    qrels = _HEADER + "q2\td1\t2\nq1\td2\t0\nq2\td2\t-1\n"
    queries = '{"_id": "q1", "text": "first"}\n{"id": "q2", "text": "second"}\n'
    found = read_collection(written(tmp_path, corpus=corpus, queries=queries, qrels=qrels))
    assert [(d.id, d.title, d.text) for d in found.documents] == [
        ("d2", "", "two"),
        ("d1", "One", "one"),
    ]
    assert list(found.queries.items()) == [("q1", "first"), ("q2", "second")]
    assert found.qrels == {"q2": {"d1": 2, "d2": -1}, "q1": {"d2": 0}}
    assert found.answerable == ("q2",)
    assert found.name == tmp_path.name


def test_a_compressed_corpus_and_beirs_folder_of_qrels_are_found(tmp_path: Path) -> None:
    plain = read_collection(written(tmp_path))
    data = (tmp_path / "corpus.jsonl").read_bytes()
    (tmp_path / "corpus.jsonl").unlink()
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(data))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels.tsv").rename(tmp_path / "qrels" / "test.tsv")
    assert read_collection(tmp_path) == plain


def test_the_hash_of_a_corpus_changes_with_its_text(tmp_path: Path) -> None:
    before = read_collection(written(tmp_path)).corpus_sha256
    assert read_collection(written(tmp_path)).corpus_sha256 == before
    changed = written(tmp_path, corpus='{"id": "d", "title": "T", "text": "another text"}\n')
    assert read_collection(changed).corpus_sha256 != before


def test_qrels_without_a_header_lose_no_judgement(tmp_path: Path) -> None:
    assert read_collection(written(tmp_path, qrels="q\td\t1\n")).qrels == {"q": {"d": 1}}


def test_a_first_line_of_a_known_query_is_no_header(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 1: the grade '1O' is not an integer"):
        read_collection(written(tmp_path, qrels="q\td\t1O\nq\td\t1\n"))


@pytest.mark.parametrize("between", [" ", "\t", "   ", " \t"])
def test_trec_qrels_have_four_columns(tmp_path: Path, between: str) -> None:
    qrels = between.join(("q", "0", "d", "2")) + "\n"
    assert read_collection(written(tmp_path, qrels=qrels)).qrels == {"q": {"d": 2}}


def test_ids_with_spaces_are_read_from_columns_parted_by_tabs(tmp_path: Path) -> None:
    qrels = "q\ta b c\t1\nq\t0\td e\t2\n"
    assert read_collection(written(tmp_path, qrels=qrels)).qrels == {"q": {"a b c": 1, "d e": 2}}


@pytest.mark.parametrize("header", ["", "query-id\ttext\n"])
def test_queries_may_be_a_table(tmp_path: Path, header: str) -> None:
    written(tmp_path)
    (tmp_path / "queries.jsonl").unlink()
    (tmp_path / "queries.tsv").write_text(f"{header}q\ta query\nr\tanother\n")
    assert read_collection(tmp_path).queries == {"q": "a query", "r": "another"}


def test_other_queries_and_qrels_can_stand_in_for_those_of_the_folder(tmp_path: Path) -> None:
    written(tmp_path)
    queries, qrels = tmp_path / "typos.tsv", tmp_path / "more.txt"
    queries.write_text("q\ta qeury\n")
    qrels.write_text("q 0 d 3\n")
    found = read_collection(tmp_path, queries=queries, qrels=qrels)
    assert found.queries == {"q": "a qeury"}
    assert found.qrels == {"q": {"d": 3}}


def test_queries_say_their_classes_and_what_suffices(tmp_path: Path) -> None:
    queries = (
        '{"id": "q", "text": "x", "class": "direct", "sufficient": [["a", "b"], ["d"], ["d"]]}\n'
        '{"id": "r", "text": "y", "classes": ["typo", "English", "typo"]}\n'
        '{"id": "s", "text": "z", "answerable": false, "kind": "near miss"}\n'
        '{"id": "t", "text": "z", "answerable": false, "class": "negative", "kind": "other"}\n'
        '{"id": "u", "text": "z", "answerable": false}\n'
        '{"id": "v", "text": "z", "answerable": true, "class": "direct", "kind": "ignored"}\n'
    )
    judged = read_collection(written(tmp_path, queries=queries)).judgements
    assert {query.id: query.classes for query in judged.queries.values()} == {
        "q": ("direct",),
        "r": ("typo", "English"),
        "s": ("near miss",),
        "t": ("negative",),
        "u": ("no answer",),
        "v": ("direct",),
    }
    assert judged.queries["q"].sufficient == (frozenset("ab"), frozenset("d"))
    assert judged.answerable == ("q",)
    assert judged.no_answer == ("s", "t", "u")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus", '{"id": "d", "text": "x"}\nnot json\n', r"corpus\.jsonl, line 2: not JSON"),
        ("corpus", "[1]\n", r"line 1: not a JSON object"),
        ("corpus", '{"title": "no id", "text": "x"}\n', r"line 1: the field '_id' is missing"),
        ("corpus", '{"id": 7, "text": "x"}\n', r"line 1: the field 'id' is 7, not a text"),
        ("corpus", '{"id": null, "text": "x"}\n', r"line 1: the field 'id' is null, not a text"),
        ("queries", '{"id": "q", "text": "", "answerable": null}\n', r"'answerable' is null, not"),
        ("corpus", '{"id": ["\\ud800"], "text": "x"}\n', r'the field .id. is \["\\ud800"\], not'),
        ("queries", '{"id": "q", "text": "", "classes": [null]}\n', r"classes are \[null\]"),
        ("queries", '{"id": "q", "text": "", "classes": ["a", "\\ud800"]}\n', r"lone surrogate"),
        ("queries", '{"id": "q", "text": "", "sufficient": [["\\ud800"]]}\n', r"lone surrogate"),
        (
            "queries",
            '{"id": "q", "text": "", "answerable": false, "kind": ""}\n',
            r"'kind' is empty",
        ),
        ("qrels", "", r"qrels\.tsv has no relevant document"),
        ("qrels", "q\n", r"qrels\.tsv, line 1: 1 column$"),
        ("corpus", '{"id": "", "text": "x"}\n', r"line 1: the id '' is empty"),
        ("corpus", '{"id": "d"}\n', r"line 1: the field 'text' is missing"),
        ("corpus", '{"id": "d", "text": "\\ud800"}\n', r"line 1: .* lone surrogate"),
        ("corpus", '{"id": "d", "text": "x"}\n' * 2, r"line 2: the id 'd' is taken already"),
        ("corpus", "\n", r"corpus\.jsonl has no documents"),
        ("queries", '{"id": "q"}\n', r"queries\.jsonl, line 1: the field 'text' is missing"),
        ("qrels", _HEADER + "q d 1\n", r"qrels\.tsv, line 2: 3 columns"),
        ("qrels", _HEADER + "q\td\thigh\n", r"line 2: the grade 'high' is not an integer"),
        ("qrels", _HEADER + "q\td\t1_0\n", r"line 2: the grade '1_0' is not an integer"),
        ("qrels", _HEADER + "q\td\t\u0661\n", r"line 2: the grade '\u0661' is not an integer"),
        ("qrels", _HEADER + "x\td\t1\n", r"line 2: no query has the id 'x'"),
        ("qrels", _HEADER + "q\td\t1\nq\td\t2\n", r"line 3: .* have the grade 1 already"),
        ("qrels", _HEADER + "q\td\t0\n", r"qrels\.tsv has no relevant document"),
        ("qrels", _HEADER + "q\td\t21\n", r"line 2: the grade 21 is above 20"),
        ("queries", '{"id": "q", "text": "", "class": ""}\n', r'line 1: the classes are \[""\]'),
        ("queries", '{"id": "q", "text": "", "classes": "a"}\n', r'line 1: the classes are "a"'),
        ("queries", '{"id": "q", "text": "", "class": "a", "classes": []}\n', r"line 1: both"),
        ("queries", '{"id": "q", "text": "", "answerable": 0}\n', r"'answerable' is 0, not true"),
        ("queries", '{"id": "q", "text": "", "answerable": false}\n', r"qrels.*line 2: .*not answ"),
        ("queries", '{"id": "q", "text": "", "sufficient": ["d"]}\n', r"line 1: .*'sufficient' is"),
        ("queries", '{"id": "q", "text": "", "sufficient": [[]]}\n', r"line 1: .*'sufficient' is"),
        (
            "queries",
            '{"id": "q", "text": "", "answerable": false, "sufficient": [["d"]]}\n',
            r"line 1: .*not answerable has 'sufficient'",
        ),
    ],
)
def test_a_malformed_file_is_named_with_its_line(
    tmp_path: Path, file: str, content: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        read_collection(written(tmp_path, **{file: content}))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q", "line 2: no tab"),
        ("q\ta\tb", "line 2: more than two columns"),
        ("p\tx", "line 2: the id 'p' is taken"),
        ("\tx", "line 2: the id '' is empty"),
    ],
)
def test_a_malformed_table_of_queries_is_named_with_its_line(
    tmp_path: Path, line: str, message: str
) -> None:
    queries = tmp_path / "queries.tsv"
    queries.write_text(f"p\tfirst\n{line}\n")
    with pytest.raises(UsageError, match=message):
        read_collection(written(tmp_path), queries=queries)


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    written(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(UsageError, match=f"has no .*{name}"):
        read_collection(tmp_path)


def test_a_file_that_cannot_be_read_is_named_once(tmp_path: Path) -> None:
    message = f"{tmp_path / 'nope'} cannot be read: No such file or directory"
    with pytest.raises(UsageError) as caught:
        read_collection(written(tmp_path), qrels=tmp_path / "nope")
    assert str(caught.value) == message


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no folder .*nowhere"):
        read_collection(tmp_path / "nowhere")


def test_a_cut_archive_is_an_error_of_the_file(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "corpus.jsonl").unlink()
    lines = "".join(json.dumps({"id": str(at), "text": str(at * 7919)}) + "\n" for at in range(999))
    data = gzip.compress(lines.encode())
    (tmp_path / "corpus.jsonl.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(UsageError, match=r"corpus\.jsonl\.gz cannot be read"):
        read_collection(tmp_path)


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "queries.jsonl").write_bytes(b'{"id": "q", "text": "x"}\n{"id": "r\xff"}\n')
    with pytest.raises(UsageError, match=r"queries\.jsonl, line 2: not UTF-8"):
        read_collection(tmp_path)
