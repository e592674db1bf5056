"""A backup is one published state, whatever is written meanwhile, and is there whole or not at all."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sqlindex import Document, Index
from sqlindex.cancellation import CancelToken
from sqlindex.errors import (
    CancelledError,
    DuplicateError,
    LockedError,
    NotAnIndexError,
    StorageError,
    UsageError,
)
from sqlindex.indexing.report import Progress
from sqlindex.store import backup as backup_module
from sqlindex.store import driver
from sqlindex.store.connection import IndexFile
from sqlindex.testing import HashingEmbedder
from tests.faults import (
    KILLED,
    FaultPlan,
    assert_told,
    copy_index,
    killed_at_statement,
    observe,
    sqlindex,
)

QUERIES = ("pump", "edition")
STEP_PAGES = 4


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_COPY_STEP_PAGES", STEP_PAGES)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """An index with two generations, closed."""
    path = tmp_path / "index.db"
    with _open(path, create=True) as index:
        index.upsert("notes", _edition(1))
        index.upsert("notes", _edition(2))
    return path


def _open(path: Path, *, create: bool = False) -> Index:
    return Index.open(path, create=create, embedder=HashingEmbedder(16))


def _edition(number: int) -> list[Document]:
    body = " ".join(f"w{number}x{i}" for i in range(120))
    return [
        Document(f"{i}.md", f"# Pump {i}\n\nedition {number}\n\n{body} {i}\n", type_name="md")
        for i in range(12)
    ]


def _published(path: Path) -> object:
    return observe(path, QUERIES, HashingEmbedder(16))


def _leftovers(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("index.db"))


@pytest.mark.req("D-13")
def test_a_backup_is_the_generation_it_began_with_though_every_step_sees_a_publish(
    db: Path, tmp_path: Path
) -> None:
    before = _published(db)
    target = tmp_path / "copy.db"
    steps: list[Progress] = []
    with _open(db) as index:

        def publish(progress: Progress) -> None:
            steps.append(progress)
            index.upsert("notes", _edition(len(steps) + 2))

        report = index.backup(target, progress=publish)
        assert index.status().generation == 2 + len(steps)
        assert index.check() == []
    assert len(steps) > 5
    assert (report.generation, report.path) == (2, str(target))
    assert report.file_bytes == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert _leftovers(tmp_path) == ["copy.db"]
    assert _published(target) == before
    with _open(target) as copy:
        assert copy.check() == []
        assert copy.upsert("notes", _edition(9)).generation == 3


@pytest.mark.req("D-13")
def test_a_plain_copy_of_the_file_would_miss_what_is_in_the_log(db: Path, tmp_path: Path) -> None:
    with _open(db) as index, index._file.reading(is_new=True):  # keeps the log out of the file
        index.upsert("notes", _edition(3))
        # Not by this process: to close the file would drop its locks.
        subprocess.run(["cp", db, tmp_path / "plain.db"], check=True)
        index.backup(tmp_path / "copy.db")
    now = _published(db)
    assert _published(tmp_path / "copy.db") == now
    assert _is_other(tmp_path / "plain.db", now)


@pytest.mark.req("D-13")
def test_a_backup_with_an_unfinished_build_is_sound_and_can_be_refreshed(
    db: Path, tmp_path: Path
) -> None:
    def refresh() -> None:
        with _open(db) as index:
            index.upsert("notes", _edition(3))

    before = _published(db)
    for number in (30, 45):
        assert killed_at_statement(FaultPlan(number), refresh)
        target = tmp_path / f"copy{number}.db"
        with _open(db) as index:
            index.backup(target)
        assert _published(target) == before
        with _open(target) as copy:
            assert copy.check() == []
            assert copy.upsert("notes", _edition(3)).is_published
            assert copy.check() == []


@contextmanager
def _written_in_place(path: Path, *, replaces: bool = False) -> Iterator[Path]:
    path.touch()
    yield path


def _killed_at_step(db: Path, target: Path, number: int) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with _open(db) as index:
                steps = iter(range(1, 10_000))

                def die(_: Progress) -> None:
                    if next(steps) == number:
                        os._exit(KILLED)

                index.backup(target, progress=die)
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED)
    return code == KILLED


@pytest.mark.req("D-13")
def test_a_kill_at_any_step_leaves_no_half_backup_and_a_sound_index(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    target = folder / "copy.db"
    before = _published(db)
    kills = 0
    for number in range(1, 1_000):
        if not _killed_at_step(db, target, number):
            break
        kills += 1
        assert not target.exists()
    assert kills > 5
    assert _published(target) == before
    assert _published(db) == before
    with monkeypatch.context() as patch:  # the control: what is written in place is found half
        patch.setattr(backup_module, "new_file", _written_in_place)
        assert _killed_at_step(db, folder / "half.db", 2)
        assert (folder / "half.db").exists()


@pytest.mark.req("D-13")
def test_a_cancelled_backup_leaves_nothing(db: Path, tmp_path: Path) -> None:
    cancel = CancelToken()
    with _open(db) as index, pytest.raises(CancelledError):
        index.backup(tmp_path / "copy.db", cancel=cancel, progress=lambda _: cancel.cancel())
    assert _leftovers(tmp_path) == []


@pytest.mark.req("D-13")
def test_a_full_disk_is_told_and_leaves_nothing(db: Path, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with _open(db) as index:
                limit = db.stat().st_size // 2
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                try:
                    index.backup(tmp_path / "copy.db")
                except StorageError as exc:
                    code = 0 if "copy.db" in str(exc) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert _leftovers(tmp_path) == []


@pytest.mark.req("D-13")
def test_a_backup_never_takes_the_place_of_something_it_must_not(db: Path, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    (tmp_path / "link.db").symlink_to(db)
    (tmp_path / "same.db").hardlink_to(db)
    with _open(db) as index:
        index.backup(tmp_path / "used.db")
        cases: list[tuple[str, bool, type[Exception]]] = [
            ("index.db", True, UsageError),
            ("index.db-wal", True, UsageError),
            ("index.db-shm", True, UsageError),
            ("index.db-lock", True, UsageError),
            ("same.db", True, UsageError),
            ("link.db", True, UsageError),
            ("letter.txt", False, DuplicateError),
            ("letter.txt", True, NotAnIndexError),
            ("used.db", False, DuplicateError),
            ("missing/copy.db", False, StorageError),
        ]
        for name, force, error in cases:
            with pytest.raises(error):
                index.backup(tmp_path / name, force=force)
        with _open(tmp_path / "used.db") as used:
            assert used.search("pump").hits
            writing = IndexFile.open(tmp_path / "used.db", make=False, busy_timeout_ms=1_000)
            with writing.writing("holding"), pytest.raises(LockedError):
                index.backup(tmp_path / "used.db", force=True)
            writing.close()
            # A reader goes on, and sees the copy once it is whole.
            index.backup(tmp_path / "used.db", force=True)
            assert used.search("pump").hits
        index.upsert("notes", _edition(3))
        assert index.backup(tmp_path / "used.db", force=True).generation == 3
        assert index.check() == []
    assert (tmp_path / "letter.txt").read_text() == "dear"
    assert _published(tmp_path / "used.db") == _published(db)


@pytest.mark.req("D-13")
def test_an_old_log_beside_a_replaced_backup_is_not_read_into_the_new_one(
    db: Path, tmp_path: Path
) -> None:
    with _open(db) as index:
        index.backup(tmp_path / "first.db")
        index.upsert("notes", _edition(3))
    now = _published(db)

    def leave_a_log() -> None:
        with _open(tmp_path / "first.db") as copy:
            copy.upsert("notes", _edition(7))

    assert killed_at_statement(FaultPlan(40), leave_a_log)
    assert Path(f"{tmp_path / 'first.db'}-wal").stat().st_size > 0
    by_hand = copy_index(tmp_path / "first.db", tmp_path / "by_hand")
    with _open(db) as index:
        index.backup(tmp_path / "first.db", force=True)
    assert _published(tmp_path / "first.db") == now
    # The control: a file that is moved to the name of another keeps that one's log.
    os.replace(copy_index(db, tmp_path / "fresh"), by_hand)
    assert _is_other(by_hand, now)


def _is_other(path: Path, state: object) -> bool:
    try:
        return _published(path) != state
    except Exception:  # what two files mixed together give is anything
        return True


@pytest.mark.req("D-13")
def test_the_command_copies_the_index_and_tells_what_it_refuses(db: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    done = sqlindex("backup", target, "--db", db, "--json")
    assert done.code == 0, done.err
    assert (done.json["generation"], done.json["path"]) == (2, str(target))
    assert_told(sqlindex("backup", target, "--db", db), 2, "copy.db already", "--force")
    assert sqlindex("backup", target, "--db", db, "--force").err.startswith("generation 2 copied")
    assert_told(sqlindex("backup", db, "--db", db, "--force"), 2, "belongs to the index itself")
