"""A change of what made a layer rebuilds that layer at the next refresh, says so, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlindex import Index
from sqlindex.chunking.embedding_text import embedding_text
from sqlindex.errors import HeadMovedError
from sqlindex.indexing import build, prepare, publishing
from sqlindex.parsing.markdown import MarkdownParser
from sqlindex.sources.memory import Document
from sqlindex.store.generations import publish
from sqlindex.store.writer import Writer
from sqlindex.testing import HashingEmbedder
from tests.unit.store.test_collect import Shell

DOCUMENTS = {f"note{number}.md": f"# Note {number}\n\npump {number}\n" for number in range(4)} | {
    "plain.txt": "a plain text\n"
}


@pytest.fixture
def made(tmp_path: Path, folder: Path) -> Path:
    """An index of a folder with four Markdown files and a text, with vectors."""
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text)
    path = tmp_path / "index.db"
    with Index.open(path, create=True, embedder=HashingEmbedder(16)) as index:
        index.add_source(folder, name="notes")
        index.refresh()
    return path


def _parser_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MarkdownParser, "version", 999)


def _chunker_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(prepare, "CHUNKER_VERSION", 999)


def _input_changed(patch: pytest.MonkeyPatch) -> None:
    original = embedding_text
    patch.setattr(prepare, "EMBEDDING_INPUT_VERSION", 999)
    patch.setattr(prepare, "embedding_text", lambda *a, **k: f"new {original(*a, **k)}")
    patch.setattr(build, "embedding_text", lambda *a, **k: f"new {original(*a, **k)}")


def _analyser_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publishing, "analyzer_fingerprint", lambda: "another")


CHANGES: dict[str, tuple[Any, int, int, str]] = {
    # what changes; documents cut anew; texts embedded anew; what the report says
    "parser": (_parser_changed, 4, 0, "chunks of 4 documents"),
    "chunker": (_chunker_changed, 5, 0, "chunks of 5 documents"),
    "embedding input": (_input_changed, 5, 5, "chunks of 5 documents"),
    "analyser": (_analyser_changed, 0, 0, "lexical rows"),
    "embedder": (None, 0, 5, "vectors"),
}


@pytest.mark.req("A-29", "D-11")
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_layer_is_rebuilt_alone_and_told_and_planned(
    name: str, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, reparsed, embedded, words = CHANGES[name]
    embedder = HashingEmbedder(8 if name == "embedder" else 16)
    if change is not None:
        change(monkeypatch)
    with Index.open(made, embedder=embedder) as index:
        assert index.check() == [], "made by another version is no damage"
        planned = index.plan()
        report = index.refresh()
        assert report.changes.counts.get("reparsed", 0) == reparsed
        assert (report.embedded, len(embedder.document_inputs)) == (embedded, embedded)
        assert any(words in note for note in report.changes.rebuilt), report.changes.rebuilt
        assert (planned.counts, planned.embedding_inputs, planned.rebuilt) == (
            report.changes.counts,
            embedded,
            report.changes.rebuilt,
        )
        assert report.generation == 2
        assert not index.refresh().is_published
        assert index.check() == []


_FOREIGN = """
    INSERT INTO generation SELECT generation + 1, build_id, published_at, 'foreign', space_id, analyzer, documents,
      chunks, embedded_chunks, 0, 0, 0, 0, 0, 1, NULL FROM generation WHERE generation = 1
"""


@pytest.mark.req("A-14", "A-18")
def test_a_build_whose_head_has_moved_is_not_published(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def move_first(writer: Writer, *arguments: Any, **options: Any) -> int:
        # What the writer's lock forbids: another program publishes in between.
        writer.connection.execute(_FOREIGN)
        writer.connection.execute("UPDATE head SET generation = 2")
        return publish(writer, *arguments, **options)

    with Index.open(tmp_path / "index.db", create=True) as index:
        index.upsert("host", [Document("a.md", "alpha")])
        monkeypatch.setattr(publishing, "publish", move_first)
        with pytest.raises(HeadMovedError, match="made on generation 1, the head is 2"):
            index.upsert("host", [Document("b.md", "beta")])
        born = "SELECT document_id FROM document_version WHERE born IS NOT NULL"
        assert shell(index.path, born) == ["a.md"]
        assert len(index.search("alpha").hits) == 1
