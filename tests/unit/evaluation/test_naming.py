"""Names of documents: an id as long as it is clear, else the source before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlindex.errors import UsageError
from sqlindex.evaluation.judgements import JudgedQuery, Judgements
from sqlindex.evaluation.naming import DocumentNames, document_of_chunk
from sqlindex.index import Index
from sqlindex.snapshot import Snapshot
from sqlindex.sources.memory import Document

pytestmark = pytest.mark.req("A-32")


@pytest.fixture
def snapshot(tmp_path: Path) -> Iterator[Snapshot]:
    """Two sources that share an id, and an id that looks like a full name."""
    long = "\n\n".join(f"harbour {at} " + "filler " * 150 for at in range(3))
    with Index.open(tmp_path / "i.db", create=True) as index:
        index.upsert("news", [Document("both", "harbour one"), Document("only#1", long)])
        index.upsert("notes", [Document("both", "harbour two"), Document("news:both", "harbour")])
        with index.snapshot() as taken:
            yield taken


def judgements(qrels: dict[str, dict[str, int]], *sufficient: frozenset[str]) -> Judgements:
    queries = {name: JudgedQuery(name, "harbour", sufficient=sufficient) for name in qrels}
    return Judgements("c", queries, qrels, "", "")


def test_hits_and_judgements_have_the_same_names(snapshot: Snapshot) -> None:
    names = DocumentNames(snapshot)
    found = {names.of_document(hit) for hit in snapshot.search("harbour", limit=100).hits}
    assert found == {"news:both", "notes:both", "only#1", "notes:news:both"}
    judged = names.judged(
        judgements(
            {"q": {"news:both": 2, "notes:only#1": 1, "news:only#1": 3, "gone": 1, "lost": 0}},
            frozenset({"news:only#1", "gone"}),
        )
    )
    assert judged.qrels == {
        "q": {"news:both": 2, "notes:only#1": 1, "only#1": 3, "gone": 1, "lost": 0}
    }
    assert judged.queries["q"].sufficient == (frozenset({"only#1", "gone"}),)
    assert names.unknown(judged.qrels) == 2


def test_an_ambiguous_id_is_refused_with_the_names_to_choose_from(snapshot: Snapshot) -> None:
    with pytest.raises(UsageError, match="'both', which 2 sources have") as caught:
        DocumentNames(snapshot).judged(judgements({"q": {"both": 1}}))
    assert caught.value.hint == "write news:both or notes:both"


def test_two_grades_under_two_names_are_refused(snapshot: Snapshot) -> None:
    with pytest.raises(UsageError, match="two grades for document 'only#1'"):
        DocumentNames(snapshot).judged(judgements({"q": {"only#1": 1, "news:only#1": 2}}))


def test_every_chunk_of_a_judged_document_has_its_grade(snapshot: Snapshot) -> None:
    names = DocumentNames(snapshot)
    chunks = {
        names.of_chunk(hit)
        for hit in snapshot.search("harbour", limit=100).hits
        if hit.document_id == "only#1"
    }
    assert len(chunks) > 1
    assert {document_of_chunk(name) for name in chunks} == {"only#1"}
    found = names.chunk_qrels({"q": {"only#1": 2, "gone": 1, "news:both": 0}})
    assert {name for name, grade in found["q"].items() if grade == 2} == chunks
    (lost,) = found["q"].keys() - chunks
    assert document_of_chunk(lost) == "gone"
