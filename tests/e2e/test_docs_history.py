"""A real folder at two commits: what changed is found by content, and nothing is embedded twice."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from sqlindex import Index
from sqlindex.indexing.report import ChangeKind, Changes
from sqlindex.testing import HashingEmbedder

pytestmark = pytest.mark.data


def _unpack(data: Path, name: str, into: Path) -> None:
    with tarfile.open(data / "docs-history" / f"{name}.tar.gz") as archive:
        archive.extractall(into, filter="data")


def _turn_into_new(data: Path, folder: Path) -> None:
    """Make the folder the new commit, keeping files that are the same as they are on disk."""
    fresh = folder.with_name("fresh")
    _unpack(data, "new", fresh)
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        if not (fresh / path.relative_to(folder)).is_file():
            path.unlink()
    for path in [p for p in fresh.rglob("*") if p.is_file()]:
        target = folder / path.relative_to(fresh)
        if not target.is_file() or target.read_bytes() != path.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.rmtree(fresh)


def _counts(changes: Changes) -> dict[str, int]:
    kinds: tuple[ChangeKind, ...] = ("renamed", "removed", "added", "changed")
    return {**{kind: changes.count(kind) for kind in kinds}, "unchanged": changes.unchanged}


@pytest.mark.req("A-14", "A-16", "D-11")
def test_a_refresh_finds_by_content_what_changed_between_two_commits(
    data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "tree"
    _unpack(data, "old", folder)
    embedder = HashingEmbedder()
    with Index.open(tmp_path / "index.db", create=True, embedder=embedder) as index:
        index.add_source(folder)
        planned = index.plan()
        first = index.refresh()
        assert first.changes == planned
        assert first.embedded == planned.embedding_inputs == len(set(embedder.document_inputs))
        assert len(embedder.document_inputs) == first.embedded
        assert first.changes.count("added") == 1058
        assert [r.reason for _, r, _ in first.changes.refused] == ["unsupported"]  # LICENSE

        _turn_into_new(data, folder)
        before = len(embedder.document_inputs)
        planned = index.plan()
        report = index.refresh()
        # 4 of the 43 added files are hidden, one of the 372 unchanged ones has no extension.
        assert _counts(report.changes) == {
            "renamed": 206,
            "removed": 180,
            "added": 39,
            "changed": 301,
            "unchanged": 371,
        }
        assert report.changes == planned
        assert report.embedded == planned.embedding_inputs == len(embedder.document_inputs) - before
        empty = [
            c
            for c in report.changes.documents
            if c.kind == "renamed" and not _size(folder, c.document_id)
        ]
        assert len(empty) == 16
        earlier = set(embedder.document_inputs[:before])
        assert earlier.isdisjoint(embedder.document_inputs[before:])

        again = index.refresh()
        assert (again.is_published, again.embedded, again.generation) == (
            False,
            0,
            report.generation,
        )
        assert again.changes.unchanged == 917
        assert index.check() == []


def _size(folder: Path, document_id: str) -> int:
    return (folder / document_id).stat().st_size


@pytest.mark.req("A-14", "A-16")
def test_a_refreshed_index_answers_like_one_built_anew(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    _unpack(data, "old", folder)
    questions = (
        "dependency injection",
        "Abhängigkeiten mit yield",
        "background tasks",
        "请求体",
        "CORS",
    )
    with Index.open(tmp_path / "grown.db", create=True) as grown:
        grown.add_source(folder)
        grown.refresh()
        _turn_into_new(data, folder)
        grown.refresh()
        with Index.open(tmp_path / "fresh.db", create=True) as fresh:
            fresh.add_source(folder)
            fresh.refresh()
            for question in questions:
                left = grown.search(question, limit=100).hits
                right = fresh.search(question, limit=100).hits
                assert left
                assert left == right
