"""Listing a part of a folder equals the whole listing restricted to it, whatever the rules."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlindex.model.documents import DocumentRef, Refusal
from sqlindex.sources.filesystem import FolderSource
from sqlindex.sources.paths import document_id_of, path_of

NAMES = [
    b"a", b"b", b"a.md", b"b.txt", b".h", b".h.md", b"node_modules", b"pyvenv.cfg", b".env",
    b"\xc3\xbc.md", b"\xff", b"a\\b", b"c d", b"A",
]  # fmt: skip
LINES = [
    "a", "b/", "/a", "a/b", "*.md", "!a.md", "!*.md", "**/b", "a/**", "*", "!*/", "b.txt", "/.h/",
    "a/b/a.md", "[ab]", "# a", "a\\\\b",
]  # fmt: skip
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(b"/".join)
IGNORE_FILES = st.dictionaries(
    st.lists(st.sampled_from([b"a", b"b", b"c d"]), max_size=2).map(b"/".join),
    st.lists(st.sampled_from(LINES), min_size=1, max_size=3),
    max_size=3,
)
PATTERNS = st.lists(
    st.sampled_from([line for line in LINES if not line.startswith("#")]), max_size=2
)


def make(
    root: bytes,
    files: list[bytes],
    links: list[tuple[bytes, bytes]],
    ignore_files: dict[bytes, list[str]],
) -> None:
    for path in files:
        try:
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "xb"):
                pass
        except OSError:
            continue  # a part of it is a file already, or it is a folder
    for path, target in links:
        try:
            os.symlink(target, os.path.join(root, path))
        except OSError:
            continue
    for folder, lines in ignore_files.items():
        for name in (b".gitignore", b".sqlindexignore") if not folder else (b".gitignore",):
            try:
                with open(os.path.join(root, folder, name), "w") as file:
                    file.write("\n".join(lines))
            except OSError:
                continue


def restricted(
    root: bytes, listing: list[DocumentRef | Refusal], document_id: str
) -> Iterator[DocumentRef | Refusal]:
    """What a listing says of a path: itself, what is below it, or what stands for it above it."""
    for found in listing:
        own = found.document_id
        is_below = own in (document_id, f"{document_id}/") or own.startswith(f"{document_id}/")
        stands_for = (
            isinstance(found, Refusal) and own.endswith("/") and document_id.startswith(own)
        )
        is_link_above = document_id.startswith(f"{own}/") and os.path.islink(
            os.path.join(root, path_of(own.rstrip("/")))
        )
        if is_below or stands_for or is_link_above:
            yield found


def all_ids(root: bytes) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            yield document_id_of(os.path.relpath(os.path.join(folder, name), root))


@pytest.mark.req("A-1", "A-2", "A-3")
@settings(max_examples=150, deadline=None)
@given(
    files=st.lists(PATHS, max_size=12),
    links=st.lists(st.tuples(PATHS, st.sampled_from([b"a", b".", b"fehlt", b"a.md"])), max_size=2),
    ignore_files=IGNORE_FILES,
    include=PATTERNS,
    exclude=PATTERNS,
    hidden=st.booleans(),
    others=st.lists(PATHS, max_size=4),
)
def test_a_part_is_the_restriction_of_the_whole(
    files: list[bytes],
    links: list[tuple[bytes, bytes]],
    ignore_files: dict[bytes, list[str]],
    include: list[str],
    exclude: list[str],
    hidden: bool,
    others: list[bytes],
) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = os.fsencode(Path(made).resolve())
        make(root, files, links, ignore_files)
        source = FolderSource(
            "s", os.fsdecode(root), include=include, exclude=exclude, hidden=hidden
        )
        listing = list(source.list())
        ids = [found.document_id for found in listing]
        assert len(ids) == len(set(ids))
        present = set(all_ids(root))
        assert {document_id.rstrip("/") for document_id in ids} <= present
        for document_id in present | {document_id_of(path) for path in others}:
            expected = list(restricted(root, listing, document_id))
            assert list(source.list_under(document_id)) == expected
            assert (
                bool(expected)
                or document_id not in present
                or os.path.isdir(os.path.join(root, path_of(document_id)))
            )
