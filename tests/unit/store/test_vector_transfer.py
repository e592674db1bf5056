"""Vectors move between index files by encoding and text, change no generation, and cost no inference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqlindex import Document, Index
from sqlindex.cancellation import CancelToken
from sqlindex.config import Retention
from sqlindex.errors import (
    CancelledError,
    EmbedderMismatchError,
    NoIndexError,
    NotAnIndexError,
    UsageError,
)
from sqlindex.indexing.report import Progress
from sqlindex.store import vector_transfer
from sqlindex.store.driver import connect
from sqlindex.testing import HashingEmbedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

TEXTS = [Document(f"d{n}", f"Pump number {n} runs at pressure {n * n}.") for n in range(10)]


class Counting(HashingEmbedder):
    """Says how many texts it embedded."""

    embedded = 0

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.embedded += len(texts)
        return super().embed_documents(texts)


def made(path: Path, documents: Sequence[Document] = TEXTS, revision: str = "1") -> Counting:
    """An index of these documents; the embedder that made it."""
    embedder = Counting(16, revision)
    with Index.open(path, create=True, embedder=embedder) as index:
        index.upsert("notes", documents)
    return embedder


def test_a_new_index_embeds_only_what_the_imported_vectors_do_not_cover(tmp_path: Path) -> None:
    made(tmp_path / "old.db")
    embedder = Counting(16)
    with Index.open(tmp_path / "new.db", create=True, embedder=embedder) as index:
        done = index.import_vectors(tmp_path / "old.db")
        assert (done.copied, done.present, done.damaged) == (10, 0, 0)
        assert done.encodings == (embedder.identity,)
        assert not index.status().generation
        index.upsert("other", [*TEXTS[:9], Document("new", "A valve.")])
        assert embedder.embedded == 1
        assert not index.check()


def test_imported_vectors_are_the_same_bits(tmp_path: Path) -> None:
    made(tmp_path / "old.db")
    with Index.open(tmp_path / "new.db", create=True, embedder=Counting(16)) as index:
        index.import_vectors(tmp_path / "old.db")
        index.upsert("notes", TEXTS)
    rows = "SELECT t.key, v.norm, v.f32 FROM vector v JOIN embedding_text t ON t.text_id = v.vector_id & 1099511627775 ORDER BY 1"
    found = []
    for name in ("old.db", "new.db"):
        connection = connect(tmp_path / name, "ro")
        found.append(connection.execute(rows).fetchall())
        connection.close()
    assert len(found[0]) == 10
    assert found[0] == found[1]


def test_an_export_holds_vectors_alone_and_takes_what_it_lacks(tmp_path: Path) -> None:
    made(tmp_path / "index.db")
    cache = tmp_path / "cache.db"
    with Index.open(tmp_path / "index.db", embedder=Counting(16)) as index:
        assert index.export_vectors(cache).copied == 10
        index.upsert("notes", [Document("more", "A valve.")])
        again = index.export_vectors(cache)
    assert (again.copied, again.present) == (1, 10)
    assert b"Pump number" not in cache.read_bytes()
    assert cache.stat().st_mode & 0o777 == 0o600
    embedder = Counting(16)
    with Index.open(tmp_path / "new.db", create=True, embedder=embedder) as index:
        index.import_vectors(cache)
        index.upsert("notes", TEXTS)
    assert embedder.embedded == 0
    with Index.open(cache) as index:
        assert not index.check()


def test_an_import_changes_no_answer_and_is_found_by_the_next_refresh_alone(tmp_path: Path) -> None:
    made(tmp_path / "index.db", TEXTS[:5])
    made(tmp_path / "other.db")
    with Index.open(tmp_path / "index.db", embedder=Counting(16)) as index:
        before = index.search("pump pressure", mode="semantic").hits
        index.import_vectors(tmp_path / "other.db")
        assert index.search("pump pressure", mode="semantic").hits == before
        assert index.status().generation == 1
        assert not index.check()


def test_another_encoding_is_a_space_of_its_own(tmp_path: Path) -> None:
    made(tmp_path / "one.db")
    made(tmp_path / "two.db", revision="2")
    embedder = Counting(16, "2")
    with Index.open(tmp_path / "one.db", embedder=embedder) as index:
        assert index.import_vectors(tmp_path / "two.db").copied == 10
        assert index.plan().embedding_inputs == 0
        index.upsert("notes", TEXTS)
        assert embedder.embedded == 0
        assert not index.check()


def test_what_no_refresh_takes_up_is_collected_like_unused_vectors(tmp_path: Path) -> None:
    made(tmp_path / "old.db")
    with Index.open(tmp_path / "new.db", create=True, embedder=Counting(16)) as index:
        index.import_vectors(tmp_path / "old.db")
        index.upsert("notes", TEXTS[:4])
        assert index.collect(Retention(vector_days=1)).vectors == 0
        assert index.collect(Retention(vector_days=0)).vectors == 6
        assert not index.check()


def test_a_text_that_is_published_without_a_vector_stays_so(tmp_path: Path) -> None:
    class Refusing(Counting):
        def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            return super().embed_documents(texts) * 0

    made(tmp_path / "other.db", TEXTS[:1])
    with Index.open(tmp_path / "index.db", create=True, embedder=Refusing(16)) as index:
        index.add_source(_folder(tmp_path, TEXTS[0].text))
        index.refresh(allow_bad_vectors=True)
        done = index.import_vectors(tmp_path / "other.db")
        assert (done.copied, done.present) == (0, 1)
        assert not index.check()


def _folder(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text(text, encoding="utf-8")
    return folder


def test_damaged_vectors_are_left_out_and_counted(tmp_path: Path) -> None:
    made(tmp_path / "old.db")
    connection = connect(tmp_path / "old.db", "rw")
    ids = [row[0] for row in connection.execute("SELECT vector_id FROM vector LIMIT 3")]
    for statement, vector_id in zip(
        (
            "UPDATE vector SET norm = norm * 2 WHERE vector_id = ?",
            "UPDATE vector SET f32 = zeroblob(64) WHERE vector_id = ?",
            "UPDATE embedding_text SET key = x'00' WHERE text_id = ? & 1099511627775",
        ),
        ids,
        strict=True,
    ):
        connection.execute(statement, (vector_id,))
    connection.close()
    with Index.open(tmp_path / "new.db", create=True, embedder=Counting(16)) as index:
        done = index.import_vectors(tmp_path / "old.db")
        assert (done.copied, done.damaged) == (7, 3)
        assert not index.check()


def test_an_interrupted_import_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_transfer, "_STEP_ROWS", 4)
    made(tmp_path / "old.db")
    token = CancelToken()

    def stop(progress: Progress) -> None:
        assert (progress.phase, progress.done, progress.total) == ("copy", 4, 10)
        token.cancel()

    with Index.open(tmp_path / "new.db", create=True, embedder=Counting(16)) as index:
        with pytest.raises(CancelledError):
            index.import_vectors(tmp_path / "old.db", cancel=token, progress=stop)
        done = index.import_vectors(tmp_path / "old.db")
        assert (done.copied, done.present) == (6, 4)


def test_equal_encodings_of_different_widths_do_not_mix(tmp_path: Path) -> None:
    class Wide(HashingEmbedder):
        identity = HashingEmbedder(16).identity

    made(tmp_path / "narrow.db")
    with Index.open(tmp_path / "wide.db", create=True, embedder=Wide(32)) as index:
        index.upsert("notes", TEXTS)
        with pytest.raises(EmbedderMismatchError, match="32 wide here and 16 wide there"):
            index.import_vectors(tmp_path / "narrow.db")


def test_the_other_file_must_be_another_index(tmp_path: Path) -> None:
    made(tmp_path / "index.db")
    (tmp_path / "text").write_text("no index", encoding="utf-8")
    (tmp_path / "link.db").symlink_to(tmp_path / "index.db")
    with Index.open(tmp_path / "index.db") as index:
        for name in ("index.db", "link.db"):
            with pytest.raises(UsageError, match="this index itself"):
                index.import_vectors(tmp_path / name)
            with pytest.raises(UsageError, match="this index itself"):
                index.export_vectors(tmp_path / name)
        with pytest.raises(NoIndexError):
            index.import_vectors(tmp_path / "missing.db")
        for call in (index.import_vectors, index.export_vectors):
            with pytest.raises(NotAnIndexError):
                call(tmp_path / "text")
    assert (tmp_path / "text").read_text(encoding="utf-8") == "no index"
