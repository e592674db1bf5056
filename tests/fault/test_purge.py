"""A purged document is in no generation and no byte of the files; a purge that says so is right."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlindex import Document, Index
from sqlindex.config import IndexConfig, Retention
from sqlindex.errors import CorruptIndexError, LockedError, SqlindexError, UnknownDocumentError
from sqlindex.testing import HashingEmbedder
from tests.faults import (
    FaultPlan,
    State,
    assert_told,
    copy_index,
    faulty_writer,
    folder_in_memory,
    killed_at_statement,
    observe,
    shell_lines,
    sqlindex,
)

QUERIES = ("pump", "valve letter", "archive")

MARK = "qxkv"
"""In the middle of every word that must be gone, where no prefix compression hides it."""

SECRET = f"""\
---
title: Zebra{MARK}title
tags: [yak{MARK}tag]
aliases: [wolf{MARK}alias]
owner: vole{MARK}front
---
# Urial{MARK}heading

The tapir{MARK}text runs, skunks{MARK}running. [See](rhino{MARK}link.md)

| quail{MARK}column |
| --- |
| panda{MARK}cell |
"""
SECRET_ID = f"plan/otter{MARK}path.md"


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Like `tmp_path`, without the cost of syncs."""
    with folder_in_memory(tmp_path) as folder:
        yield folder


def _open(db: Path, *, create: bool = False) -> Index:
    config = IndexConfig(documents_per_batch=2, embedding_batch=2)
    return Index.open(db, create=create, embedder=HashingEmbedder(16), config=config)


def _others(edition: int) -> dict[str, str]:
    texts = {f"sheet{i}.md": f"# Pump {i}\n\nThe valve letter {edition}.{i}\n" for i in range(6)}
    return {**texts, "archive.md": "# Archive\n\nOld letters about the pump.\n"}


def _write(folder: Path, files: dict[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def _build(place: Path, *, with_secret: bool) -> Path:
    """An index of four generations; the secret changes in the third."""
    db, folder = place / "index" / "index.db", place / "documents"
    db.parent.mkdir(parents=True)
    versions = (SECRET, SECRET, SECRET + f"\nnumbat{MARK}more\n", SECRET + f"\nnumbat{MARK}more\n")
    for edition, secret in enumerate(versions, 1):
        _write(folder, {**_others(edition), **({SECRET_ID: secret} if with_secret else {})})
        with _open(db, create=True) as index:
            if edition == 1:
                index.add_source(folder, name="notes")
            index.refresh()
    return db


def _marks(db: Path) -> list[str]:
    """Files beside the index with a marked word in them, by the stock tool in its own process."""
    found = subprocess.run(
        ["grep", "-a", "-i", "-l", "-r", MARK, db.parent],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode in (0, 1), found.stderr
    return found.stdout.splitlines()


def _observed(db: Path) -> State:
    return observe(db, QUERIES, HashingEmbedder(16))


def _assert_purged(db: Path, plain: State) -> None:
    assert _marks(db) == []
    with _open(db) as index:
        assert index.check() == []
    assert _observed(db).content() == plain.content()


@pytest.fixture
def plain(quick_path: Path) -> State:
    """What an index shows that never had the document."""
    return _observed(_build(quick_path / "plain", with_secret=False))


@pytest.fixture
def db(quick_path: Path) -> Path:
    """An index with the document in all its generations, closed."""
    return _build(quick_path / "secret", with_secret=True)


@pytest.mark.req("D-13")
def test_nothing_of_a_purged_document_is_left(db: Path, plain: State) -> None:
    with _open(db) as index:
        vectors = int(shell_lines(db, "SELECT count(*) FROM vector")[0])
        report = index.purge(SECRET_ID)
        assert report.documents == (("notes", SECRET_ID),)
        assert (report.generation, report.versions) == (5, 2)
        assert report.vectors >= 2
        assert int(shell_lines(db, "SELECT count(*) FROM vector")[0]) == vectors - report.vectors
        assert report.returning == (("notes", SECRET_ID),)
        assert _marks(db) == []  # also while the index is open
    _assert_purged(db, plain)
    counts = "SELECT documents FROM generation WHERE is_kept = 1 AND generation > 0"
    assert set(shell_lines(db, counts)) == {"7"}
    with _open(db) as index:
        assert index.rollback(2).is_published
        assert index.check() == []
        assert not index.search(f"tapir{MARK}text", mode="lexical").hits


@pytest.mark.req("D-13", "A-17")
def test_a_document_that_is_only_removed_and_collected_leaves_traces(db: Path) -> None:
    """The control: without a purge its bytes are found."""
    (db.parent.parent / "documents" / SECRET_ID).unlink()
    with _open(db) as index:
        index.refresh()
        index.collect(Retention(generations=1, vector_days=0))
        index.compact()
    assert _marks(db)


@pytest.mark.req("D-13")
def test_a_document_of_the_past_is_purged_from_it(db: Path, plain: State) -> None:
    folder = db.parent.parent / "documents"
    (folder / SECRET_ID).unlink()
    with _open(db) as index:
        index.refresh()
        index.refresh(verify=True)
        generation = index.status().generation
        report = index.purge(SECRET_ID)
        assert (report.generation, report.versions, report.returning) == (generation, 2, ())
    _assert_purged(db, plain)


@pytest.mark.req("D-13")
def test_a_document_of_a_removed_source_and_a_hosts_are_purged_by_path(
    db: Path, plain: State
) -> None:
    secret = Document(
        f"id{MARK}",
        SECRET,
        title=f"Koala{MARK}",
        path=f"jackal{MARK}.md",
        tags=(f"ibis{MARK}",),
        uri=f"x://{MARK}",
        metadata={f"hyena{MARK}": f"gecko{MARK}"},
        type_name="md",
    )
    with _open(db) as index:
        index.purge(SECRET_ID)
        index.upsert("host", [secret])
        index.upsert("gone", [secret])
        index.remove_source("gone")
        with pytest.raises(UnknownDocumentError, match="more than one document"):
            index.purge(f"jackal{MARK}.md")
        first = index.purge(f"jackal{MARK}.md", source="gone")
        assert first.same_text == (("host", f"id{MARK}"),)
        assert index.search(f"Koala{MARK}", mode="semantic").hits
        assert _marks(db)
        index.purge(f"jackal{MARK}.md", source="host")
    _assert_purged(db, plain)


@pytest.mark.req("D-13")
def test_a_refused_document_and_one_in_an_unfinished_build_are_purged(
    db: Path, plain: State
) -> None:
    folder = db.parent.parent / "documents"
    with _open(db) as index:
        index.purge(SECRET_ID)
    (folder / SECRET_ID).unlink()
    (folder / f"refused{MARK}.md").write_bytes(b"\x89PNG\0\0")

    def refresh() -> None:
        (folder / f"staged{MARK}.md").write_text(SECRET)
        with _open(db) as index:
            index.refresh()

    assert any(_is_staged_at(db, refresh, number) for number in range(20, 200))
    (folder / f"staged{MARK}.md").unlink()
    with _open(db) as index:
        index.purge(f"staged{MARK}.md")
        index.refresh()
        assert index.refused()
        assert _marks(db)
        report = index.purge(f"refused{MARK}.md")
        assert (report.versions, report.documents) == (0, (("notes", f"refused{MARK}.md"),))
        assert _marks(db) == []


def _is_staged_at(db: Path, refresh: Callable[[], object], number: int) -> bool:
    assert killed_at_statement(FaultPlan(number), refresh)
    staged = f"SELECT count(*) FROM document_version WHERE document_id = 'staged{MARK}.md'"
    return shell_lines(db, staged) == ["1"]


@pytest.mark.req("D-13")
def test_what_another_document_uses_stays(db: Path) -> None:
    folder = db.parent.parent / "documents"
    (folder / "copy.md").write_text(SECRET + f"\nnumbat{MARK}more\n", encoding="utf-8")
    with _open(db) as index:
        index.refresh()
        report = index.purge(SECRET_ID)
        assert report.same_text == (("notes", "copy.md"),)
        hits = index.search(f"tapir{MARK}text", mode="hybrid").hits
        assert [hit.document_id for hit in hits][:1] == ["copy.md"]
        assert hits[0].semantic_score is not None
        assert index.check() == []
        index.purge("copy.md")
    assert _marks(db) == []


@pytest.mark.req("D-13")
def test_an_open_index_searches_an_earlier_generation_as_the_purge_left_it(db: Path) -> None:
    with _open(db) as index, _open(db) as other:
        before = index.search(QUERIES[0], mode="semantic", at=2, limit=100)
        other.purge(SECRET_ID)
        after = index.search(QUERIES[0], mode="semantic", at=2, limit=100)
    left = [hit.document_id for hit in before.hits if hit.document_id != SECRET_ID]
    assert len(left) < len(before.hits)
    assert [hit.document_id for hit in after.hits] == left


@pytest.mark.req("D-13")
def test_a_held_generation_is_not_purged_behind_its_reader(db: Path, plain: State) -> None:
    before = _observed(db)
    with _open(db) as index:
        hold = index._file.hold(2)
        with pytest.raises(LockedError, match="held by a reader; nothing is purged"):
            index.purge(SECRET_ID)
        assert _observed(db) == before
        threading.Timer(0.4, hold.release).start()
        assert index.purge(SECRET_ID, wait_s=20).versions == 2
    _assert_purged(db, plain)


@pytest.mark.req("D-13")
def test_a_purge_is_not_finished_while_a_reader_needs_the_file(db: Path, plain: State) -> None:
    with _open(db) as index:
        with index._file.reading(is_new=True):
            with pytest.raises(LockedError, match="not finished"):
                index.purge(SECRET_ID)
            assert not index.search(f"tapir{MARK}text", mode="lexical").hits
        assert _marks(db)
        # Whatever it is asked for, the next one finishes; so does one that is asked for nothing.
        with pytest.raises(UnknownDocumentError):
            index.get(SECRET_ID)
        assert index.purge(()).documents == ()
        with pytest.raises(UnknownDocumentError):
            index.purge(SECRET_ID)
        with pytest.raises(UnknownDocumentError):
            index.purge(())
    _assert_purged(db, plain)


@pytest.mark.req("D-13")
def test_a_damaged_text_is_not_said_to_be_purged(db: Path) -> None:
    where = f"body LIKE '%numbat{MARK}%'"
    shell_lines(db, f"UPDATE content_piece SET body = body || 'x' WHERE {where}", writes=True)
    with _open(db) as index, pytest.raises(CorruptIndexError, match="not finished"):
        index.purge(SECRET_ID)
    assert _marks(db)


def _purge(db: Path) -> None:
    with _open(db) as index:
        index.purge(SECRET_ID)


def _is_unfinished(db: Path) -> bool:
    return shell_lines(db, "SELECT 1 FROM setting WHERE name = 'unfinished_purge'") == ["1"]


def _durable_steps(db: Path) -> list[int]:
    with faulty_writer(FaultPlan()) as plan:
        _purge(db)
    steps, before = [], 0
    for statement in plan.statements:
        steps.append(before)
        before += statement == "COMMIT" or "wal_checkpoint" in statement or "VACUUM" in statement
    return steps


@pytest.mark.req("D-13", "A-14")
def test_a_purge_killed_at_any_statement_is_finished_by_the_next(
    db: Path, plain: State, quick_path: Path
) -> None:
    before = _observed(db)
    steps = _durable_steps(copy_index(db, quick_path / "copies" / "0"))
    completed: set[int] = set()
    old = new = 0
    for number in range(1, 1_000):
        copy = copy_index(db, quick_path / "copies" / str(number))
        if not killed_at_statement(FaultPlan(number), lambda copy=copy: _purge(copy)):  # type: ignore[misc]  # a bound default
            break
        if steps[number - 1] in completed:
            continue
        completed.add(steps[number - 1])
        seen = _observed(copy)
        if seen == before:
            old += 1
        else:
            new += 1
            assert seen.content() == plain.content()
        with _open(copy) as index:
            assert index.check() == []
            if seen == before or _is_unfinished(copy):
                index.purge(SECRET_ID if seen == before else ())
        _assert_purged(copy, plain)
    else:
        pytest.fail("it never passed")
    assert old > 0
    assert new > 5


@pytest.mark.req("D-13")
def test_a_purge_that_fails_anywhere_never_says_that_it_is_done(db: Path, quick_path: Path) -> None:
    failed = 0
    for number in range(1, 1_000):
        copy = copy_index(db, quick_path / "copies" / str(number))
        error: Exception | None = None
        with _open(copy) as index, faulty_writer(FaultPlan(number)) as plan:
            try:
                index.purge(SECRET_ID)
            except SqlindexError as exc:
                error = exc
        if error is None:
            assert _marks(copy) == [], plan.statements[-1]
        if not plan.has_fired:
            break
        failed += error is not None
    else:
        pytest.fail("it never passed")
    assert failed > 50


@pytest.mark.req("D-13")
def test_the_command_asks_and_says_what_comes_back(db: Path) -> None:
    unconfirmed = sqlindex("purge", SECRET_ID, "--db", db)
    assert unconfirmed.code == 2
    assert "--yes" in unconfirmed.err
    assert_told(sqlindex("purge", "nothing.md", "--yes", "--db", db), 3, "nothing.md")
    (db.parent / "index.db.schema5.bak").write_text("an earlier copy")
    done = sqlindex("purge", SECRET_ID, "--yes", "--db", db)
    assert done.code == 0, done.err
    assert f"{SECRET_ID} is still in the folder of notes" in done.err
    assert "index.db.schema5.bak is an earlier copy" in done.err
    assert _marks(db) == []
    assert sqlindex("refresh", "--drop-vectors", "--db", db).code == 0
    assert _marks(db)
    again = sqlindex("purge", SECRET_ID, "--yes", "--db", db, "--json")
    assert again.json["documents"] == [["notes", SECRET_ID]]
    assert again.json["returning"] == [["notes", SECRET_ID]]
