"""Names of folders of any size: in order, each once, a bounded number of them in memory."""

from __future__ import annotations

import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.errors import StorageError
from sqlindex.sources.filesystem import FolderSource
from sqlindex.sources.names import NameFile, SortedNames

NAMES = st.lists(
    st.binary(min_size=1, max_size=12).map(lambda b: b.replace(b"\0", b"x").replace(b"/", b"y"))
)


@pytest.mark.req("A-2")
@given(batches=st.lists(NAMES, max_size=5))
def test_names_come_in_the_order_of_their_bytes_each_once(batches: list[list[bytes]]) -> None:
    file = NameFile()
    names = SortedNames(file)
    for batch in batches[:-1]:
        names.held.extend(batch)
        names.spill()
        assert names.held == []
    if batches:
        names.held.extend(batches[-1])
    assert list(names.take()) == sorted({name for batch in batches for name in batch})
    file.close()


@pytest.mark.req("A-2")
def test_runs_larger_than_one_read_come_back_whole() -> None:
    file = NameFile()
    names = [b"%06d" % n + b"x" * (n % 249) for n in range(5_000)]
    first, second = file.append(names), file.append(names[::7])
    assert list(second) == names[::7]
    assert list(first) == names
    file.close()


@pytest.mark.req("A-2")
def test_cutting_gives_the_space_back_and_leaves_what_is_before() -> None:
    file = NameFile()
    kept = file.append([b"a", b"b"])
    end = file.end
    file.append([b"c"] * 1_000)
    file.cut(end)
    assert file.end == end
    assert list(file.append([b"d"])) == [b"d"]
    assert list(kept) == [b"a", b"b"]
    file.close()


def tree(root: Path) -> None:
    for folder in ("", "b/", "a/", "a/x/", "a/y/", "c/d/e/"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for n in range(7):
            (root / f"{folder}{n * 5 % 7}.md").touch()
            (root / f"{folder}f{n * 3 % 7}").mkdir()
            (root / f"{folder}f{n * 3 % 7}/.h").touch()


@pytest.mark.req("A-2")
@pytest.mark.parametrize("limit", [1, 2, 3, 10, 20])
def test_a_listing_does_not_depend_on_how_many_names_are_held(
    root: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    tree(root)
    expected = list(FolderSource("s", str(root)).list())
    assert len(expected) == 84
    monkeypatch.setattr("sqlindex.sources.names.MAX_NAMES_HELD", limit)
    before = len(os.listdir("/dev/fd"))
    assert list(FolderSource("s", str(root)).list()) == expected
    assert len(os.listdir("/dev/fd")) == before


def unlinked_bytes() -> int:
    """Size of the open files that have no name."""
    sizes = []
    for descriptor in os.listdir("/dev/fd"):
        try:
            found = os.fstat(int(descriptor))
        except OSError:
            continue  # the one that listed them
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
            sizes.append(found.st_size)
    return sum(sizes)


@pytest.mark.req("A-2")
def test_the_temporary_file_holds_only_the_folders_being_visited(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in range(20):
        (root / f"{folder:02}").mkdir()
        for n in range(10):
            (root / f"{folder:02}/{n}.md").touch()
    monkeypatch.setattr("sqlindex.sources.names.MAX_NAMES_HELD", 5)
    before = unlinked_bytes()
    sizes = [unlinked_bytes() - before for _ in FolderSource("s", str(root)).list()]
    assert len(sizes) == 200
    # 20 names of folders and 10 of files, each with its end.
    assert max(sizes) == 20 * 3 + 10 * 5
    assert unlinked_bytes() == before


def peak_bytes(root: Path) -> int:
    tracemalloc.start()
    try:
        for _ in FolderSource("s", str(root)).list():
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.req("A-2")
@pytest.mark.parametrize("kind", ["files", "folders", "folders at every level"])
def test_memory_does_not_grow_with_the_entries_of_a_folder(
    root_in_memory: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    levels = 10 if kind == "folders at every level" else 1
    folder = root_in_memory
    for level in range(levels):
        for n in range(1_500 // levels):
            name = f"{n:05d}-{'long' * 60}"
            if kind == "files":
                (folder / f"{name}.md").touch()
            else:
                (folder / name).mkdir()
        folder = folder / f"0-deeper-{level}"
        folder.mkdir()
    monkeypatch.setattr("sqlindex.sources.names._READ_BYTES", 600)
    all_held = peak_bytes(root_in_memory)
    monkeypatch.setattr("sqlindex.sources.names.MAX_NAMES_HELD", 100)
    assert peak_bytes(root_in_memory) < all_held / 3


@pytest.mark.req("A-2")
def test_no_room_for_the_names_of_a_large_folder_is_an_error_with_a_hint(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        (root / f"{n}.md").touch()
    monkeypatch.setattr("sqlindex.sources.names.MAX_NAMES_HELD", 2)
    monkeypatch.setattr("tempfile.tempdir", str(root / "fehlt"))
    with pytest.raises(StorageError, match="fehlt") as error:
        list(FolderSource("s", str(root)).list())
    assert "TMPDIR" in error.value.hint
