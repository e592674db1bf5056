"""What a listing leaves out: by name, by ignore files, by include and exclude."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sqlindex.errors import SourceError
from sqlindex.model.documents import DocumentRef, Refusal, RefusalReason
from sqlindex.sources.filesystem import FolderSource
from sqlindex.sources.ignore import MAX_IGNORE_FILE_BYTES, MAX_IGNORE_PATTERNS
from sqlindex.sources.left_out import is_secret_like

NEVER_ENTERED = [
    ".git", ".hg", ".svn", "node_modules", "Node_Modules", "__pycache__", ".venv", "venv", ".tox",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ssh",
]  # fmt: skip
SECRET_LIKE = [
    ".env", ".env.local", ".ENV.json", "server.pem", "Server.KEY", "id_rsa", "id_rsa.pub",
    "id_ed25519", "store.p12", "store.pfx", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
    "credentials", "credentials.json", "Secrets.toml", "client_secret_1.json",
]  # fmt: skip
NOT_SECRET_LIKE = [
    "credentials.md", "secret-santa.md", "secrets.md", "keys.md", "environment.md", "monkey.py",
    "key", "environ.json", "pem.txt", "credentials_rotation.md", "id_rsa_howto.md",
    "client_secret_rotation.md",
]  # fmt: skip


def make(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("x")


def ids(source: FolderSource) -> list[str]:
    """What is listed, and what is refused for another reason than a rule of the source."""
    return [
        found.document_id
        for found in source.list()
        if not (isinstance(found, Refusal) and found.reason.is_left_out)
    ]


def left_out(source: FolderSource) -> dict[str, RefusalReason]:
    return {
        found.document_id: found.reason
        for found in source.list()
        if isinstance(found, Refusal) and found.reason.is_left_out
    }


@pytest.mark.req("A-3")
@pytest.mark.parametrize(
    "folder",
    NEVER_ENTERED,
)
def test_default_folders_are_never_entered(root: Path, folder: str) -> None:
    make(root, "a.md", f"{folder}/b.md", f"sub/{folder}/c.md")
    source = FolderSource("s", str(root), hidden=True, include=["*.md", f"{folder}/"])
    assert ids(source) == ["a.md"]
    assert left_out(source) == dict.fromkeys(
        [f"{folder}/", f"sub/{folder}/"], RefusalReason.DEFAULT_IGNORED
    )


@pytest.mark.req("A-3")
@pytest.mark.parametrize("marker", ["pyvenv.cfg", "conda-meta/history"])
def test_an_environment_is_known_by_its_marker_and_not_by_its_name(root: Path, marker: str) -> None:
    make(root, "env/real.md", f"py/{marker}", "py/lib/b.md")
    source = FolderSource("s", str(root))
    assert ids(source) == ["env/real.md"]
    assert left_out(source) == {"py/": RefusalReason.DEFAULT_IGNORED}


@pytest.mark.req("A-3")
def test_a_root_that_is_itself_an_environment_or_hidden_is_listed(root: Path) -> None:
    make(root, ".venv/pyvenv.cfg", ".venv/a.md")
    assert ids(FolderSource("s", str(root / ".venv"))) == ["a.md", "pyvenv.cfg"]


@pytest.mark.req("A-3")
def test_hidden_names_are_left_out_unless_asked_for(root: Path) -> None:
    make(root, "a.md", ".b.md", ".c/d.md")
    source = FolderSource("s", str(root))
    assert ids(source) == ["a.md"]
    assert left_out(source) == {".b.md": RefusalReason.HIDDEN, ".c/": RefusalReason.HIDDEN}
    assert ids(FolderSource("s", str(root), hidden=True)) == [".b.md", "a.md", ".c/d.md"]


@pytest.mark.req("A-3")
@pytest.mark.parametrize(
    "name",
    SECRET_LIKE,
)
def test_a_name_that_holds_keys_by_custom_is_secret_like(root: Path, name: str) -> None:
    assert is_secret_like(name)
    make(root, name)
    assert ids(FolderSource("s", str(root), hidden=True, include=["*"])) == []


@pytest.mark.req("A-3")
@pytest.mark.parametrize(
    "name",
    NOT_SECRET_LIKE,
)
def test_a_document_about_keys_is_not_secret_like(name: str) -> None:
    assert not is_secret_like(name)


@pytest.mark.req("A-3")
def test_a_secret_like_file_is_listed_if_a_pattern_names_it_exactly(root: Path) -> None:
    make(root, "sub/credentials.json", "credentials.json", ".b.md", "a.md")
    exact = FolderSource("s", str(root), include=["*.md", "/sub/credentials.json", ".b.md"])
    assert ids(exact) == [".b.md", "a.md", "sub/credentials.json"]
    by_wildcard = FolderSource("s", str(root), include=["sub/*.json"], hidden=True)
    assert ids(by_wildcard) == []


@pytest.mark.req("A-3")
def test_include_lists_only_what_matches_or_is_in_a_folder_that_does(root: Path) -> None:
    make(root, "a.md", "b.txt", "docs/c.txt", "docs/deep/d.py", "docs/e.md", "src/f.py")
    source = FolderSource("s", str(root), include=["/a.md", "docs/", "!*.py"])
    assert ids(source) == ["a.md", "docs/c.txt", "docs/e.md"]
    assert left_out(source) == dict.fromkeys(
        ["b.txt", "docs/deep/d.py", "src/f.py"], RefusalReason.NOT_INCLUDED
    )


@pytest.mark.req("A-3")
def test_exclude_is_stronger_than_what_ignore_files_bring_back(root: Path) -> None:
    make(root, "a.md", "sub/a.md", "sub/b.md")
    (root / "sub/.gitignore").write_text("!a.md\n")
    assert ids(FolderSource("s", str(root), exclude=["a.md"])) == ["sub/b.md"]


@pytest.mark.req("A-3")
def test_sqlindexignore_is_stronger_than_any_gitignore(root: Path) -> None:
    make(root, "a.md", "b.md", "sub/a.md", "sub/c.md")
    (root / ".gitignore").write_text("a.md\n")
    (root / "sub/.gitignore").write_text("c.md\n")
    (root / ".sqlindexignore").write_text("!a.md\n!sub/c.md\nb.md\n")
    assert ids(FolderSource("s", str(root))) == ["a.md", "sub/a.md", "sub/c.md"]


@pytest.mark.req("A-3")
def test_sqlindexignore_counts_in_the_root_only(root: Path) -> None:
    make(root, "sub/a.md")
    (root / "sub/.sqlindexignore").write_text("a.md\n")
    assert ids(FolderSource("s", str(root))) == ["sub/a.md"]


@pytest.mark.req("A-3")
def test_gitignore_files_can_be_switched_off(root: Path) -> None:
    make(root, "a.md", "b.md")
    (root / ".gitignore").write_text("a.md\n")
    (root / ".sqlindexignore").write_text("b.md\n")
    assert ids(FolderSource("s", str(root), use_gitignore=False)) == ["a.md"]


@pytest.mark.req("A-3")
@pytest.mark.parametrize("option", ["include", "exclude"])
@pytest.mark.parametrize("pattern", ["a[", "", "# x", "a\\"])
def test_a_pattern_that_matches_nothing_is_refused(root: Path, option: str, pattern: str) -> None:
    with pytest.raises(ValueError, match=option):
        FolderSource("s", str(root), **{option: [pattern]})  # type: ignore[arg-type]  # by name


@pytest.mark.req("A-3")
def test_one_text_instead_of_a_sequence_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match="sequence"):
        FolderSource("s", str(root), include="*.md")


@pytest.mark.req("A-3", "A-2")
def test_an_ignore_file_that_is_a_link_has_no_effect_and_is_named(root: Path) -> None:
    make(root, "a.md", "rules")
    (root / "rules").write_text("a.md\n")
    (root / ".gitignore").symlink_to("rules")
    for hidden in (False, True):
        found = {f.document_id: f for f in FolderSource("s", str(root), hidden=hidden).list()}
        assert isinstance(found["a.md"], DocumentRef)
        refusal = found[".gitignore"]
        assert isinstance(refusal, Refusal)
        assert refusal.reason is RefusalReason.SYMLINK


OVER_A_LIMIT = [
    pytest.param(b"#" * (MAX_IGNORE_FILE_BYTES + 1), id="bytes"),
    pytest.param(b"a\n" * (MAX_IGNORE_PATTERNS + 1), id="patterns"),
    pytest.param(b"a" * 5_000, id="one pattern"),
]


@pytest.mark.req("A-3", "A-14")
@pytest.mark.parametrize("rules", OVER_A_LIMIT)
def test_a_folder_whose_ignore_file_is_over_a_limit_is_not_listed(root: Path, rules: bytes) -> None:
    make(root, "a.md", "sub/secret.md", "tail/b.md")
    (root / "sub/.gitignore").write_bytes(rules)
    a, refusal, b = FolderSource("s", str(root)).list()
    assert (a.document_id, b.document_id) == ("a.md", "tail/b.md")
    assert isinstance(refusal, Refusal)
    assert (refusal.document_id, refusal.reason) == ("sub/", RefusalReason.UNREADABLE)
    assert ".gitignore" in refusal.detail


@pytest.mark.req("A-3", "A-14")
@pytest.mark.parametrize("rules", OVER_A_LIMIT)
def test_a_root_whose_ignore_file_is_over_a_limit_is_an_error(root: Path, rules: bytes) -> None:
    make(root, "a.md")
    (root / ".sqlindexignore").write_bytes(rules)
    with pytest.raises(SourceError, match=r"\.sqlindexignore"):
        list(FolderSource("s", str(root)).list())


@pytest.mark.req("A-3", "A-14")
def test_a_folder_whose_ignore_file_is_unreadable_is_not_listed(
    root: Path, as_ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    make(root, "sub/secret.md", "sub/.gitignore")
    (root / "sub/.gitignore").chmod(0)
    with as_ordinary_user():
        (refusal,) = FolderSource("s", str(root)).list()
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.UNREADABLE


@pytest.mark.req("A-3")
@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_an_ignore_file_that_is_no_file_is_none(root: Path, kind: str) -> None:
    make(root, "a.md")
    if kind == "folder":
        (root / ".gitignore").mkdir()
    else:
        os.mkfifo(root / ".gitignore")
    assert ids(FolderSource("s", str(root))) == ["a.md"]


@pytest.mark.req("A-3")
def test_hostile_ignore_files_do_not_slow_a_listing_down(root: Path) -> None:
    make(root, *(f"{'a' * 200}{n}.md" for n in range(200)))
    (root / ".gitignore").write_text("\n".join(["**/" * 200 + "b", "*a" * 100 + "b"] * 20))
    start = time.perf_counter()
    assert len(ids(FolderSource("s", str(root)))) == 200
    assert time.perf_counter() - start < 3
