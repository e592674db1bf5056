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


def test_relevant_documents_that_the_corpus_lacks_are_counted(tmp_path: Path) -> None:
    qrels = _HEADER + "q\td\t1\nq\tgone\t1\nq\tgone too\t0\n"
    assert read_collection(written(tmp_path, qrels=qrels)).unknown_judged == 1


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus", '{"id": "d", "text": "x"}\nnot json\n', r"corpus\.jsonl, line 2: not JSON"),
        ("corpus", "[1]\n", r"line 1: not a JSON object"),
        ("corpus", '{"title": "no id", "text": "x"}\n', r"line 1: the field '_id' is missing"),
        ("corpus", '{"id": 7, "text": "x"}\n', r"line 1: the field 'id' is 7, not a text"),
        ("corpus", '{"id": "", "text": "x"}\n', r"line 1: the id '' is empty"),
        ("corpus", '{"id": "d"}\n', r"line 1: the field 'text' is missing"),
        ("corpus", '{"id": "d", "text": "\\ud800"}\n', r"line 1: .* lone surrogate"),
        ("corpus", '{"id": "d", "text": "x"}\n' * 2, r"line 2: the id 'd' is taken already"),
        ("corpus", "\n", r"corpus\.jsonl has no documents"),
        ("queries", '{"id": "q"}\n', r"queries\.jsonl, line 1: the field 'text' is missing"),
        ("qrels", _HEADER + "q d 1\n", r"qrels\.tsv, line 2: 1 columns instead of 3"),
        ("qrels", _HEADER + "q\td\thigh\n", r"line 2: the grade 'high' is not an integer"),
        ("qrels", _HEADER + "x\td\t1\n", r"line 2: no query has the id 'x'"),
        ("qrels", _HEADER + "q\td\t1\nq\td\t2\n", r"line 3: .* have the grade 1 already"),
        ("qrels", _HEADER + "q\td\t0\n", r"qrels\.tsv names no relevant document"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(
    tmp_path: Path, file: str, content: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        read_collection(written(tmp_path, **{file: content}))
    assert caught.value.hint


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    written(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(UsageError, match=f"has no .*{name}"):
        read_collection(tmp_path)


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
