"""Trees as people and programs leave them: renamed in case only, swapped in kind, sparse, too deep."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sqlindex.errors import SourceError
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.model.ids import DocumentId
from sqlindex.sources.filesystem import FolderSource

OrdinaryUser = Callable[[], AbstractContextManager[None]]


def make(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(file)


def listing(root: Path) -> dict[str, RefusalReason | None]:
    return {
        found.document_id: found.reason if isinstance(found, Refusal) else None
        for found in FolderSource("s", str(root)).list()
    }


def refs(source: FolderSource) -> dict[str, DocumentRef]:
    return {f.document_id: f for f in source.list() if isinstance(f, DocumentRef)}


@pytest.mark.req("A-2", "A-16")
def test_a_rename_in_case_only_is_another_id_of_the_same_file(root: Path) -> None:
    make(root, "lies.md", "ordner/a.md")
    source = FolderSource("s", str(root))
    before = refs(source)
    (root / "lies.md").rename(root / "Lies.md")
    (root / "ordner").rename(root / "Ordner")
    after = refs(source)
    assert list(after) == ["Lies.md", "Ordner/a.md"]
    for old, new in zip(before.values(), after.values(), strict=True):
        assert old.stat is not None
        assert new.stat is not None
        assert old.stat.inode == new.stat.inode
        outcome = source.read(new)
        assert isinstance(outcome, RawDocument)
        assert outcome.data.decode() == old.document_id


@pytest.mark.req("A-2", "A-14")
def test_a_file_replaced_by_a_folder_and_back_is_listed_as_what_it_is(root: Path) -> None:
    make(root, "x.md", "y.md")
    assert listing(root) == {"x.md": None, "y.md": None}
    (root / "x.md").unlink()
    make(root, "x.md/in.md")
    assert listing(root) == {"y.md": None, "x.md/in.md": None}
    (root / "x.md/in.md").unlink()
    assert listing(root) == {"y.md": None}
    (root / "x.md").rmdir()
    make(root, "x.md")
    assert listing(root) == {"x.md": None, "y.md": None}


@pytest.mark.req("A-2", "A-14")
def test_reading_a_file_whose_place_a_folder_took_is_refused_and_back_again(root: Path) -> None:
    make(root, "x.md")
    source = FolderSource("s", str(root))
    ref = refs(source)["x.md"]
    (root / "x.md").unlink()
    (root / "x.md").mkdir()
    outcome = source.read(ref)
    assert isinstance(outcome, Refusal)
    assert (outcome.reason, outcome.detail) == (RefusalReason.NOT_A_FILE, "a folder")
    (root / "x.md").rmdir()
    (root / "x.md").write_text("neu")
    again = source.read(ref)
    assert isinstance(again, RawDocument)
    assert again.data == b"neu"


@pytest.mark.req("A-2", "A-14")
def test_of_20_files_only_the_8_in_an_unreadable_sub_folder_are_not_listed(
    root: Path, as_ordinary_user: OrdinaryUser
) -> None:
    make(root, *(f"{n}.md" for n in range(12)), *(f"s/{n}.md" for n in range(8)))
    (root / "s").chmod(0)
    with as_ordinary_user():
        found = listing(root)
    assert len(found) == 13
    assert found["s/"] is RefusalReason.UNREADABLE
    assert [name for name, reason in found.items() if reason] == ["s/"]


@pytest.mark.req("A-2", "A-14")
def test_a_root_that_is_unreadable_or_renamed_away_is_an_error_at_each_door(
    root: Path, as_ordinary_user: OrdinaryUser
) -> None:
    make(root, "r/a.md")
    source = FolderSource("s", str(root / "r"))
    (root / "r").chmod(0)
    with as_ordinary_user():
        for listed in (source.list(), source.list_under("a.md"), source.list_under("")):
            with pytest.raises(SourceError, match=str(root / "r")):
                list(listed)
    (root / "r").rename(root / "weg")
    for listed in (source.list(), source.list_under("a.md")):
        with pytest.raises(SourceError, match=str(root / "r")):
            list(listed)


@pytest.mark.req("A-2")
def test_a_sparse_file_of_one_terabyte_is_refused_without_reading_it(root: Path) -> None:
    with open(root / "riesig.md", "wb") as file:
        try:
            file.truncate(1_000_000_000_000)
        except OSError:
            pytest.skip("this file system has no sparse files of that size")
    source = FolderSource("s", str(root))
    (refusal,) = source.list()
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.TOO_LARGE
    assert refusal.detail.startswith("1,000,000,000,000 bytes;")
    tracemalloc.start()
    outcome = source.read(DocumentRef(DocumentId("riesig.md"), "riesig.md", "md"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(outcome, Refusal)
    assert outcome.reason is RefusalReason.TOO_LARGE
    assert peak < 10_000_000


@pytest.mark.req("A-2", "A-5")
def test_names_of_255_bytes_and_paths_beyond_the_systems_limit_are_listed_and_read(
    root: Path,
) -> None:
    name = ("ä" * 126 + ".md").encode()
    assert len(name) == 255
    folder = os.open(root, os.O_RDONLY)
    for _ in range(30):
        file = os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=folder)
        os.write(file, b"tief")
        os.close(file)
        os.mkdir(b"o" * 255, dir_fd=folder)
        deeper = os.open(b"o" * 255, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)
    source = FolderSource("s", str(root))
    listed = refs(source)
    assert len(listed) == 30
    deepest = list(listed.values())[-1]
    assert len(deepest.document_id.encode()) > 7_000
    outcome = source.read(deepest)
    assert isinstance(outcome, RawDocument)
    assert outcome.data == b"tief"
    assert list(source.list_under(deepest.document_id)) == [deepest]
    above = deepest.document_id.rpartition("/")[0]
    assert list(source.list_under(above)) == [deepest]


@pytest.mark.req("A-2")
def test_a_tree_10_000_levels_deep_is_listed(root_in_memory: Path) -> None:
    folder = os.open(root_in_memory, os.O_RDONLY)
    for level in range(10_000):
        os.mkdir("d", dir_fd=folder)
        if level % 1_000 == 0:
            os.mkdir("z", dir_fd=folder)
            os.close(os.open("z/s.md", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        deeper = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)
    source = FolderSource("s", str(root_in_memory))
    before = len(os.listdir("/dev/fd"))
    listed = refs(source)
    assert len(os.listdir("/dev/fd")) == before
    assert len(listed) == 10
    deepest = next(iter(listed.values()))
    assert deepest.document_id.count("/") == 9_001
    assert isinstance(source.read(deepest), RawDocument)
    assert list(source.list_under(deepest.document_id)) == [deepest]


@pytest.mark.req("A-2")
def test_a_folder_that_changes_while_it_is_listed_names_no_entry_twice(root: Path) -> None:
    make(root, *(f"{n:02}.md" for n in range(50)), "sub/a.md")
    source = FolderSource("s", str(root))
    seen = []
    for count, found in enumerate(source.list()):
        seen.append(found.document_id)
        (root / f"new-{count:02}.md").touch()
        if count == 10:
            (root / "20.md").rename(root / "05b.md")
            (root / "21.md").unlink()
            (root / "22.md").unlink()
            (root / "22.md").mkdir()
    assert len(seen) == len(set(seen))
    gone = {"20.md", "21.md"}
    assert set(seen) == {f"{n:02}.md" for n in range(50)} - gone | {"sub/a.md"}
    assert listing(root)["05b.md"] is None
