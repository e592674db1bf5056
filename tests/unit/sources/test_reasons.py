"""Each entry that a rule leaves out says which rule, and what would let it in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlindex.filetypes.builtin import BUILTIN_REGISTRY
from sqlindex.filetypes.registry import FileType
from sqlindex.model.documents import DocumentRef, Refusal, RefusalReason
from sqlindex.sources.filesystem import FolderSource
from sqlindex.sources.ignore import IgnoreRules
from sqlindex.sources.left_out import ENVIRONMENT_MARKERS
from sqlindex.sources.names import NameFile, read_names


def make(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("x")


def refusals(source: FolderSource) -> dict[str, Refusal]:
    return {found.document_id: found for found in source.list() if isinstance(found, Refusal)}


def is_listed(source: FolderSource, document_id: str) -> bool:
    return any(
        isinstance(found, DocumentRef) and found.document_id == document_id
        for found in source.list()
    )


@pytest.mark.req("A-3")
def test_an_ignored_file_names_the_pattern_the_ignore_file_and_its_line(root: Path) -> None:
    make(root, "sub/a.log", "sub/b.md", "c.log")
    (root / ".gitignore").write_text("# logs\n\n*.log\n!c.log\n")
    (root / "sub/.gitignore").write_text("/b.md \n")
    source = FolderSource("s", str(root))
    found = refusals(source)
    assert found["sub/a.log"].reason is RefusalReason.IGNORED
    assert found["sub/a.log"].detail == 'pattern "*.log" in .gitignore, line 3'
    assert found["sub/b.md"].detail == 'pattern "/b.md " in sub/.gitignore, line 1'
    assert "c.log" not in found or not found["c.log"].reason.is_left_out
    assert ".sqlindexignore" in found["sub/b.md"].hint
    (root / ".sqlindexignore").write_text("!/sub/b.md\n")
    assert is_listed(source, "sub/b.md")


@pytest.mark.req("A-3")
def test_a_pattern_of_sqlindexignore_is_to_be_removed_there(root: Path) -> None:
    make(root, "a.md")
    (root / ".sqlindexignore").write_text("a.md\n")
    refusal = refusals(FolderSource("s", str(root)))["a.md"]
    assert refusal.detail == 'pattern "a.md" in .sqlindexignore, line 1'
    assert refusal.hint == "remove the pattern"


@pytest.mark.req("A-3")
def test_a_left_out_folder_is_one_refusal_and_nothing_below_it_is_looked_at(root: Path) -> None:
    make(root, "out/a.md", "out/deep/b.md", ".hid/c.md", "node_modules/d.md", "env/pyvenv.cfg")
    make(root, "env/lib/e.md", "x/f.md")
    (root / ".gitignore").write_text("out/\n")
    found = refusals(FolderSource("s", str(root), exclude=["x"]))
    assert {name: refusal.reason for name, refusal in found.items()} == {
        ".gitignore": RefusalReason.HIDDEN,
        ".hid/": RefusalReason.HIDDEN,
        "env/": RefusalReason.DEFAULT_IGNORED,
        "node_modules/": RefusalReason.DEFAULT_IGNORED,
        "out/": RefusalReason.IGNORED,
        "x/": RefusalReason.EXCLUDED,
    }
    assert found["env/"].detail == "it holds pyvenv.cfg: an environment"
    assert found["x/"].detail == 'exclude pattern "x"'
    assert not any(refusal.reason.keeps_last_version for refusal in found.values())


@pytest.mark.req("A-3")
def test_a_default_folder_is_listed_as_its_hint_says(root: Path) -> None:
    make(root, "node_modules/a.md")
    refusal = refusals(FolderSource("s", str(root)))["node_modules/"]
    assert "source of its own" in refusal.hint
    assert is_listed(FolderSource("t", str(root / "node_modules")), "a.md")


@pytest.mark.req("A-3")
def test_a_hidden_file_is_listed_as_its_hint_says(root: Path) -> None:
    make(root, ".a.md")
    refusal = refusals(FolderSource("s", str(root)))[".a.md"]
    assert refusal.reason is RefusalReason.HIDDEN
    assert "--hidden" in refusal.hint
    assert is_listed(FolderSource("s", str(root), hidden=True), ".a.md")


@pytest.mark.req("A-3")
def test_a_secret_like_file_is_listed_as_its_hint_says(root: Path) -> None:
    make(root, ".env.json", "sub/credentials.json")
    found = refusals(FolderSource("s", str(root)))
    assert {found[name].reason for name in found} == {RefusalReason.SECRET}
    assert "names it exactly" in found["sub/credentials.json"].hint
    for name in (".env.json", "sub/credentials.json"):
        assert is_listed(FolderSource("s", str(root), include=["/" + name]), name)


@pytest.mark.req("A-3")
def test_two_rules_that_leave_a_file_out_are_both_named(root: Path) -> None:
    make(root, ".a.log")
    (root / ".gitignore").write_text("*.log\n")
    refusal = refusals(FolderSource("s", str(root)))[".a.log"]
    assert refusal.reason is RefusalReason.HIDDEN
    assert 'left out, too: pattern "*.log" in .gitignore, line 1' in refusal.hint


@pytest.mark.req("A-3")
def test_a_file_that_is_not_included_says_so_and_which_pattern_took_it_back(root: Path) -> None:
    make(root, "a.txt", "docs/b.py", "docs/c.md")
    found = refusals(FolderSource("s", str(root), include=["docs/", "!*.py"]))
    assert {name: refusal.reason for name, refusal in found.items()} == dict.fromkeys(
        ["a.txt", "docs/b.py"], RefusalReason.NOT_INCLUDED
    )
    assert found["a.txt"].detail == "no include pattern of the source matches"
    assert found["docs/b.py"].detail == 'include pattern "!*.py" takes it back'


@pytest.mark.req("A-3")
def test_own_files_have_a_reason_of_their_own_and_no_pattern_lets_them_in(root: Path) -> None:
    own = ["sub/.i [1].md", "sub/.i [1].md-wal"]
    make(root, *own, ".i [1].md", "sub/i.md")
    source = FolderSource(
        "s", str(root), own_files=own, hidden=True, include=["*", "/sub/.i \\[1\\].md"]
    )
    assert {name: refusal.reason for name, refusal in refusals(source).items()} == dict.fromkeys(
        own, RefusalReason.OWN_FILE
    )
    assert is_listed(source, ".i [1].md")


@pytest.mark.req("A-3", "A-5")
def test_an_own_file_may_have_any_name(root: Path) -> None:
    own = os.fsdecode(b"caf\xe9\\.md")
    (root / own).write_text("x")
    found = refusals(FolderSource("s", str(root), own_files=[own]))
    assert {refusal.reason for refusal in found.values()} == {RefusalReason.OWN_FILE}


@pytest.mark.req("A-2", "A-7")
def test_what_can_be_done_about_a_type_is_said_for_both_doors(root: Path) -> None:
    make(root, "a.png")
    (root / "long.note").write_text("xx")
    note = FileType("note", ("note",), "text", "text", "text", max_bytes=1)
    found = refusals(
        FolderSource("s", str(root), registry=BUILTIN_REGISTRY.with_types(note), hidden=True)
    )
    assert found["a.png"].reason is RefusalReason.UNSUPPORTED
    assert found["long.note"].reason is RefusalReason.TOO_LARGE
    for refusal in found.values():
        assert "exclude it" in refusal.hint
        assert "file_types" in refusal.hint


@pytest.mark.req("A-3")
def test_each_entry_is_named_once_in_the_order_of_names_files_first(root: Path) -> None:
    make(root, ".h.md", "b.md", "a.log", "z/x.md", ".c/d.md", "m/n.md", "node_modules/e.md")
    (root / ".gitignore").write_text("*.log\n")
    assert [found.document_id for found in FolderSource("s", str(root)).list()] == [
        ".gitignore", ".h.md", "a.log", "b.md", ".c/", "m/n.md", "node_modules/", "z/x.md",
    ]  # fmt: skip


@pytest.mark.req("A-3")
@pytest.mark.parametrize("ignore_case", [False, True])
def test_where_case_does_not_count_own_files_and_patterns_match_in_any_case(
    root: Path, ignore_case: bool
) -> None:
    rules = IgnoreRules(own_files=["Sub/Index.DB"], exclude=["Über.md"], ignore_case=ignore_case)
    folder = os.open(root, os.O_RDONLY)
    inside = rules.in_folder(folder, b"sub/", rules.at_root())
    os.close(folder)
    own = inside.leave_out(b"index.db", "index.db", b"sub/")
    excluded = inside.leave_out("Über.MD".encode(), "Über.MD", b"sub/")
    expected = (RefusalReason.OWN_FILE, RefusalReason.EXCLUDED) if ignore_case else (None, None)
    assert (own and own.reason, excluded and excluded.reason) == expected


@pytest.mark.req("A-3")
@pytest.mark.parametrize("ignore_case", [False, True])
def test_where_case_does_not_count_a_marker_is_one_in_any_case(
    root: Path, ignore_case: bool
) -> None:
    make(root, "PyVenv.cfg", "a.md")
    folder = os.open(root, os.O_RDONLY)
    found = read_names(folder, NameFile(), 0, ENVIRONMENT_MARKERS, ignore_case)
    os.close(folder)
    assert found.marker == ("PyVenv.cfg" if ignore_case else None)
