"""Layers made anew beside what is served, resumable, published once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqlindex import CancelToken, Document, Gate, Index, IndexConfig, Progress, Retention
from sqlindex.errors import BuildChangedError, CancelledError, GateError, UsageError
from sqlindex.indexing import prepare
from sqlindex.model.documents import ParsedDocument
from sqlindex.model.layers import LAYERS, Layer
from sqlindex.parsing.registry import builtin_parsers
from sqlindex.parsing.text import TextParser
from sqlindex.store import driver
from sqlindex.testing import HashingEmbedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FILES = {f"f{n:02}.md": f"# File {n}\n\nThe pump number {n} is hot.\n" for n in range(20)}
CONFIG = IndexConfig(documents_per_batch=4, embedding_batch=4)


class Mended(HashingEmbedder):
    """Gave wrong vectors under the identity that it still has."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__(16)
        self.factor = factor

    def _embed(self, text: str) -> npt.NDArray[np.float32]:
        vector = super()._embed(text)
        vector[1] += self.factor
        return vector


class OtherTitle(TextParser):
    """A parser that finds something else under its old id and version."""

    def parse(self, text: str, language: str) -> ParsedDocument:
        from dataclasses import replace

        return replace(super().parse(text, language), title="Mended")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


@pytest.fixture
def db(tmp_path: Path, folder: Path) -> Path:
    path = tmp_path / "i.db"
    with Index.open(path, create=True, embedder=HashingEmbedder(16), config=CONFIG) as index:
        index.add_source(folder)
        index.refresh()
    return path


def rows(db: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(driver.connect(db, "ro")) as connection:
        return connection.execute(sql).fetchall()


def cancelled_after(index: Index, texts: int, **options: object) -> None:
    """Reindex until that many texts are embedded."""
    token = CancelToken()

    def look(progress: Progress) -> None:
        if progress.phase == "embed" and progress.done >= texts:
            token.cancel()

    with pytest.raises(CancelledError):
        index.reindex(cancel=token, progress=look, **options)  # type: ignore[arg-type]


@pytest.mark.req("A-29")
@pytest.mark.parametrize(
    ("layers", "inputs"), [(None, 20), (["vectors"], 20), (["chunks"], 0), (["lexical"], 0)]
)
def test_a_layer_is_made_anew_and_the_others_are_reused(
    db: Path, layers: list[Layer] | None, inputs: int
) -> None:
    embedder = HashingEmbedder(16)
    with Index.open(db, embedder=embedder, config=CONFIG) as index:
        before = [hit.chunk_id for hit in index.search("pump 7", limit=50).hits]
        stored = rows(db, "SELECT max(parse_id) FROM parse")
        report = index.reindex(layers)
        assert (report.generation, report.is_published) == (2, True)
        assert report.embedded == len(embedder.document_inputs) == inputs
        assert report.reused == 20 - inputs
        assert report.changes.count("reparsed") == (0 if layers and "chunks" not in layers else 20)
        assert [hit.chunk_id for hit in index.search("pump 7", limit=50).hits] == before
        assert index.check() == []
        assert index.history()[0].cause == "reindex"
        assert index.refresh().is_published is False
    # What came out equal is stored once.
    assert rows(db, "SELECT max(parse_id) FROM parse") == stored
    assert rows(db, "SELECT lexical FROM head") == [
        ("a" if layers and "lexical" not in layers else "b",)
    ]


@pytest.mark.req("A-29", "D-2")
def test_new_vectors_lie_beside_the_old_ones_until_these_are_collected(db: Path) -> None:
    with Index.open(db, embedder=Mended(), config=CONFIG) as index:
        identity = index.status().space
        old = index.search("pump 7", mode="semantic").hits[0].semantic_score
        index.reindex(["vectors"])
        new = index.search("pump 7", mode="semantic").hits[0].semantic_score
        assert new != old
        assert index.status().space == identity
        assert {generation.embedder for generation in index.history()[:2]} == {identity}
        names = rows(db, "SELECT identity FROM vector_space ORDER BY space_id")
        assert names == [(f"{identity} (until generation 2)",), (identity,)]
        assert rows(db, "SELECT count(*) FROM vector") == [(40,)]
        # An earlier state comes back with its vectors, and the next refresh takes the new ones.
        assert index.rollback(1).is_other_space is False
        assert index.search("pump 7", mode="semantic").hits[0].semantic_score == old
        report = index.refresh()
        assert report.embedded == 0
        assert "vectors: those that this embedder made last" in report.changes.rebuilt
        assert index.search("pump 7", mode="semantic").hits[0].semantic_score == new
        index.collect(Retention(generations=1))
        assert rows(db, "SELECT identity FROM vector_space") == [(identity,)]
        assert rows(db, "SELECT count(*) FROM vector") == [(20,)]
        assert index.check() == []


@pytest.mark.req("A-29")
def test_what_a_parser_gives_anew_is_stored_beside_what_it_gave(tmp_path: Path) -> None:
    folder, db = tmp_path / "files", tmp_path / "i.db"
    folder.mkdir()
    (folder / "a.txt").write_text("The pump is hot.\n")
    with Index.open(db, create=True) as index:
        index.add_source(folder)
        index.refresh()
    mended = builtin_parsers().with_parsers([OtherTitle()], override=True)
    with Index.open(db, parsers=mended) as index:
        assert index.refresh().is_published is False
        assert index.reindex(["chunks"]).is_published
        assert index.get("a.txt").title == "Mended"
        assert index.refresh().is_published is False
        assert index.reindex(["chunks"]).is_published
        assert rows(db, "SELECT count(*) FROM parse") == [(2,)]
        assert index.get("a.txt", at=1).title == "a"
        assert index.check() == []
    with Index.open(db) as index:
        assert index.reindex(["chunks"]).is_published
        assert index.get("a.txt").title == "a"
        assert index.check() == []
        assert rows(db, "SELECT count(*) FROM parse") == [(3,)]


@pytest.mark.req("C-6", "A-14")
@pytest.mark.parametrize("layers", [None, ["vectors"]])
def test_an_interrupted_reindex_goes_on_and_a_refresh_in_between_does_not_end_it(
    db: Path, folder: Path, layers: list[Layer] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashingEmbedder(16)
    with Index.open(db, embedder=embedder, config=CONFIG) as index:
        cancelled_after(index, 8, layers=layers)
        assert index.status().generation == 1
        (folder / "added.md").write_text("# Added\n\nA quartz lamp.\n")
        assert index.refresh().embedded == 1
        assert index.search("quartz").generation == 2
        assert index.check() == []
        assert len(index.status().unfinished) == 1
        parsed: list[str] = []
        parse = prepare.Workshop.parsed

        def counted(self: prepare.Workshop, type_name: str, text: str) -> object:
            parsed.append(text)
            return parse(self, type_name, text)

        monkeypatch.setattr(prepare.Workshop, "parsed", counted)
        report = index.reindex(layers)
        assert report.is_published
        assert report.generation == 3
        # 20 documents once each, one that came since, once in each space.
        assert len(embedder.document_inputs) == 22
        assert sorted(set(embedder.document_inputs)) == sorted(embedder.document_inputs[:-1])
        assert len(parsed) <= len(FILES) * (layers is None)
        assert index.status().unfinished == ()
        assert index.check() == []


@pytest.mark.req("C-6")
def test_another_reindex_needs_restart_while_one_is_unfinished(db: Path) -> None:
    embedder = HashingEmbedder(16)
    with Index.open(db, embedder=embedder, config=CONFIG) as index:
        cancelled_after(index, 8)
        with pytest.raises(BuildChangedError, match=r"the reindex begun at .* layers was"):
            index.reindex(["vectors"])
        assert index.reindex(["vectors"], restart=True).embedded == 20
        assert len(embedder.document_inputs) == 28
        assert rows(db, "SELECT count(*) FROM vector_space") == [(2,)]
        assert index.check() == []


@pytest.mark.req("A-14")
def test_searches_are_answered_from_the_last_generation_all_the_while(db: Path) -> None:
    answers: set[tuple[int, float | None]] = set()

    class Searching(HashingEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            with Index.open(db, embedder=HashingEmbedder(16)) as other:
                result = other.search("pump 7", mode="semantic")
                answers.add((result.generation, result.hits[0].semantic_score))
            return super().embed_documents(texts)

    with Index.open(db, embedder=Searching(16), config=CONFIG) as index:
        assert index.reindex().generation == 2
    assert len(answers) == 1
    assert next(iter(answers))[0] == 1


@pytest.mark.req("D-10")
@pytest.mark.parametrize("layer", LAYERS)
def test_a_gate_keeps_a_reindex_back_until_it_is_published(db: Path, layer: Layer) -> None:
    with Index.open(db, embedder=HashingEmbedder(16), config=CONFIG) as index:
        index.add_question("pump 7", ["f00.md"])
        gate = Gate("hit@1 >= 0.9")
        with pytest.raises(GateError):
            index.reindex([layer], gate=gate)
        assert index.status().generation == 1
        assert index.publish(force=True) == 2
        assert index.history()[0].cause == "reindex"
        assert index.search("pump 7").generation == 2
        assert rows(db, "SELECT lexical FROM head") == [("b" if layer == "lexical" else "a",)]
        assert index.check() == []


@pytest.mark.req("A-29")
def test_pushed_documents_keep_their_chunks_and_get_new_vectors(tmp_path: Path) -> None:
    embedder = HashingEmbedder(16)
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        index.upsert("notes", [Document("a", "The pump is hot."), Document("b", "A valve.")])
        report = index.reindex()
        assert (report.embedded, report.changes.counts) == (2, {})
        assert index.status().documents == 2
        assert index.check() == []


@pytest.mark.req("A-29")
def test_a_request_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True) as index:
        index.upsert("notes", [Document("a", "The pump is hot.")])
        for layers, words in (
            (["words"], "no layer 'words'"),
            ([], "no layer"),
            (["vectors"], "embedder"),
        ):
            with pytest.raises(UsageError, match=words):
                index.reindex(layers)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="not one text"):
            index.reindex("chunks")  # type: ignore[arg-type]
        assert index.reindex().is_published


@pytest.mark.req("A-14")
def test_progress_says_what_is_counted_and_how_much_there_is(db: Path) -> None:
    seen: list[Progress] = []
    with Index.open(db, embedder=HashingEmbedder(16), config=CONFIG) as index:
        index.reindex(progress=seen.append)
    assert {(step.phase, step.unit, step.total) for step in seen} == {
        ("read", "documents", 20),
        ("embed", "texts", 20),
        ("publish", "steps", 1),
    }


@pytest.mark.req("A-14")
def test_a_cancel_while_the_embedder_hangs_ends_a_reindex_at_once(db: Path) -> None:
    hangs, let_go, token = threading.Event(), threading.Event(), CancelToken()

    class Hanging(HashingEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            hangs.set()
            assert let_go.wait(60)
            return super().embed_documents(texts)

    def cancel() -> None:
        assert hangs.wait(60)
        token.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with Index.open(db, embedder=Hanging(16), config=CONFIG) as index:
        with pytest.raises(CancelledError):
            index.reindex(cancel=token)
        let_go.set()
        assert index.reindex(cancel=CancelToken()).embedded == 20
    thread.join()
