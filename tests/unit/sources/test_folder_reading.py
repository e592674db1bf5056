"""Reading a listed file: what changed since, what is refused, and nothing from outside the root."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sqlindex.errors import SourceError
from sqlindex.filetypes.builtin import BUILTIN_REGISTRY
from sqlindex.filetypes.registry import FileType
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.model.ids import DocumentId
from sqlindex.sources.containment import read_bounded
from sqlindex.sources.filesystem import FolderSource

NOTE = FileType("note", ("note",), "text", "text", "text", max_bytes=1_000)
REGISTRY = BUILTIN_REGISTRY.with_types(NOTE)


NO_PATHS_INSIDE = [
    "../secret.md", "a/../../secret.md", "/etc/passwd.md", "a//b.md", "./a.md", "a/./b.md", "",
    "a\0.md", "..", "a/", r"\x2e\x2e/secret.md", r"a\b.md",
]  # fmt: skip


def listed(root: Path, name: str, content: bytes = b"alt") -> tuple[FolderSource, DocumentRef]:
    """A source with one file that has just been listed."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(content)
    source = FolderSource("s", str(root), registry=REGISTRY)
    refs = [ref for ref in source.list() if ref.document_id == name]
    (ref,) = refs
    assert isinstance(ref, DocumentRef)
    return source, ref


def refused(source: FolderSource, ref: DocumentRef) -> RefusalReason:
    outcome = source.read(ref)
    assert isinstance(outcome, Refusal)
    assert outcome.document_id == ref.document_id
    return outcome.reason


def read(source: FolderSource, ref: DocumentRef) -> RawDocument:
    outcome = source.read(ref)
    assert isinstance(outcome, RawDocument)
    return outcome


def replace(path: Path, content: bytes) -> None:
    """Save as editors do: a new file under the old name."""
    new = path.with_name("new.tmp")
    new.write_bytes(content)
    new.rename(path)


def after_each_read(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> list[bytes]:
    """Run `change` between reading a file and checking it; returns what was read each time."""
    contents: list[bytes] = []

    def read_then_change(file: int, max_bytes: int, expected_bytes: int = 0) -> bytes:
        contents.append(read_bounded(file, max_bytes, expected_bytes))
        change()
        return contents[-1]

    monkeypatch.setattr("sqlindex.sources.stable_read.read_bounded", read_then_change)
    return contents


@pytest.mark.req("A-2")
def test_the_stat_belongs_to_the_bytes_that_were_read(root: Path) -> None:
    source, ref = listed(root, "a.md", b"eins")
    raw = read(source, ref)
    assert (raw.data, raw.stat) == (b"eins", ref.stat)
    (root / "a.md").write_bytes(b"zwei!")
    raw = read(source, ref)
    found = (root / "a.md").stat()
    assert raw.data == b"zwei!"
    assert raw.stat is not None
    assert (raw.stat.byte_size, raw.stat.mtime_ns) == (5, found.st_mtime_ns)
    assert raw.modified_ns == found.st_mtime_ns


@pytest.mark.req("A-2")
def test_a_file_replaced_since_the_listing_is_read_as_it_is_now(root: Path) -> None:
    source, ref = listed(root, "a.md")
    replace(root / "a.md", b"neu")
    raw = read(source, ref)
    assert raw.data == b"neu"
    assert raw.stat is not None
    assert ref.stat is not None
    assert raw.stat.inode == (root / "a.md").stat().st_ino != ref.stat.inode


@pytest.mark.req("A-2")
@pytest.mark.parametrize("how", ["append", "rewrite", "replace", "same size and time"])
def test_a_file_that_changes_while_it_is_read_is_read_once_more(
    root: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    source, ref = listed(root, "a.md")
    path = root / "a.md"

    def change() -> None:
        monkeypatch.undo()
        before = path.stat()
        if how == "append":
            with path.open("ab") as file:
                file.write(b"+")
        elif how == "replace":
            replace(path, b"neu")
        else:
            path.write_bytes(b"neu")
        if how == "same size and time":
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    contents = after_each_read(monkeypatch, change)
    assert read(source, ref).data == (b"alt+" if how == "append" else b"neu")
    assert contents == [b"alt"]


@pytest.mark.req("A-2")
def test_a_file_that_changes_twice_while_it_is_read_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, ref = listed(root, "a.md")

    def grow() -> None:
        with (root / "a.md").open("ab") as file:
            file.write(b"+")

    contents = after_each_read(monkeypatch, grow)
    assert refused(source, ref) is RefusalReason.CHANGED
    assert contents == [b"alt", b"alt+"]


@pytest.mark.req("A-2")
def test_a_file_removed_while_it_is_read_has_vanished(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, ref = listed(root, "a.md")
    after_each_read(monkeypatch, lambda: (root / "a.md").unlink(missing_ok=True))
    assert refused(source, ref) is RefusalReason.VANISHED


@pytest.mark.req("A-2")
@pytest.mark.parametrize("name", ["a.md", "deep/er/a.md"])
def test_a_file_or_folder_removed_since_the_listing_has_vanished(root: Path, name: str) -> None:
    source, ref = listed(root, name)
    os.rename(root / name.split("/")[0], root / "weg")
    assert refused(source, ref) is RefusalReason.VANISHED


@pytest.mark.req("A-2")
def test_a_folder_replaced_by_a_file_has_taken_its_files_with_it(root: Path) -> None:
    source, ref = listed(root, "deep/a.md")
    (root / "deep/a.md").unlink()
    (root / "deep").rmdir()
    (root / "deep").touch()
    assert refused(source, ref) is RefusalReason.VANISHED


@pytest.mark.req("A-2")
def test_a_file_grown_over_its_limit_is_too_large(root: Path) -> None:
    source, ref = listed(root, "a.note", b"x" * 1_000)
    assert len(read(source, ref).data) == 1_000
    (root / "a.note").write_bytes(b"x" * 50_000)
    outcome = source.read(ref)
    assert isinstance(outcome, Refusal)
    assert outcome.reason is RefusalReason.TOO_LARGE
    assert "50,000 bytes" in outcome.detail


@pytest.mark.req("A-2")
def test_a_file_that_grows_without_end_is_read_to_its_limit_only(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, ref = listed(root, "a.note")
    contents = after_each_read(monkeypatch, lambda: None)
    (root / "a.note").write_bytes(b"x" * 50_000)
    assert refused(source, ref) is RefusalReason.TOO_LARGE
    assert [len(content) for content in contents] == [1_001]


@pytest.mark.req("A-2")
def test_an_unreadable_file_is_listed_and_refused_when_read(
    root: Path, as_ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    source, ref = listed(root, "zu.md")
    (root / "zu.md").chmod(0)
    with as_ordinary_user():
        assert refused(source, ref) is RefusalReason.UNREADABLE


@pytest.mark.req("A-2")
@pytest.mark.parametrize("what", ["fifo", "folder", "link inside", "link outside", "broken link"])
def test_what_came_in_place_of_a_file_is_not_opened(root: Path, tmp_path: Path, what: str) -> None:
    source, ref = listed(root, "a.md")
    (root / "b.md").write_text("other")
    (tmp_path / "secret.md").write_text("secret")
    path = root / "a.md"
    path.unlink()
    if what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        targets = {"link inside": root / "b.md", "link outside": tmp_path / "secret.md"}
        path.symlink_to(targets.get(what, root / "fehlt"))
    expected = RefusalReason.SYMLINK if "link" in what else RefusalReason.NOT_A_FILE
    assert refused(source, ref) is expected


@pytest.mark.req("A-2")
def test_a_folder_replaced_by_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    source, ref = listed(root, "deep/er/a.md")
    (tmp_path / "er").mkdir()
    (tmp_path / "er/a.md").write_text("secret")
    (root / "deep").rename(root / "was")
    (root / "deep").symlink_to(tmp_path)
    assert refused(source, ref) is RefusalReason.SYMLINK


@pytest.mark.req("A-2")
@pytest.mark.parametrize(
    "document_id",
    NO_PATHS_INSIDE,
)
def test_an_id_that_is_no_path_inside_the_root_is_refused(root: Path, document_id: str) -> None:
    source, _ = listed(root, "a.md")
    ref = DocumentRef(DocumentId(document_id), document_id, "md")
    assert refused(source, ref) is RefusalReason.TRAVERSAL


@pytest.mark.req("A-2", "A-7")
def test_a_type_that_the_registry_no_longer_has_is_unsupported(root: Path) -> None:
    _, ref = listed(root, "a.note")
    assert refused(FolderSource("s", str(root)), ref) is RefusalReason.UNSUPPORTED


@pytest.mark.req("A-14")
@pytest.mark.parametrize("how", ["removed", "another folder", "a link"])
def test_a_root_that_went_away_since_the_listing_is_an_error_and_no_refusal(
    root: Path, how: str
) -> None:
    source, ref = listed(root / "r", "a.md")
    (root / "r").rename(root / "was")
    if how == "another folder":
        (root / "r").mkdir()
    elif how == "a link":
        (root / "r").symlink_to("was")
    with pytest.raises(SourceError):
        source.read(ref)


@pytest.mark.req("A-2")
def test_reading_without_a_listing_reads_what_is_there(root: Path) -> None:
    _, ref = listed(root, "a.md")
    unlisted = DocumentRef(ref.document_id, ref.path, ref.type_name)
    assert read(FolderSource("s", str(root)), unlisted).data == b"alt"


@pytest.mark.req("A-2")
def test_reading_closes_what_it_opened_whatever_the_outcome(root: Path, tmp_path: Path) -> None:
    source, ref = listed(root, "deep/a.md")
    before = len(os.listdir("/dev/fd"))
    source.read(ref)
    (root / "deep").rename(root / "was")
    source.read(ref)
    (root / "deep").symlink_to(tmp_path)
    source.read(ref)
    source.read(DocumentRef(DocumentId(".."), "..", "md"))
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.req("A-2")
@pytest.mark.parametrize("swapped", ["folder", "file"])
def test_swapping_links_in_never_reads_from_outside(
    root: Path, tmp_path: Path, swapped: str
) -> None:
    (tmp_path / "deep").mkdir()
    for secret in (tmp_path / "deep/a.md", tmp_path / "a.md"):
        secret.write_text("secret")
    (root / "deep").mkdir()
    (root / "deep/a.md").write_text("open")
    honest = root / ("deep" if swapped == "folder" else "deep/a.md")
    link = honest.with_name("link.tmp")
    link.symlink_to(tmp_path / ("deep" if swapped == "folder" else "a.md"))
    spare = honest.with_name("spare.tmp")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            honest.rename(spare)
            link.rename(honest)
            honest.rename(link)
            spare.rename(honest)

    source = FolderSource("s", str(root))
    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes = set()
    try:
        for _ in range(2_000):
            for found in source.list():
                raw = source.read(found) if isinstance(found, DocumentRef) else found
                outcomes.add(raw.data if isinstance(raw, RawDocument) else str(raw.reason))
    finally:
        stop.set()
        swapper.join()
    assert b"secret" not in outcomes
    assert "symlink" in outcomes
