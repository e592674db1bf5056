"""A rollback publishes an earlier state as a new generation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlindex import Index, Retention
from sqlindex.config import IndexConfig
from sqlindex.errors import DuplicateError, GenerationGoneError, UnknownGenerationError
from sqlindex.sources.memory import Document
from sqlindex.testing import HashingEmbedder
from tests.faults import observe

Shell = Callable[[Path, str], list[str]]
QUERIES = ("alpha", "beta", "gamma")


def _states(db: Path, *, staged_fts_chunks: int = 20_000) -> Index:
    """An index with three generations that differ in every way."""
    config = IndexConfig(staged_fts_chunks=staged_fts_chunks)
    index = Index.open(db, create=True, embedder=HashingEmbedder(16), config=config)
    index.upsert(
        "host",
        [
            Document("stays.md", "# Stays\n\nalpha stays\n", tags=("x",)),
            Document("changes.md", "# One\n\nalpha one\n"),
            Document("goes.md", "# Goes\n\nbeta goes, see [one](changes.md)\n", type_name="md"),
        ],
    )
    index.upsert(
        "host",
        [Document("changes.md", "# Two\n\ngamma two\n"), Document("comes.md", "gamma comes\n")],
        remove=["goes.md"],
    )
    index.upsert("other", [Document("more.md", "beta more\n")])
    return index


@pytest.mark.req("D-2")
@pytest.mark.parametrize("staged_fts_chunks", [1, 20_000])
def test_a_rollback_shows_what_the_generation_showed_and_embeds_nothing(
    staged_fts_chunks: int, tmp_path: Path
) -> None:
    db = tmp_path / "index.db"
    with _states(db, staged_fts_chunks=staged_fts_chunks) as index:
        states = {3: observe(db, QUERIES, HashingEmbedder(16)).content()}
        embedder = HashingEmbedder(16)
        for generation, restored in ((4, 1), (5, 2), (6, 1), (7, 3)):
            with Index.open(db, embedder=embedder, config=IndexConfig()) as other:
                report = other.rollback(restored)
            assert (report.generation, report.is_published) == (generation, True)
            state = observe(db, QUERIES, HashingEmbedder(16)).content()
            assert states.setdefault(restored, state) == state
            assert index.check() == []
        assert embedder.document_inputs == []
        assert len(set(states.values())) == 3
    with Index.open(tmp_path / "fresh.db", create=True, embedder=HashingEmbedder(16)) as fresh:
        fresh.upsert(
            "host",
            [
                Document("stays.md", "# Stays\n\nalpha stays\n", tags=("x",)),
                Document("changes.md", "# One\n\nalpha one\n"),
                Document("goes.md", "# Goes\n\nbeta goes, see [one](changes.md)\n", type_name="md"),
            ],
        )
        assert observe(fresh.path, QUERIES, HashingEmbedder(16)).content() == states[1]


@pytest.mark.req("D-2")
def test_a_rollback_counts_what_came_back_changed_and_went(tmp_path: Path) -> None:
    with _states(tmp_path / "index.db") as index:
        report = index.rollback(1)
        assert (report.added, report.changed, report.removed) == (1, 1, 2)
        assert not report.is_other_space
        links = index.links("goes.md")
        assert [link.target for link in links] == ["changes.md"]
        assert [link.source for link in index.backlinks("changes.md")] == ["host"]
        again = index.rollback(1)
        assert (again.generation, again.is_published) == (4, False)


@pytest.mark.req("D-2")
def test_the_next_refresh_follows_the_files_again(index: Index, folder: Path) -> None:
    note = folder / "note.md"
    note.write_text("alpha\n")
    index.add_source(folder, name="notes")
    index.refresh()
    note.write_text("beta beta\n")
    index.refresh()
    index.rollback(1)
    assert [hit.text for hit in index.search("alpha").hits] == ["alpha"]
    report = index.refresh()
    assert report.changes.count("changed") == 1
    assert [hit.text for hit in index.search("beta").hits] == ["beta beta"]


@pytest.mark.req("D-2")
def test_a_removed_source_comes_back_with_its_documents(index: Index) -> None:
    index.upsert("a", [Document("a.md", "alpha")])
    index.upsert("b", [Document("b.md", "beta")])
    index.remove_source("a")
    index.rollback(2)
    assert {source.name for source in index.status().sources} == {"a", "b"}
    assert index.upsert("a", [Document("c.md", "gamma")]).generation == 5
    assert len(index.search("alpha").hits) == 1


@pytest.mark.req("D-2")
def test_a_source_whose_name_is_taken_does_not_come_back(index: Index) -> None:
    index.upsert("a", [Document("a.md", "alpha")])
    index.remove_source("a")
    index.upsert("a", [Document("other.md", "beta")])
    with pytest.raises(DuplicateError, match="'a'"):
        index.rollback(1)
    assert index.status().generation == 3
    assert index.status().unfinished == ()
    index.remove_source("a")
    index.rollback(1)
    assert [hit.document_id for hit in index.search("alpha").hits] == ["a.md"]


@pytest.mark.req("A-29", "D-2")
def test_a_rollback_across_embedders_is_searched_with_the_vectors_of_then(tmp_path: Path) -> None:
    db = tmp_path / "index.db"
    with Index.open(db, create=True, embedder=HashingEmbedder(16)) as index:
        index.upsert("host", [Document("a.md", "alpha")])
    with Index.open(db, embedder=HashingEmbedder(8)) as index:
        index.upsert("host", [Document("b.md", "beta")])
        assert index.rollback(1).is_other_space
    with Index.open(db, embedder=HashingEmbedder(16)) as index:
        assert [h.document_id for h in index.search("beta", mode="semantic").hits] == ["a.md"]
        assert index.check() == []


@pytest.mark.req("D-2")
def test_a_generation_that_is_gone_cannot_come_back(index: Index, shell: Shell) -> None:
    index.upsert("host", [Document("a.md", "alpha")])
    index.upsert("host", [Document("a.md", "beta")])
    index.collect(Retention(generations=1))
    with pytest.raises(GenerationGoneError):
        index.rollback(1)
    with pytest.raises(UnknownGenerationError):
        index.rollback(77)
    assert shell(index.path, "SELECT count(*) FROM build") == ["0"]
