"""A disk that is full or fails at the n-th write, sync or truncation of every operation."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlindex.errors import StorageError
from sqlindex.store.driver import driver_name
from tests.fault.disk import calls_of, fail_each, faults_of
from tests.fault.operations import OPERATIONS, REFRESH, STAGED, Operation, look, rehearse
from tests.fault.vfs import FaultAt
from tests.faults import copy_index, folder_in_memory

# apsw tells of a failure a second time when a copy that failed is put away.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

STRIDE = 24


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    with folder_in_memory(tmp_path) as folder:
        yield folder


@pytest.mark.own_sqlite
@pytest.mark.req("A-14", "A-30", "D-4")
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_failing_disk_leaves_one_whole_generation(operation: Operation, quick_path: Path) -> None:
    rehearsal = rehearse(operation, quick_path)
    tally = fail_each(rehearsal, faults_of(calls_of(rehearsal), STRIDE))
    assert tally.messages == []
    # Every fault was met; some of them after the work was done, when the log is copied.
    assert tally.faults == tally.old + tally.new > 0
    assert tally.raised > 0


@pytest.mark.own_sqlite
@pytest.mark.req("A-14")
def test_the_oracle_notices_a_disk_that_loses_writes(quick_path: Path) -> None:
    rehearsal = rehearse(REFRESH, quick_path)
    calls = calls_of(rehearsal)
    tally = fail_each(rehearsal, (FaultAt(number, "lost") for number in range(1, calls, 9)))
    assert tally.bad > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system that is soon full."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.needs_root
@pytest.mark.req("A-14", "A-30", "D-4")
def test_a_really_full_disk_leaves_the_old_generation_and_room_again_completes(
    small_disk: Path, quick_path: Path
) -> None:
    rehearsal = rehearse(STAGED, quick_path)
    db = copy_index(rehearsal.before_db, small_disk / "index")
    ballast = small_disk / "ballast"
    messages: list[str] = []
    for free_bytes in range(0, 400_000, 32_768):
        ballast.unlink(missing_ok=True)
        room = os.statvfs(small_disk)
        size = room.f_bavail * room.f_frsize - free_bytes
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, size))
        try:
            rehearsal.run(db)
        except StorageError as exc:
            messages.append(str(exc))
            ballast.unlink()
            assert rehearsal.verify(db, completes=False) == rehearsal.before
        else:
            break
    ballast.unlink()
    assert len(messages) > 2
    # A driver without extended error codes cannot tell that there was no room for the `-shm` file.
    told = [m for m in messages if driver_name == "sqlite3" or "disk I/O error" not in m]
    assert len(told) > 1
    assert all("no space left" in message for message in told)
    assert look(db).content() == rehearsal.after.content()
    rehearsal.verify(db, (look(db),))
