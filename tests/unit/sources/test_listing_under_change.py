"""A tree that changes while it is listed: nothing outside is entered, nothing is wrongly gone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sqlindex.model.documents import DocumentRef, Refusal, RefusalReason
from sqlindex.sources.containment import ignores_case
from sqlindex.sources.filesystem import FolderSource


def make(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("x")


@pytest.mark.req("A-2")
def test_a_file_removed_during_the_listing_is_not_listed(root: Path) -> None:
    make(root, "a.md", "b.md", "c.md")
    listed = FolderSource("s", str(root)).list()
    next(listed)
    (root / "b.md").unlink()
    assert [found.document_id for found in listed] == ["c.md"]


@pytest.mark.req("A-2")
def test_a_file_replaced_by_a_link_during_the_listing_is_refused(root: Path) -> None:
    make(root, "a.md", "b.md")
    listed = FolderSource("s", str(root)).list()
    next(listed)
    (root / "b.md").unlink()
    (root / "b.md").symlink_to("a.md")
    assert [getattr(found, "reason", None) for found in listed] == [RefusalReason.SYMLINK]


@pytest.mark.req("A-2")
def test_a_folder_replaced_by_a_link_during_the_listing_is_not_entered(
    root: Path, tmp_path: Path
) -> None:
    make(root, "a.md", "sub/b.md")
    make(tmp_path, "secret.md")
    listed = FolderSource("s", str(root)).list()
    next(listed)
    (root / "sub").rename(root / "was")
    (root / "sub").symlink_to(tmp_path)
    (refusal,) = listed
    assert refusal == Refusal("sub", RefusalReason.SYMLINK, "a symbolic link")


@pytest.mark.req("A-2")
@pytest.mark.parametrize("replaced_by", ["nothing", "a file"])
def test_a_folder_that_went_during_the_listing_is_gone(root: Path, replaced_by: str) -> None:
    make(root, "a.md", "sub/b.md")
    listed = FolderSource("s", str(root)).list()
    next(listed)
    (root / "sub").rename(root / "was")
    if replaced_by == "a file":
        (root / "sub").touch()
    assert list(listed) == []


@pytest.mark.req("A-2", "A-14")
@pytest.mark.parametrize("replaced_by", ["nothing", "another folder", "a link"])
def test_a_folder_whose_way_back_changed_is_kept_and_not_entered(
    root: Path, monkeypatch: pytest.MonkeyPatch, replaced_by: str
) -> None:
    monkeypatch.setattr("sqlindex.sources.open_folders.MAX_OPEN_FOLDERS", 1)
    make(root, "a/b/c/n.md", "a/z/s.md", "other/z/secret.md")
    listed = FolderSource("s", str(root)).list()
    assert next(listed).document_id == "a/b/c/n.md"
    (root / "a").rename(root / "was")
    if replaced_by == "another folder":
        (root / "other").rename(root / "a")
    elif replaced_by == "a link":
        (root / "a").symlink_to("other")
    refusal = next(listed)
    assert isinstance(refusal, Refusal)
    assert (refusal.document_id, refusal.reason) == ("a/z/", RefusalReason.UNREADABLE)


@pytest.mark.req("A-2")
def test_a_walk_that_keeps_one_folder_open_finds_its_way_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(root, "a/b/c/d/e.md", "a/b/c/f/g.md", "a/h/i.md", "j/k/l.md")
    expected = [found.document_id for found in FolderSource("s", str(root)).list()]
    monkeypatch.setattr("sqlindex.sources.open_folders.MAX_OPEN_FOLDERS", 1)
    assert [found.document_id for found in FolderSource("s", str(root)).list()] == expected


@pytest.mark.req("A-2", "A-14")
@pytest.mark.parametrize("use_gitignore", [True, False])
def test_a_folder_that_may_be_listed_but_not_entered_keeps_what_is_below_it(
    root: Path,
    as_ordinary_user: Callable[[], AbstractContextManager[None]],
    use_gitignore: bool,
) -> None:
    make(root, "sub/a.md", "sub/deep/b.md")
    (root / "sub").chmod(0o644)
    with as_ordinary_user():
        source = FolderSource("s", str(root), use_gitignore=use_gitignore)
        found = {f.document_id: getattr(f, "reason", None) for f in source.list()}
    kept = ["sub/"] if use_gitignore else ["sub/a.md", "sub/deep/"]
    assert found == dict.fromkeys(kept, RefusalReason.UNREADABLE)


@pytest.mark.req("A-3")
def test_two_folders_that_differ_in_case_mean_a_case_sensitive_file_system(root: Path) -> None:
    make(root, "abc/a.md", "ABC/b.md")
    assert not ignores_case(str(root / "abc"))
    assert not ignores_case(str(root / "fehlt"))
    (ref,) = FolderSource("s", str(root / "abc"), include=["*.md"], exclude=["A.MD"]).list()
    assert isinstance(ref, DocumentRef)
