"""Refreshing files and folders by path, moving a source, asking why a file is not in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlindex import Document, Index, RefreshReport
from sqlindex.errors import DuplicateError, SourceError, UsageError
from sqlindex.model.documents import DocumentRef, RawDocument, RefusalReason
from sqlindex.testing import HashingEmbedder


def write(folder: Path, **text_by_stem: str) -> None:
    folder.mkdir(exist_ok=True)
    for stem, text in text_by_stem.items():
        (folder / f"{stem}.md").write_text(text, encoding="utf-8")


def ids(index: Index) -> set[str]:
    return {hit.document_id for hit in index.search("wort", limit=100).hits}


def kinds(report: RefreshReport) -> list[tuple[str, str]]:
    changes = report.changes.documents
    return [(change.kind, change.document_id) for change in changes]


@pytest.mark.req("A-14", "A-18")
def test_only_what_is_named_is_looked_at(index: Index, folder: Path) -> None:
    write(folder, a="wort a", b="wort b")
    write(folder / "s", c="wort c", d="wort d")
    index.add_source(folder)
    index.refresh()
    write(folder, a="wort neu", b="wort neu")
    write(folder / "s", c="wort neu", e="wort e")
    (folder / "s" / "d.md").unlink()
    assert kinds(index.refresh(paths=[folder / "a.md"])) == [("changed", "a.md")]
    plan = index.plan(paths=[folder / "s"])
    report = index.refresh(paths=[folder / "s"])
    assert plan == report.changes
    assert kinds(report) == [("changed", "s/c.md"), ("removed", "s/d.md"), ("added", "s/e.md")]
    assert kinds(index.refresh()) == [("changed", "b.md")]


@pytest.mark.req("A-14")
def test_a_path_that_is_gone_is_removed(index: Index, folder: Path) -> None:
    write(folder, a="wort")
    write(folder / "s", b="wort")
    write(folder / "s-2", c="wort")
    index.add_source(folder)
    index.refresh()
    (folder / "s" / "b.md").unlink()
    (folder / "s").rmdir()
    assert kinds(index.refresh(paths=[folder / "s"])) == [("removed", "s/b.md")]
    assert ids(index) == {"a.md", "s-2/c.md"}
    with pytest.raises(UsageError, match="nothing was indexed"):
        index.refresh(paths=[folder / "s"])
    with pytest.raises(UsageError, match="no registered folder"):
        index.refresh(paths=["/"])
    with pytest.raises(ValueError, match="several paths"):
        index.refresh(paths=str(folder))


@pytest.mark.req("A-16")
def test_a_rename_within_the_named_parts_is_one(tmp_path: Path, folder: Path) -> None:
    write(folder, a="wort eins", b="wort zwei")
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.add_source(folder)
        index.refresh()
        (folder / "a.md").rename(folder / "z.md")
        report = index.refresh(paths=[folder / "a.md", folder / "z.md"])
        assert (report.embedded, kinds(report)) == (0, [("renamed", "z.md")])


@pytest.mark.req("A-14")
def test_a_file_replaced_by_a_folder_and_back(index: Index, folder: Path) -> None:
    write(folder, a="wort")
    index.add_source(folder)
    index.refresh()
    (folder / "a.md").unlink()
    write(folder / "a.md", b="wort")
    assert kinds(index.refresh(paths=[folder / "a.md"])) == [("renamed", "a.md/b.md")]
    (folder / "a.md" / "b.md").unlink()
    (folder / "a.md").rmdir()
    write(folder, a="wort anders")
    assert kinds(index.refresh()) == [("added", "a.md"), ("removed", "a.md/b.md")]


@pytest.mark.req("A-3", "A-14")
def test_a_case_only_rename_is_a_rename(index: Index, folder: Path) -> None:
    write(folder, Lies="wort")
    index.add_source(folder)
    index.refresh()
    (folder / "Lies.md").rename(folder / "LIES.MD")
    (change,) = index.refresh().changes.documents
    assert (change.kind, change.document_id, change.old_id) == ("renamed", "LIES.MD", "Lies.md")


@pytest.mark.req("A-3")
def test_a_refresh_of_a_left_out_file_says_which_rule(index: Index, folder: Path) -> None:
    write(folder, a="wort")
    (folder / ".gitignore").write_text("a.md\n")
    index.add_source(folder)
    index.refresh(paths=[folder / "a.md"])
    (status,) = index.file_status(folder / "a.md")
    assert not status.is_indexed
    assert status.refusal is not None
    assert status.refusal.reason is RefusalReason.IGNORED
    assert "line 1" in status.refusal.detail
    (folder / ".gitignore").unlink()
    index.refresh(paths=[folder / "a.md"])
    (status,) = index.file_status(folder / "a.md")
    assert (status.is_indexed, status.refusal) == (True, None)


@pytest.mark.req("A-3", "A-13")
def test_each_file_tells_why_it_is_not_in_or_that_it_is(index: Index, folder: Path) -> None:
    write(folder, a="wort", b="wort")
    write(folder / "node_modules", c="wort")
    (folder / "x.bin").write_bytes(b"\0")
    index.add_source(folder)
    index.refresh()
    write(folder, new="wort")

    def reason(name: str) -> str | None:
        (status,) = index.file_status(folder / name)
        return None if status.refusal is None else status.refusal.reason.value

    assert reason("a.md") is None
    assert reason("x.bin") == "unsupported"
    assert reason("node_modules/c.md") == "default_ignored"
    (status,) = index.file_status(folder / "new.md")
    assert (status.is_indexed, status.refusal) == (False, None)
    (status,) = index.file_status(folder)
    assert (status.is_indexed, status.documents) == (True, 2)
    assert index.file_status("/") == []
    assert [r.refusal.document_id for r in index.refused()] == ["x.bin"]
    told = {r.refusal.document_id for r in index.refused(with_left_out=True)}
    assert told == {"x.bin", "node_modules/"}
    assert index.status().sources[0].left_out == {"default_ignored": 1}


@pytest.mark.req("A-3", "A-13")
def test_the_view_of_refused_files_tells_what_would_change_that(
    index: Index, folder: Path, shell: Callable[[Path, str], list[str]]
) -> None:
    (folder / "x.bin").write_bytes(b"\0")
    (folder / ".env").write_text("KEY=1")
    index.add_source(folder)
    index.refresh()
    lines = shell(index.path, "SELECT document_id, reason, hint <> '' FROM v_refused ORDER BY 1")
    assert lines == [".env|secret|1", "x.bin|unsupported|1"]


@pytest.mark.req("A-5", "A-16")
def test_a_source_moves_only_to_where_its_documents_are(
    index: Index, folder: Path, tmp_path: Path
) -> None:
    write(folder, a="wort")
    index.add_source(folder, name="s")
    index.refresh()
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(UsageError, match="no document"):
        index.move_source("s", other)
    index.add_source(other)
    with pytest.raises(DuplicateError):
        index.move_source("s", other, force=True)
    index.upsert("host", [Document("d", "wort")])
    with pytest.raises(UsageError, match="host program"):
        index.move_source("host", other)
    moved = tmp_path / "moved"
    os.rename(folder, moved)
    index.move_source("s", moved)
    assert kinds(index.refresh()) == []


@pytest.mark.req("A-13")
def test_chunks_of_a_document_say_how_and_why_it_is_cut(index: Index, folder: Path) -> None:
    text = "# A\n\n" + "Absatz mit Text.\n\n" * 100 + "# B\n\nkurz\n"
    write(folder, a=text)
    index.add_source(folder)
    index.refresh()
    chunks = index.chunks("a.md")
    assert [chunk.text for chunk in chunks] == [text[c.start_char : c.end_char] for c in chunks]
    assert [chunk.cut for chunk in chunks] == ["blank_line", "section", "section"]
    assert [chunk.is_continuation for chunk in chunks] == [False, True, False]
    assert chunks[-1].heading_path == ("B",)


@pytest.mark.req("A-14")
def test_an_embedders_token_limit_shapes_chunks(tmp_path: Path, folder: Path) -> None:
    class Limited(HashingEmbedder):
        token_limit = 50
        over_long_policy = "truncate"

        def count_tokens(self, texts: list[str]) -> list[int]:
            return [len(text.split()) for text in texts]

    write(folder, a="eins zwei drei vier fünf\n" * 40)
    with Index.open(tmp_path / "i.db", create=True, embedder=Limited()) as index:
        index.add_source(folder)
        assert index.refresh().truncated == 0
        assert all(len(chunk.text.split()) <= 50 for chunk in index.chunks("a.md"))
        assert "tokens" in {chunk.cut for chunk in index.chunks("a.md")}
        cut = len(index.chunks("a.md"))
    with Index.open(tmp_path / "i.db", embedder=HashingEmbedder()) as index:
        report = index.refresh()
        assert report.changes.count("reparsed") == 1
        assert len(index.chunks("a.md")) < cut
        assert index.check() == []


@pytest.mark.req("A-3", "A-14")
def test_a_part_that_is_let_in_again_takes_back_the_refusal_of_its_folder(
    index: Index, folder: Path
) -> None:
    write(folder / "a", b="wort")
    (folder / ".gitignore").write_text("a/\n")
    index.add_source(folder)
    index.refresh()
    assert "a/" in {r.refusal.document_id for r in index.refused(with_left_out=True)}
    (folder / ".gitignore").unlink()
    index.refresh(paths=[folder / "a" / "b.md"])
    (status,) = index.file_status(folder / "a" / "b.md")
    assert (status.is_indexed, status.refusal) == (True, None)
    told = {r.refusal.document_id for r in index.refused(with_left_out=True)}
    assert told == {".gitignore"}  # as the last listing of its folder saw it


@pytest.mark.req("A-14", "A-16")
def test_a_plan_counts_a_renamed_document_once_under_a_new_embedder(
    tmp_path: Path, folder: Path
) -> None:
    write(folder, a="wort eins", b="wort zwei")
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder()) as index:
        index.add_source(folder)
        index.refresh()
    (folder / "a.md").rename(folder / "a.txt")
    with Index.open(tmp_path / "i.db", embedder=HashingEmbedder(dimensions=32)) as index:
        plan = index.plan()
        report = index.refresh()
        assert plan == report.changes
        assert plan.embedding_inputs == report.embedded


@pytest.mark.req("A-14")
def test_a_path_below_the_home_folder_may_be_written_with_a_tilde(
    index: Index, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    write(folder, a="wort")
    index.add_source(folder)
    assert kinds(index.refresh(paths=[f"~/{folder.name}/a.md"])) == [("added", "a.md")]


def test_no_source_holds_on_to_its_listing_after_a_failure(index: Index) -> None:
    ended = []

    class Listing:
        name = "s"

        def list(self) -> Iterator[DocumentRef]:
            try:
                for number in range(10):
                    yield DocumentRef(str(number), str(number), "txt")
            finally:
                ended.append(True)

        def read(self, ref: DocumentRef) -> RawDocument:
            raise OSError("gone")

    index.add_source(Listing())
    with pytest.raises(SourceError) as failure:
        index.refresh()
    assert ended == [True]
    assert failure.value


@pytest.mark.req("A-2")
def test_a_file_system_is_asked_for_its_worth_after_the_listing_has_begun(index: Index) -> None:
    asked = []

    class Automounted:
        name = "s"
        mount_points = ()

        @property
        def trusts_stat(self) -> bool:
            asked.append("trusts_stat")
            return False

        def list(self) -> Iterator[DocumentRef]:
            asked.append("list")
            yield DocumentRef("a", "a", "txt")

        def read(self, ref: DocumentRef) -> RawDocument:
            return RawDocument(b"wort")

    index.add_source(Automounted())
    index.refresh()
    assert asked[0] == "list"
    assert "trusts_stat" in asked
