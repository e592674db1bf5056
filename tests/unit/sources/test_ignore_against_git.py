"""`.gitignore` files mean what git says they mean, over random trees and rules."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from sqlindex.model.documents import DocumentRef, Refusal
from sqlindex.sources.filesystem import FolderSource
from sqlindex.sources.paths import path_of

NAMES = [
    "a", "b", "ab", "abc", "a.md", "b.md", "x.txt", "ab.txt", "c d.md", "z-1.md", "[q].md", "ü.md",
    "!n.md", "#h.md", "a\\b.md", "A.md", "t ", "build",
]  # fmt: skip
FOLDERS = ["a", "b", "ab", "build", "c d", "[q]", "x.md"]
TOKENS = [
    "a", "b", "c", "*", "**", "/", "?", "[ab]", "[!a]", "[a-c]", ".md", ".txt", "\\", "!", " ",
    "ab", "build", "/**", "**/", "*.md", "[[:alpha:]]", "[]a]", "[^b-]", "[", "]", "-", "x", "#",
    "ü", "\\ ", "{a}", "(b)", "+", "^", "$",
]  # fmt: skip
# Where git and its manual differ; see the text of the patterns module.
STAR_BESIDE_OTHERS = re.compile(r"[^/!]\*\*|\*\*[^/*]")


def random_line(rng: random.Random) -> str:
    line = rng.choice(["", "", "!", "/"])
    line += "".join(rng.choice(TOKENS) for _ in range(rng.randint(1, 5)))
    return line + rng.choice(["", "", "/", " "])


def make_random_tree(root: Path, rng: random.Random) -> None:
    folders = [root]
    for _ in range(8):
        folder = rng.choice(folders) / rng.choice(FOLDERS)
        if not folder.exists():
            folder.mkdir()
            folders.append(folder)
    for folder in folders:
        for name in rng.sample(NAMES, 5):
            if not (folder / name).exists():
                (folder / name).touch()
    for folder in rng.sample(folders, min(len(folders), 3)):
        lines = [random_line(rng) for _ in range(rng.randint(1, 5))]
        kept = [line for line in lines if not STAR_BESIDE_OTHERS.search(line)]
        text = rng.choice(["", "\ufeff"]) + rng.choice(["\n", "\r\n"]).join(kept)
        (folder / ".gitignore").write_bytes(text.encode())


def is_left_out(found: DocumentRef | Refusal) -> bool:
    return isinstance(found, Refusal) and found.reason.is_left_out


def run_git(git: str, root: Path, *arguments: str) -> bytes:
    # Without the user's settings, which may name an ignore file, and without a hook's variables.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        [git, "-C", str(root), *arguments], env=environment, capture_output=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.mark.req("A-3")
@pytest.mark.parametrize("seed", range(40))
def test_a_random_tree_lists_what_git_does_not_ignore(git: str, root: Path, seed: int) -> None:
    make_random_tree(root, random.Random(seed))
    run_git(git, root, "init", "--quiet")
    untracked = run_git(git, root, "ls-files", "--others", "--exclude-standard", "-z")
    expected = {path for path in untracked.split(b"\0") if path}
    listed = FolderSource("s", str(root), hidden=True).list()
    assert {path_of(found.document_id) for found in listed if not is_left_out(found)} == expected


@pytest.mark.req("A-3")
def test_git_check_ignore_agrees_on_nested_rules(git: str, root: Path) -> None:
    files = ["a.log", "keep.log", "sub/a.log", "sub/keep.log", "out/x.md", "sub/out/x.md", "n/x.md"]
    for file in files:
        (root / file).parent.mkdir(exist_ok=True, parents=True)
        (root / file).touch()
    (root / ".gitignore").write_text("*.log\n!keep.log\n/out/\n!/out/x.md\nn/*\n")
    (root / "sub/.gitignore").write_text("keep.log\n!a.log\n")
    run_git(git, root, "init", "--quiet")
    ignored = run_git(git, root, "check-ignore", *files).decode().splitlines()
    found = FolderSource("s", str(root)).list()
    listed = {entry.document_id for entry in found if not is_left_out(entry)}
    assert listed == set(files) - set(ignored)
    assert listed == {"keep.log", "sub/a.log", "sub/out/x.md"}
