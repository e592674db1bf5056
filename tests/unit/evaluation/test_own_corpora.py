"""Our own judged corpora: the counts their README states, and judgements that fit together."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sqlindex.chunking.chunker import chunk_document
from sqlindex.config import ChunkConfig
from sqlindex.evaluation.beir import JudgedCollection, read_collection
from sqlindex.evaluation.collection_index import host_document
from sqlindex.parsing.text import TextParser

pytestmark = pytest.mark.req("A-32")

CORPORA = Path(__file__).resolve().parents[3] / "fixtures" / "corpora"
NO_ANSWER = {"negative", "near miss"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a corpus is written to have."""

    documents: int
    chunks: int
    queries_by_class: dict[str, int]
    with_sufficient: int


SHAPES = {
    "company-knowledge": Shape(
        documents=64,
        chunks=72,
        queries_by_class=dict.fromkeys(
            (
                "direct",
                "conceptual",
                "mixed",
                "ambiguous",
                "noisy",
                "multi-relevant",
                "code and configuration",
                "exact",
                "negative",
                "near miss",
            ),
            5,
        ),
        with_sufficient=35,
    ),
    "manuals-zh-en": Shape(
        documents=28,
        chunks=28,
        queries_by_class={
            "same-language": 14,
            "cross-language": 7,
            "negative": 1,
            "near miss": 1,
        },
        with_sufficient=21,
    ),
}

corpora = pytest.mark.parametrize("name", SHAPES)


def collection(name: str) -> JudgedCollection:
    return read_collection(CORPORA / name)


def queries(name: str) -> list[dict[str, Any]]:
    lines = (CORPORA / name / "queries.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def relevant(judged: JudgedCollection, query_id: str) -> set[str]:
    grades = judged.qrels.get(query_id, {})
    return {document_id for document_id, grade in grades.items() if grade > 0}


@corpora
def test_documents_and_queries_are_as_many_as_stated(name: str) -> None:
    shape = SHAPES[name]
    assert len(collection(name).documents) == shape.documents
    assert Counter(query["class"] for query in queries(name)) == shape.queries_by_class
    assert sum("sufficient" in query for query in queries(name)) == shape.with_sufficient


@corpora
def test_the_default_chunking_gives_the_number_of_chunks_stated(name: str) -> None:
    chunks = 0
    for document in map(host_document, collection(name).documents):
        parsed = TextParser().parse(document.text, "text")
        chunks += len(chunk_document(document.text, parsed, ChunkConfig()))
    assert chunks == SHAPES[name].chunks


@corpora
def test_the_readme_states_the_counts(name: str) -> None:
    shape, judged = SHAPES[name], collection(name)
    stated = re.search(
        r"Counts: (\d+) \w+, (\d+) chunks, (\d+) queries, (\d+) answerable, (\d+) judgements",
        (CORPORA / name / "README.md").read_text("utf-8"),
    )
    assert stated is not None
    assert [int(number) for number in stated.groups()] == [
        shape.documents,
        shape.chunks,
        len(judged.queries),
        len(judged.answerable),
        sum(map(len, judged.qrels.values())),
    ]


@corpora
def test_every_judgement_names_a_document_and_has_a_grade_from_0_to_3(name: str) -> None:
    judged = collection(name)
    known = {document.id for document in judged.documents}
    for grades in judged.qrels.values():
        assert set(grades) <= known
        assert set(grades.values()) <= {0, 1, 2, 3}


@corpora
def test_every_judgement_stands_once(name: str) -> None:
    rows = (CORPORA / name / "qrels.tsv").read_text("utf-8").splitlines()
    assert rows[0] == "query-id\tdoc-id\tgrade"
    pairs = [row.rsplit("\t", 1)[0] for row in rows[1:]]
    assert len(set(pairs)) == len(pairs)


@corpora
def test_answerable_queries_have_an_answer_and_the_others_no_relevant_document(name: str) -> None:
    judged = collection(name)
    for query in queries(name):
        is_answerable = query.get("answerable", True)
        assert is_answerable == (query["class"] not in NO_ANSWER)
        assert (3 in judged.qrels.get(query["id"], {}).values()) == is_answerable
        assert bool(relevant(judged, query["id"])) == is_answerable


@corpora
def test_sufficient_sets_are_different_minimal_sets_of_relevant_documents(name: str) -> None:
    judged = collection(name)
    for query in queries(name):
        listed = query.get("sufficient", [])
        sets = [frozenset(documents) for documents in listed]
        assert ("sufficient" in query) == bool(sets)
        assert all(sets)
        assert list(map(len, listed)) == list(map(len, sets))
        assert not any(a <= b for a in sets for b in sets if a is not b)
        assert all(documents <= relevant(judged, query["id"]) for documents in sets)


@corpora
def test_no_document_and_no_query_is_written_twice(name: str) -> None:
    judged = collection(name)
    for texts in (
        [document.text for document in judged.documents],
        [document.title for document in judged.documents],
        list(judged.queries.values()),
    ):
        assert all(texts)
        assert len({text.casefold() for text in texts}) == len(texts)


@corpora
def test_the_files_are_nfc(name: str) -> None:
    for path in (CORPORA / name).iterdir():
        text = path.read_bytes().decode("utf-8")
        assert unicodedata.is_normalized("NFC", text), path.name


@pytest.mark.parametrize(("prefix", "answered_in"), [("zh-en", "en-"), ("en-zh", "zh-")])
def test_cross_language_queries_have_their_answer_in_the_other_language(
    prefix: str, answered_in: str
) -> None:
    judged = collection("manuals-zh-en")
    crossing = [query for query in queries("manuals-zh-en") if query["id"].startswith(prefix)]
    assert crossing
    for query in crossing:
        assert query["class"] == "cross-language"
        is_chinese = any("\u4e00" <= character <= "\u9fff" for character in query["text"])
        assert is_chinese == (answered_in == "en-")
        assert all(name.startswith(answered_in) for name in relevant(judged, query["id"]))
