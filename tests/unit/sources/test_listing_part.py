"""Listing one file or folder: what the whole listing says of it, without looking beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sqlindex.errors import SourceError
from sqlindex.model.documents import DocumentRef, Refusal, RefusalReason
from sqlindex.sources.filesystem import FolderSource
from sqlindex.sources.lookup import look_up, may_have_other_spelling


def make(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("x")


def under(source: FolderSource, document_id: str) -> dict[str, RefusalReason | None]:
    return {
        found.document_id: found.reason if isinstance(found, Refusal) else None
        for found in source.list_under(document_id)
    }


@pytest.mark.req("A-1", "A-3")
def test_a_file_or_a_folder_is_listed_with_the_rules_from_above(root: Path) -> None:
    make(root, "a/b/c.md", "a/b/d.log", "a/b/e/f.md", "a/b/e/g.md", "a/x.md", "y.md")
    (root / ".gitignore").write_text("*.log\n")
    (root / "a/.gitignore").write_text("g.md\n")
    source = FolderSource("s", str(root))
    assert under(source, "a/b") == {
        "a/b/c.md": None,
        "a/b/d.log": RefusalReason.IGNORED,
        "a/b/e/f.md": None,
        "a/b/e/g.md": RefusalReason.IGNORED,
    }
    assert under(source, "a/b/c.md") == {"a/b/c.md": None}
    assert under(source, "a/b/d.log") == {"a/b/d.log": RefusalReason.IGNORED}
    assert under(source, "y.md") == {"y.md": None}
    assert list(source.list_under("")) == list(source.list())


@pytest.mark.req("A-1", "A-3")
@pytest.mark.parametrize("below", ["out", "out/deep", "out/deep/a.md", "out/not/there.md"])
def test_what_is_below_a_left_out_folder_is_the_topmost_one(root: Path, below: str) -> None:
    make(root, "out/deep/.hid/a.md", "out/deep/a.md")
    source = FolderSource("s", str(root), exclude=["out", "deep"])
    assert under(source, below) == {"out/": RefusalReason.EXCLUDED}


@pytest.mark.req("A-3")
@pytest.mark.parametrize("below", ["env", "env/lib", "env/lib/a.md", "env/pyvenv.cfg"])
def test_an_environment_above_is_seen_by_its_marker(root: Path, below: str) -> None:
    make(root, "env/pyvenv.cfg", "env/lib/a.md")
    assert under(FolderSource("s", str(root)), below) == {"env/": RefusalReason.DEFAULT_IGNORED}


@pytest.mark.req("A-1")
@pytest.mark.parametrize(
    "missing", ["fehlt", "fehlt.md", "a/fehlt", "a/b.md/c.md", ".fehlt/a.md", "a/" + "x" * 300]
)
def test_nothing_is_listed_where_nothing_is(root: Path, missing: str) -> None:
    make(root, "a/b.md")
    assert under(FolderSource("s", str(root)), missing) == {}


@pytest.mark.req("A-2")
@pytest.mark.parametrize("outside", ["..", "../a.md", "/etc", "a/", "a//b.md", "./a", "a\0b"])
def test_what_is_no_path_inside_the_root_is_refused(root: Path, outside: str) -> None:
    make(root, "a/b.md")
    found = under(FolderSource("s", str(root)), outside)
    assert found == {outside: RefusalReason.TRAVERSAL}


@pytest.mark.req("A-2")
@pytest.mark.parametrize("to", ["a", "..", "fehlt", "b.md"])
def test_a_link_above_is_refused_and_not_followed(root: Path, to: str) -> None:
    make(root, "a/c.md", "b.md")
    (root / "link").symlink_to(to)
    source = FolderSource("s", str(root))
    for document_id in ("link", "link/c.md", "link/d/e.md"):
        assert under(source, document_id) == {"link": RefusalReason.SYMLINK}


@pytest.mark.req("A-2", "A-14")
@pytest.mark.parametrize("mode", [0o311, 0o644, 0])
def test_a_folder_above_that_cannot_be_listed_keeps_what_is_below_it(
    root: Path, as_ordinary_user: Callable[[], AbstractContextManager[None]], mode: int
) -> None:
    make(root, "s/a.md", "s/t/b.md")
    for use_gitignore in (True, False):
        source = FolderSource("s", str(root), use_gitignore=use_gitignore)
        (root / "s").chmod(mode)
        with as_ordinary_user():
            whole = {f.document_id: getattr(f, "reason", None) for f in source.list()}
            for document_id in ("s", "s/a.md", "s/t", "s/t/b.md"):
                found = under(source, document_id)
                assert found
                assert found.items() <= whole.items()
                assert set(found.values()) == {RefusalReason.UNREADABLE}
        (root / "s").chmod(0o755)


@pytest.mark.req("A-14")
def test_a_part_of_a_root_that_cannot_be_listed_is_an_error(root: Path) -> None:
    (root / "r").mkdir()
    source = FolderSource("s", str(root / "r"))
    (root / "r").rmdir()
    with pytest.raises(SourceError):
        list(source.list_under("a.md"))


@pytest.mark.req("A-1")
def test_a_document_of_a_part_is_read_like_any_other(root: Path) -> None:
    make(root, "a/b.md")
    source = FolderSource("s", str(root))
    (ref,) = source.list_under("a/b.md")
    assert isinstance(ref, DocumentRef)
    outcome = source.read(ref)
    assert not isinstance(outcome, Refusal)
    assert outcome.data == b"x"


@pytest.mark.req("A-1")
def test_a_part_says_nothing_of_mounts(root: Path) -> None:
    make(root, "a/b.md")
    source = FolderSource("s", str(root), known_mounts=["m"])
    list(source.list_under("a"))
    assert source.mount_points == ("m",)


@pytest.mark.req("A-1")
def test_only_the_folders_above_are_opened_and_no_entry_beside_is_looked_at(
    root: Path, as_ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    make(root, "a/b/c.md", "a/closed/d.md", "closed/e.md")
    (root / "a/b/.gitignore").write_text("c.txt\n")
    for closed in ("a/closed", "closed"):
        # An ignore file over the limit would refuse the folder, if it were read.
        (root / closed / ".gitignore").write_bytes(b"#" * 2_000_000)
        (root / closed).chmod(0)
    with as_ordinary_user():
        assert under(FolderSource("s", str(root)), "a/b/c.md") == {"a/b/c.md": None}


@pytest.mark.req("A-3")
def test_a_name_in_another_case_is_another_name(root: Path) -> None:
    make(root, "Lies.md", "Ordner/a.md")
    source = FolderSource("s", str(root))
    assert under(source, "lies.md") == {}
    assert under(source, "ordner") == {}
    assert under(source, "ordner/a.md") == {}


@pytest.mark.req("A-3", "A-5")
@pytest.mark.parametrize(("name", "other"), [("Lies.md", "lIES.MD"), ("Ü.md", "U\u0308.md")])
def test_an_entry_known_under_another_spelling_is_looked_for_in_the_folder(
    root: Path, name: str, other: str
) -> None:
    # Two hard links look to `lstat` as one entry does where case or normal form does not count.
    make(root, name)
    raw = os.fsencode(name)
    folder = os.open(root, os.O_RDONLY)
    try:
        found = os.lstat(raw, dir_fd=folder)
        assert not may_have_other_spelling(folder, raw, found)
        os.link(root / name, root / other)
        assert may_have_other_spelling(folder, raw, found)
        assert list(look_up(folder, raw, (), False).files) == [raw]
    finally:
        os.close(folder)
