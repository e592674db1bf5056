"""Listing a folder: every kind of entry, odd names, deep trees, roots that are gone or moved."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sqlindex.errors import SourceError, UsageError
from sqlindex.filetypes.builtin import BUILTIN_REGISTRY
from sqlindex.filetypes.registry import FileType
from sqlindex.model.documents import DocumentRef, Refusal, RefusalReason
from sqlindex.sources.containment import canonical_root
from sqlindex.sources.filesystem import FolderSource
from sqlindex.sources.open_folders import MAX_OPEN_FOLDERS
from sqlindex.sources.paths import path_of

OrdinaryUser = Callable[[], AbstractContextManager[None]]


def listing(root: Path) -> dict[str, DocumentRef | Refusal]:
    return {found.document_id: found for found in FolderSource("s", str(root)).list()}


def reasons(root: Path) -> dict[str, RefusalReason | None]:
    return {
        name: found.reason if isinstance(found, Refusal) else None
        for name, found in listing(root).items()
    }


@pytest.mark.req("A-2")
def test_each_kind_of_entry_is_listed_or_has_its_reason(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("secret")
    (root / "gut.md").write_text("gut")
    (root / "leer.md").touch()
    (root / "kaputt.md").symlink_to("fehlt.md")
    (root / "hinaus.md").symlink_to(outside)
    (root / "innen.md").symlink_to("gut.md")
    (root / "kreis.md").symlink_to("kreis.md")
    (root / "ordner-link").symlink_to(tmp_path)
    (root / "LICENSE").write_text("frei")
    (root / "bild.png").write_bytes(b"\x89PNG")
    (root / "ordner.md").mkdir()
    (root / "ordner.md/in.md").write_text("in")
    os.mkfifo(root / "rohr.md")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "buchse.md"))
    assert reasons(root) == {
        "gut.md": None,
        "leer.md": None,
        "ordner.md/in.md": None,
        "kaputt.md": RefusalReason.SYMLINK,
        "hinaus.md": RefusalReason.SYMLINK,
        "innen.md": RefusalReason.SYMLINK,
        "kreis.md": RefusalReason.SYMLINK,
        "ordner-link": RefusalReason.SYMLINK,
        "LICENSE": RefusalReason.UNSUPPORTED,
        "bild.png": RefusalReason.UNSUPPORTED,
        "rohr.md": RefusalReason.NOT_A_FILE,
        "buchse.md": RefusalReason.NOT_A_FILE,
    }


@pytest.mark.req("A-2")
@pytest.mark.needs_root
def test_a_device_is_not_a_file(root: Path) -> None:
    try:
        os.mknod(root / "null.md", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this user may not make devices")
    refusal = listing(root)["null.md"]
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.detail) == (RefusalReason.NOT_A_FILE, "a character device")


@pytest.mark.req("A-2", "A-7")
def test_a_file_over_the_limit_of_its_type_is_refused_with_both_sizes(root: Path) -> None:
    small = FileType("note", ("note",), "text", "text", "text", max_bytes=1_500)
    (root / "fits.note").write_bytes(b"x" * 1_500)
    (root / "long.note").write_bytes(b"x" * 1_501)
    source = FolderSource("s", str(root), registry=BUILTIN_REGISTRY.with_types(small))
    fits, long = source.list()
    assert isinstance(fits, DocumentRef)
    assert isinstance(long, Refusal)
    assert long.reason is RefusalReason.TOO_LARGE
    assert long.detail == "1,501 bytes; the limit of its file type is 1,500 bytes"


@pytest.mark.req("A-2")
def test_a_listed_file_has_the_stat_of_the_file_system(root: Path) -> None:
    (root / "a.md").write_text("abc")
    ref = listing(root)["a.md"]
    found = (root / "a.md").stat()
    assert isinstance(ref, DocumentRef)
    assert ref.stat is not None
    assert (ref.stat.byte_size, ref.stat.mtime_ns, ref.stat.ctime_ns) == (
        3,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )
    assert (ref.stat.inode, ref.stat.device) == (found.st_ino, found.st_dev)


@pytest.mark.req("A-2")
def test_files_come_before_sub_folders_both_by_the_bytes_of_their_names(root: Path) -> None:
    for name in ("b/z.md", "b/a/x.md", "a/x.md", "B/x.md", "z.md", "Z.md", "ä.md", "a-b/x.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    assert list(listing(root)) == [
        "Z.md",
        "z.md",
        "ä.md",
        "B/x.md",
        "a/x.md",
        "a-b/x.md",
        "b/z.md",
        "b/a/x.md",
    ]


@pytest.mark.req("A-2", "A-5")
def test_names_in_any_bytes_are_documents_that_open_their_own_file(root: Path) -> None:
    names = {
        "Übung.md".encode(): "composed",
        "U\u0308bung.md".encode(): "decomposed",
        b"caf\xe9.md": "latin-1",
        b"caf\\xe9.md": "looks escaped",
        b"a\nb\x1b[31m\xe2\x80\xae.md": "control characters",
        b" .md": "a space",
        b"dir\xff/x.md": "in an odd folder",
    }
    for name, text in names.items():
        path = os.fsencode(root) + b"/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_text(text)
    source = FolderSource("s", str(root))
    text_by_path = {}
    for ref in source.list():
        assert isinstance(ref, DocumentRef)
        assert json.loads(json.dumps(ref.document_id).encode()) == ref.document_id
        raw = source.read(ref)
        assert not isinstance(raw, Refusal)
        text_by_path[path_of(ref.document_id)] = raw.data.decode()
    assert text_by_path == names


@pytest.mark.req("A-3")
def test_extensions_count_in_any_case_of_letters(root: Path) -> None:
    (root / "LIES.MD").touch()
    ref = listing(root)["LIES.MD"]
    assert isinstance(ref, DocumentRef)
    assert ref.type_name == "md"


@pytest.mark.req("A-2")
def test_a_name_that_only_looks_like_an_extension_has_none(root: Path) -> None:
    for name in (".md", "md", "a.", "a.md."):
        (root / name).touch()
    found = FolderSource("s", str(root), hidden=True).list()
    assert {f.document_id: getattr(f, "reason", None) for f in found} == dict.fromkeys(
        [".md", "md", "a.", "a.md."], RefusalReason.UNSUPPORTED
    )


@pytest.mark.req("A-2", "A-14")
def test_an_unreadable_sub_folder_stands_for_all_that_is_below_it(
    root: Path, as_ordinary_user: OrdinaryUser
) -> None:
    for name in ("a.md", "s/b.md", "t/c.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    (root / "s").chmod(0o311)
    with as_ordinary_user():
        found = listing(root)
    assert list(found) == ["a.md", "s/", "t/c.md"]
    refusal = found["s/"]
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.UNREADABLE
    assert refusal.reason.keeps_last_version


@pytest.mark.req("A-2", "A-14")
def test_an_unreadable_root_is_an_error_with_its_path_and_a_hint(
    root: Path, as_ordinary_user: OrdinaryUser
) -> None:
    (root / "a.md").touch()
    root.chmod(0o311)
    with as_ordinary_user(), pytest.raises(SourceError, match=str(root)) as error:
        listing(root)
    assert error.value.hint


@pytest.mark.req("A-2")
def test_a_folder_above_the_root_need_not_be_readable(
    root: Path, as_ordinary_user: OrdinaryUser
) -> None:
    (root / "above/r").mkdir(parents=True)
    (root / "above/r/a.md").write_text("x")
    (root / "above").chmod(0o311)
    with as_ordinary_user():
        source = FolderSource("s", str(root / "above/r"))
        (ref,) = source.list()
        assert isinstance(ref, DocumentRef)
        assert not isinstance(source.read(ref), Refusal)


@pytest.mark.req("A-14")
def test_a_missing_root_is_an_error_and_never_an_empty_listing(root: Path) -> None:
    (root / "r").mkdir()
    source = FolderSource("s", str(root / "r"))
    (root / "r").rename(root / "weg")
    with pytest.raises(SourceError, match="cannot be opened") as error:
        list(source.list())
    assert str(root / "r") in str(error.value)
    assert error.value.hint


@pytest.mark.req("A-14")
def test_a_root_that_became_a_file_is_an_error(root: Path) -> None:
    (root / "r").touch()
    with pytest.raises(SourceError, match="cannot be opened"):
        list(FolderSource("s", str(root / "r")).list())


@pytest.mark.req("A-2")
@pytest.mark.parametrize("swapped", ["r", "above"])
def test_a_root_that_leads_elsewhere_through_a_link_is_rejected(root: Path, swapped: str) -> None:
    (root / "above/r").mkdir(parents=True)
    (root / "other/r").mkdir(parents=True)
    (root / "other/r/secret.md").write_text("secret")
    source = FolderSource("s", canonical_root(root / "above/r"))
    if swapped == "r":
        (root / "above/r").rename(root / "above/was")
        (root / "above/r").symlink_to(root / "other/r")
    else:
        (root / "above").rename(root / "was")
        (root / "above").symlink_to(root / "other")
    with pytest.raises(SourceError, match="replaced by a link"):
        list(source.list())


@pytest.mark.req("A-2")
def test_all_spellings_of_a_root_are_one_canonical_root(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "r").mkdir()
    (root / "link").symlink_to("r")
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(root))
    spellings = ["r", "./r", "r/", "r/.", "link", "link/", "~/r", str(root / "r"), "r/../r"]
    assert {canonical_root(spelling) for spelling in spellings} == {str(root / "r")}


@pytest.mark.req("A-2")
def test_registering_a_folder_that_is_none_is_refused(root: Path) -> None:
    (root / "file.md").touch()
    for name, problem in (("fehlt", "does not exist"), ("file.md", "is not a folder")):
        with pytest.raises(UsageError, match=problem):
            canonical_root(root / name)


@pytest.mark.req("A-2", "A-5")
def test_registering_a_folder_whose_path_is_not_utf_8_is_refused(root: Path) -> None:
    odd = os.fsdecode(os.fsencode(root) + b"/\xff")
    os.mkdir(odd)
    with pytest.raises(UsageError, match="not UTF-8"):
        canonical_root(odd)


@pytest.mark.req("A-2")
@pytest.mark.parametrize("root_path", ["r", "./r", "/r/", "/r/../s", "/r//s", ""])
def test_a_source_wants_its_root_canonical(root_path: str) -> None:
    with pytest.raises(ValueError, match="canonical_root"):
        FolderSource("s", root_path)


def make_deep(root: Path, depth: int, *, files_at_every: int) -> None:
    """A chain of folders too deep for one path; each also has a sibling to come back to."""
    folder = os.open(root, os.O_RDONLY)
    for level in range(depth):
        if level % files_at_every == 0:
            os.close(os.open("n.md", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
            os.mkdir("z", dir_fd=folder)
            os.close(os.open("z/s.md", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        os.mkdir("d", dir_fd=folder)
        deeper = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)


@pytest.mark.req("A-2")
def test_a_tree_2000_levels_deep_is_listed_and_read_with_few_open_folders(root: Path) -> None:
    make_deep(root, 2_000, files_at_every=50)
    source = FolderSource("s", str(root))
    before = len(os.listdir("/dev/fd"))
    most = 0
    refs = []
    for ref in source.list():
        most = max(most, len(os.listdir("/dev/fd")) - before)
        refs.append(ref)
    assert len(refs) == 80
    assert most <= MAX_OPEN_FOLDERS + 2
    assert len(os.listdir("/dev/fd")) == before
    deepest = max(refs, key=lambda found: found.document_id.count("/"))
    assert isinstance(deepest, DocumentRef)
    assert not isinstance(source.read(deepest), Refusal)


@pytest.mark.req("A-2")
def test_a_listing_left_half_way_closes_its_folders(root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/c.md").touch()
    (root / "a/b/d.md").touch()
    before = len(os.listdir("/dev/fd"))
    listed = FolderSource("s", str(root)).list()
    next(listed)
    assert len(os.listdir("/dev/fd")) > before
    del listed
    assert len(os.listdir("/dev/fd")) == before
