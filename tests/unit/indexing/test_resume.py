"""An interrupted refresh: the next one goes on with it, or says what changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sqlindex import Index
from sqlindex.cancellation import CancelToken
from sqlindex.config import ChunkConfig, IndexConfig
from sqlindex.errors import BadVectorError, BuildChangedError, CancelledError, EmbedderError
from sqlindex.indexing import diff
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal
from sqlindex.sources.filesystem import FolderSource
from sqlindex.sources.memory import Document
from sqlindex.testing import HashingEmbedder

Shell = Callable[[Path, str], list[str]]

FILES = 20
CONFIG = IndexConfig(documents_per_batch=4, embedding_batch=4)
_STAGED = "SELECT count(*) FROM document_version WHERE born IS NULL"


class Failing(HashingEmbedder):
    """Fails at the n-th batch."""

    def __init__(self, at_call: int, name: str = "a") -> None:
        super().__init__(16)
        self._at_call, self._name = at_call, name

    @property
    def identity(self) -> str:
        return f"failing-{self._name}"

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if self.document_calls + 1 == self._at_call:
            raise RuntimeError("the service went away")
        return super().embed_documents(texts)


def _write(folder: Path, number: int, words: str = "") -> Path:
    path = folder / f"note{number:02}.md"
    path.write_text(f"# Note {number}\n\nword{number} {words}\n")
    past = time.time() - 100
    os.utime(path, (past, past))
    return path


@pytest.fixture
def db(tmp_path: Path, folder: Path) -> Path:
    """An index with a registered folder of 20 files, not refreshed yet."""
    for number in range(FILES):
        _write(folder, number)
    path = tmp_path / "index.db"
    with Index.open(path, create=True, config=CONFIG) as index:
        index.add_source(folder, name="notes")
    return path


def _interrupt(index: Index, after: int) -> None:
    """Cancel a refresh once that many entries have been listed."""
    token = CancelToken()
    listed = 0
    original = token.check

    def check() -> None:
        nonlocal listed
        listed += 1
        if listed > after:
            token.cancel()
        original()

    token.check = check  # type: ignore[method-assign]  # the nth check is the nth entry
    with pytest.raises(CancelledError):
        index.refresh(cancel=token)


@pytest.mark.req("A-14", "C-6")
def test_a_refresh_goes_on_with_what_was_staged_and_reads_none_of_it_again(
    db: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    original = FolderSource.read

    def recorded(source: FolderSource, ref: DocumentRef) -> RawDocument | Refusal:
        read.append(ref.document_id)
        return original(source, ref)

    monkeypatch.setattr(FolderSource, "read", recorded)
    monkeypatch.setattr(diff, "RACY_NS", 0)  # the files are younger than two seconds
    with Index.open(db, config=CONFIG) as index:
        _interrupt(index, 13)
        assert shell(db, _STAGED) == ["12"]
        staged = read[:12]
        read.clear()
        status = index.status()
        assert [build.documents for build in status.unfinished] == [12]
        assert index.check() == []
        report = index.refresh()
        assert len(read) == FILES - 12
        assert set(read).isdisjoint(staged)
        assert (report.resumed, report.changes.count("added"), report.generation) == (12, FILES, 1)
        assert index.status().unfinished == ()
        assert index.check() == []
        assert len(index.search("note", limit=100).hits) == FILES


@pytest.mark.req("A-14", "C-6")
def test_what_changed_since_it_was_staged_is_staged_as_it_is_now(
    db: Path, folder: Path, shell: Shell
) -> None:
    with Index.open(db, config=CONFIG) as index:
        _interrupt(index, 13)
        _write(folder, 1, "edited")
        (folder / "note02.md").unlink()
        (folder / "note03.md").rename(folder / "renamed.md")
        plan = index.plan()
        report = index.refresh()
        assert report.resumed == 9
        assert report.changes.counts == plan.counts
        assert report.changes.count("added") == FILES - 1
        assert [h.document_id for h in index.search("edited").hits] == ["note01.md"]
        found = {hit.document_id for hit in index.search("note", limit=100).hits}
        assert found == {p.name for p in folder.iterdir()}
        assert index.check() == []
        assert shell(db, _STAGED) == ["0"]


@pytest.mark.req("A-14", "C-6")
def test_a_document_that_is_again_what_the_head_says_leaves_the_build(
    db: Path, folder: Path, shell: Shell
) -> None:
    with Index.open(db, config=CONFIG) as index:
        index.refresh()
        for number in range(FILES):
            _write(folder, number, "new")
        _interrupt(index, 9)
        assert shell(db, _STAGED) == ["8"]
        for number in range(FILES):
            _write(folder, number)
        report = index.refresh()
        assert (report.is_published, report.resumed, report.changes.unchanged) == (False, 0, FILES)
        assert shell(db, _STAGED) == ["0"]
        assert index.check() == []


@pytest.mark.req("A-16", "A-29", "C-6")
def test_the_vectors_of_an_interrupted_refresh_are_not_made_again(db: Path) -> None:
    with (
        Index.open(db, config=CONFIG, embedder=Failing(4)) as index,
        pytest.raises(EmbedderError),
    ):
        index.refresh()
    embedder = Failing(0)
    with Index.open(db, config=CONFIG, embedder=embedder) as index:
        report = index.refresh()
        assert (report.resumed, report.embedded, report.reused) == (FILES, FILES - 12, 12)
        assert len(embedder.document_inputs) == FILES - 12
        assert index.check() == []


@pytest.mark.req("A-29", "C-6")
def test_d25_a_build_of_another_embedder_is_told_and_restart_reuses_what_is_valid(
    db: Path, folder: Path
) -> None:
    first = Failing(0, "a")
    with Index.open(db, config=CONFIG, embedder=first) as index:
        index.refresh()
    with (
        Index.open(db, config=CONFIG, embedder=Failing(3, "b")) as index,
        pytest.raises(EmbedderError),
    ):
        index.refresh()
    # Back to the first: its generation is intact and needs no call.
    with Index.open(db, config=CONFIG, embedder=Failing(0, "a")) as index:
        assert index.status().space == "failing-a"
        assert len(index.search("note", mode="semantic", limit=100).hits) == FILES
        with pytest.raises(BuildChangedError, match="embedder was failing-b, is failing-a"):
            index.refresh()
    third = Failing(0, "c")
    with Index.open(db, config=CONFIG, embedder=third) as index:
        report = index.refresh(restart=True)
        assert (report.embedded, len(third.document_inputs)) == (FILES, FILES)
        assert index.status().space == "failing-c"
        assert index.check() == []


@pytest.mark.req("A-29", "C-6")
def test_d25_resuming_with_the_same_embedder_makes_only_the_rest(db: Path) -> None:
    with Index.open(db, config=CONFIG, embedder=Failing(0, "a")) as index:
        index.refresh()
    with (
        Index.open(db, config=CONFIG, embedder=Failing(3, "b")) as index,
        pytest.raises(EmbedderError),
    ):
        index.refresh()
    rest = Failing(0, "b")
    with Index.open(db, config=CONFIG, embedder=rest) as index:
        assert index.status().space == "failing-a"
        assert index.refresh().embedded == len(rest.document_inputs) == FILES - 8
        assert index.status().space == "failing-b"
        assert index.check() == []


@pytest.mark.req("C-6")
@pytest.mark.parametrize("change", ["chunks", "source", "moved", "options"])
def test_a_build_that_no_longer_fits_is_told_and_changes_nothing(
    change: str, db: Path, folder: Path, tmp_path: Path, shell: Shell
) -> None:
    with Index.open(db, config=CONFIG) as index:
        _interrupt(index, 13)
    config = CONFIG
    words = "chunk sizes changed"
    if change == "chunks":
        config = IndexConfig(ChunkConfig(target_chars=500), documents_per_batch=4)
    with Index.open(db, config=config) as index:
        if change == "source":
            index.add_source(tmp_path, name="more", exclude=["*"])
            words = "source more is new"
        elif change == "moved":
            folder.rename(tmp_path / "elsewhere")
            index.move_source("notes", tmp_path / "elsewhere", force=True)
            words = "source notes was"
        elif change == "options":
            index.remove_source("notes")
            index.add_source(folder, name="notes", exclude=["note00.md"])
            words = "source notes was"
        with pytest.raises(BuildChangedError, match=words) as caught:
            index.refresh()
        assert caught.value.exit_code == 5
        assert "restart" in caught.value.hint
        assert shell(db, _STAGED) == ["12"]
        report = index.refresh(restart=True)
        assert report.resumed == 0
        assert report.changes.count("added") >= FILES - 1
        assert index.check() == []


@pytest.mark.req("A-14", "C-6")
def test_two_interrupted_builds_and_a_third_publish_never_see_each_other(
    db: Path, folder: Path, tmp_path: Path, shell: Shell
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for number in range(FILES):
        _write(other, number, "other")
    with Index.open(db, config=CONFIG) as index:
        index.add_source(other, name="other")
        for name in ("notes", "other"):
            token = CancelToken()
            with pytest.raises(CancelledError):
                index.refresh(
                    [name],
                    cancel=token,
                    progress=lambda _, token=token: token.cancel(),  # type: ignore[misc]  # a bound default
                )
        _interrupt(index, 13)
        assert len(index.status().unfinished) == 3
        index.upsert("host", [Document("third.md", "a third publish")])
        assert index.status().documents == 1
        assert len(index.status().unfinished) == 3
        assert index.check() == []
        report = index.refresh(["notes"])
        assert report.generation == 2
        assert index.status().documents == 1 + FILES
        # That covers all that its own build would have brought; the two others stay.
        assert len(index.status().unfinished) == 2
        report = index.refresh()
        assert index.status().documents == 1 + 2 * FILES
        assert index.status().unfinished == ()
        assert shell(db, _STAGED) == ["0"]
        assert index.check() == []


@pytest.mark.req("A-14", "C-6")
def test_pushed_documents_begin_anew_and_leave_nothing_staged(index: Index, shell: Shell) -> None:
    documents = [Document(f"d{number}.md", f"text {number}") for number in range(200)]

    def broken() -> object:
        yield from documents[:150]
        raise RuntimeError("the host went away")

    with pytest.raises(Exception, match="the host went away"):
        index.upsert("host", broken())  # type: ignore[arg-type]  # it yields documents
    assert shell(index.path, _STAGED) == ["128"]
    index.upsert("host", documents)
    assert shell(index.path, _STAGED) == ["0"]
    assert index.status().documents == 200
    assert index.status().unfinished == ()


@pytest.mark.req("A-21", "C-6")
@pytest.mark.parametrize("command", ["refresh", "reindex"])
def test_a_build_that_a_bad_vector_stopped_goes_on_without_it(db: Path, command: str) -> None:
    class Spoilt(HashingEmbedder):
        is_well = command == "reindex"

        def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            for row, text in enumerate(texts):
                if "word13 " in text and not self.is_well:
                    raise BadVectorError("all zeros", row=row)
            return super().embed_documents(texts)

    embedder = Spoilt(16)
    with Index.open(db, config=CONFIG, embedder=embedder) as index:
        if command == "reindex":
            index.refresh()
            embedder.is_well = False
        run = getattr(index, command)
        with pytest.raises(BadVectorError, match=r"note13\.md, lines") as caught:
            run()
        assert "--lexical-only-on-bad-vector" in caught.value.hint
        if command == "refresh":
            index.plan(allow_bad_vectors=True)
        report = run(allow_bad_vectors=True)
        assert report.resumed == FILES
        assert report.embedded < FILES
        assert len(report.without_vector) == 1
        assert index.check() == []


@pytest.mark.req("C-6")
def test_a_build_begun_without_bad_vectors_is_not_finished_by_one_that_refuses_them(
    db: Path,
) -> None:
    with Index.open(db, config=CONFIG, embedder=Failing(3)) as index:
        with pytest.raises(EmbedderError):
            index.refresh(allow_bad_vectors=True)
        with pytest.raises(BuildChangedError, match="bad vectors was published without"):
            index.refresh()
