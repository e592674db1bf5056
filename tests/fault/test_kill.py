"""`kill -9` of a refresh at random moments: one whole generation, and the next refresh completes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlindex.testing import HashingEmbedder
from tests.fault.kills import (
    POINTS,
    QUERIES,
    Killing,
    at_point,
    cli,
    kill_often,
    prepare,
    with_vectors,
)
from tests.faults import copy_index, folder_in_memory, observe, sqlindex

SEED = 20_261_130


@pytest.fixture(scope="module")
def killing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killing]:
    with folder_in_memory(tmp_path_factory.mktemp("kill")) as place:
        yield prepare(place, cli, None)


@pytest.mark.req("A-14", "A-30", "D-4")
def test_a_killed_command_leaves_one_whole_generation_at_every_moment(killing: Killing) -> None:
    hit = kill_often(killing, 30, random.Random(SEED), most=60)
    assert hit["before"] >= 10, hit
    # Between publish and end lie few milliseconds: a run that just ended counts as behind it.
    assert hit["after"] + hit["done"] >= 1, hit


@pytest.mark.req("A-14", "A-30", "D-4")
@pytest.mark.parametrize("point", POINTS)
def test_a_command_killed_at_a_named_point_leaves_the_state_of_that_point(
    killing: Killing, point: str
) -> None:
    assert killing.attempt(60, at_point(point)) == POINTS[point][2]


@pytest.mark.req("A-14", "A-30", "D-4")
def test_a_killed_refresh_with_vectors_and_a_staged_table_leaves_one_whole_generation(
    tmp_path: Path,
) -> None:
    with folder_in_memory(tmp_path) as place:
        killing = prepare(place, with_vectors, HashingEmbedder(16))
        hit = kill_often(killing, 16, random.Random(SEED), most=40)
    assert hit["before"] >= 5, hit
    # Between publish and end lie few milliseconds: a run that just ended counts as behind it.
    assert hit["after"] + hit["done"] >= 1, hit


@pytest.mark.req("A-14")
def test_the_oracle_notices_a_command_that_publishes_half(killing: Killing) -> None:
    half = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("UPDATE document_version SET died = (SELECT generation + 1 FROM head) WHERE version_id < 4")
connection.commit()
"""
    with pytest.raises(AssertionError):
        killing.attempt(60, lambda db: (sys.executable, "-c", half, str(db)))


@pytest.mark.req("A-15", "A-30")
def test_the_lock_of_a_killed_writer_is_free_at_once(killing: Killing, tmp_path: Path) -> None:
    db = copy_index(killing.before_db, tmp_path / "killed")
    lock = db.with_name(db.name + "-lock")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(db)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holding\n"
        refused = sqlindex("refresh", "--db", db, "--json")
        assert refused.code == 4
        assert f"process {holder.pid} " in json.loads(refused.out)["error"]["message"]
        holder.kill()
        holder.wait()
    assert f"process {holder.pid} " in lock.read_text()
    assert sqlindex("refresh", "--db", db).code == 0
    assert observe(db, QUERIES) == killing.after


HOLDER = """
import sys, time
from pathlib import Path
from sqlindex.store.lock import WriterLock
lock = WriterLock(Path(sys.argv[1]))
lock.acquire("test")
print("holding", flush=True)
time.sleep(60)
"""
