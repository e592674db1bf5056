"""Diffs of two generations: documents, chunks, and why a ranking moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex import ChunkConfig, Index, IndexConfig
from sqlindex.errors import EmbedderMismatchError, EmbedderRequiredError, LexicalHistoryError
from sqlindex.model.comparison import Move
from sqlindex.sources.memory import Document
from sqlindex.testing import HashingEmbedder

LONG = "\n\n".join(f"# Part {i}\n\nParagraph {i} of the long text." for i in range(6))


@pytest.mark.req("D-2")
def test_a_diff_names_renames_and_what_was_only_cut_anew(tmp_path: Path, folder: Path) -> None:
    (folder / "long.md").write_text(LONG, encoding="utf-8")
    (folder / "old.md").write_text("# Old\n\ntext\n", encoding="utf-8")
    path = tmp_path / "i.db"
    with Index.open(path, create=True) as index:
        index.add_source(folder)
        index.refresh()
    (folder / "old.md").rename(folder / "new.md")
    coarse = IndexConfig(chunks=ChunkConfig(target_chars=40, min_chars=0, overlap_lines=0))
    with Index.open(path, config=coarse) as index:
        index.refresh()
        diff = index.diff(1)
        assert [(d.kind, d.document_id, d.old_id) for d in diff.documents] == [
            ("reparsed", "long.md", None),
            ("renamed", "new.md", "old.md"),
        ]
        reparsed = diff.documents[0]
        chunks = [len(index.chunks("long.md", at=at)) for at in (1, 2)]
        assert reparsed.chunks_kept + reparsed.chunks_removed == chunks[0]
        assert reparsed.chunks_kept + reparsed.chunks_added == chunks[1]
        assert diff.counts() == {"reparsed": 1, "renamed": 1}
        assert index.diff(2, 2).documents == ()
        assert index.diff("head~1", "head").documents == diff.documents
        back = index.diff(2, 1)
        assert [(d.kind, d.document_id, d.old_id) for d in back.documents] == [
            ("reparsed", "long.md", None),
            ("renamed", "old.md", "new.md"),
        ]


@pytest.mark.req("D-2")
def test_what_came_and_went_again_is_no_difference(index: Index) -> None:
    index.upsert("n", [Document("a", "one"), Document("b", "two")])
    index.upsert("n", [Document("a", "else"), Document("c", "three")])
    index.upsert("n", [Document("a", "one")], remove=["c"])
    assert index.diff(1, 3).documents == ()
    assert index.diff(1, 2).counts() == {"added": 1, "changed": 1}
    index.remove_source("n")
    index.upsert("n", [Document("a", "one"), Document("b", "two")])
    assert index.diff(1).documents == ()  # another source of the name, the same documents


@pytest.mark.req("D-2")
def test_a_ranking_says_what_moved_and_why(tmp_path: Path) -> None:
    embedder = HashingEmbedder(dimensions=256)
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        index.upsert(
            "n",
            [
                Document("alone", "pump pump pump"),
                Document("stays", "pump valve"),
                Document("edited", "pump valve motor"),
                Document("goes", "pump valve motor pipe"),
                Document("under", "# Heading\n\npump valve motor pipe seal\n", type_name="md"),
                Document("named", "pump valve motor pipe seal ring"),
                Document("last", "pump valve motor pipe seal ring belt"),
            ],
        )
        index.upsert(
            "n",
            [
                Document("edited", "pump pump valve"),
                Document("comes", "pump"),
                Document("under", "# Another\n\npump valve motor pipe seal\n", type_name="md"),
                Document("renamed", "pump valve motor pipe seal ring"),
            ],
            remove=["goes", "named"],
        )
        diff = index.diff(1, 2, query="pump", limit=20)
        assert diff.ranking is not None
        assert (diff.ranking.query, diff.ranking.mode) == ("pump", "semantic")
        moves: dict[tuple[str, bool, bool], Move] = {
            (c.document_id, c.old_rank is not None, c.new_rank is not None): c.move
            for c in diff.ranking.chunks
        }
        assert moves == {
            ("alone", True, True): "same",
            ("comes", False, True): "added",
            ("stays", True, True): "others",
            ("edited", True, False): "changed",
            ("edited", False, True): "changed",
            ("goes", True, False): "removed",
            ("under", False, True): "changed",  # its heading stands in the chunk
            ("under", True, False): "changed",
            ("renamed", True, True): "renamed",
            ("last", True, True): "same",
        }
        new_ranks = [c.new_rank for c in diff.ranking.chunks if c.new_rank is not None]
        assert new_ranks == sorted(new_ranks)
        for chunk in diff.ranking.chunks:
            for at, rank, score in (
                (1, chunk.old_rank, chunk.old_score),
                (2, chunk.new_rank, chunk.new_score),
            ):
                if rank is not None:
                    hit = index.search(
                        "pump", mode="semantic", at=at, offset=rank - 1, limit=1
                    ).hits[0]
                    assert (hit.semantic_score, hit.snippet) == (score, chunk.snippet)
        assert len(index.diff(1, query="pump", limit=2).ranking.chunks) == 3  # type: ignore[union-attr]  # asked for
        back = index.diff(2, 1, query="pump", limit=20).ranking
        assert back is not None
        assert {c.move for c in back.chunks if c.document_id == "comes"} == {"removed"}


@pytest.mark.req("D-2")
def test_the_same_text_under_another_heading_has_another_vector(tmp_path: Path) -> None:
    def page(heading: str) -> Document:
        body = "\n\n".join(f"pump number {i} runs in hall {i % 3} as planned." for i in range(60))
        return Document("page", f"# {heading}\n\n{body}\n", type_name="md")

    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder(256)) as index:
        index.upsert("n", [page("Summer")])
        index.upsert("n", [page("Winter")])
        ranking = index.diff(1, 2, query="pump winter", limit=100).ranking
        assert ranking is not None
        assert {c.move for c in ranking.chunks} == {"vector", "changed"}
        for chunk in ranking.chunks:
            if chunk.move == "vector":
                assert chunk.old_score != chunk.new_score


@pytest.mark.req("D-2")
def test_a_ranking_needs_the_embedder_of_both_and_words_only_the_head_has(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    with Index.open(path, create=True, embedder=HashingEmbedder()) as index:
        index.upsert("n", [Document("a", "one")])
        index.upsert("n", [Document("a", "two")])
        with pytest.raises(LexicalHistoryError):
            index.diff(1, query="one", mode="lexical")
        lexical = index.diff(2, query="two", mode="lexical").ranking
        assert lexical is not None
        assert [(c.old_rank, c.new_rank, c.move) for c in lexical.chunks] == [(1, 1, "same")]
        with pytest.raises(ValueError, match="limit"):
            index.diff(1, query="one", limit=0)
    with Index.open(path) as index:
        assert index.diff(1).counts() == {"changed": 1}
        with pytest.raises(EmbedderRequiredError):
            index.diff(1, query="one")
    with Index.open(path, embedder=HashingEmbedder(revision="2")) as index:
        index.upsert("n", [Document("a", "three")])
        with pytest.raises(EmbedderMismatchError):
            index.diff(1, query="one")
