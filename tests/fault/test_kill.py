"""`kill -9` of a refresh at random moments: one whole generation, and the next refresh completes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from sqlindex import Index
from sqlindex.ports import Embedder
from sqlindex.testing import HashingEmbedder
from tests.faults import (
    State,
    assert_whole,
    clean_environment,
    command_line,
    copy_index,
    observe,
    sqlindex,
)

SEED = 20_261_130
KILLS = 30
MOST_KILLS = 60
"""More are tried until both sides of the publish were hit."""

QUERIES = ("pump", "valve 17", "letter", "quartz 3")

SCRIPT = """
import sys
from sqlindex import Index
from sqlindex.config import IndexConfig
from sqlindex.testing import HashingEmbedder
config = IndexConfig(documents_per_batch=8, embedding_batch=4, staged_fts_chunks=50)
with Index.open(sys.argv[1], embedder=HashingEmbedder(16), config=config) as index:
    index.refresh()
"""


def _write_first(folder: Path) -> None:
    for number in range(150):
        text = f"# Sheet {number}\n\nThe pump {number % 40} and valve {number}.\n"
        part = folder / f"part{number % 5}"
        part.mkdir(exist_ok=True)
        (part / f"sheet{number}.md").write_text(text, encoding="utf-8")


def _change(folder: Path) -> None:
    """Edits, renames, deletions and new files."""
    for number in range(0, 150, 2):
        path = folder / f"part{number % 5}" / f"sheet{number}.md"
        if number % 8 == 0:
            path.rename(path.with_name(f"letter{number}.md"))
        elif number % 8 == 2:
            path.unlink()
        else:
            path.write_text(f"# Sheet {number}\n\nNow a quartz {number % 7}.\n", encoding="utf-8")
    for number in range(40):
        (folder / f"new{number}.md").write_text(f"# Letter\n\nvalve {number}\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Killing:
    """What is killed, and the states before and after it.

    Attributes:
        before_db: the index before; every attempt has a copy of its own.
        command: the words that refresh the index at a path.
        duration_s: how long one refresh took.
    """

    before_db: Path
    scratch: Path
    command: Callable[[Path], Sequence[str]]
    embedder: Embedder | None
    before: State
    after: State
    duration_s: float


def _killing(
    tmp_path: Path, command: Callable[[Path], Sequence[str]], embedder: Embedder | None
) -> Killing:
    folder = tmp_path / "documents"
    folder.mkdir()
    _write_first(folder)
    db = tmp_path / "before" / "index.db"
    db.parent.mkdir()
    with Index.open(db, create=True, embedder=embedder) as index:
        index.add_source(folder)
        index.refresh()
    _change(folder)
    durations = []
    for attempt in range(3):
        after_db = copy_index(db, tmp_path / f"after{attempt}")
        started = time.monotonic()
        subprocess.run(command(after_db), check=True, capture_output=True, env=clean_environment())
        durations.append(time.monotonic() - started)
    before, after = (observe(path, QUERIES, embedder) for path in (db, after_db))
    assert before.content() != after.content()
    return Killing(
        db,
        tmp_path / "copies",
        command,
        embedder,
        before,
        after,
        sorted(durations)[len(durations) // 2],
    )


def _kill_after(command: Sequence[str], delay_s: float) -> bool:
    """Start the command as its own process group and kill it; whether it was still running."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=clean_environment(),
    )
    try:
        process.wait(delay_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def _attempt(killing: Killing, number: int, delay_s: float) -> str:
    """`before`, `after` or `done`: which side of the publish the kill hit, if any."""
    db = copy_index(killing.before_db, killing.scratch / str(number))
    was_killed = _kill_after(killing.command(db), delay_s)
    seen = observe(db, QUERIES, killing.embedder)
    assert_whole(seen, killing.before, killing.after)
    with Index.open(db, embedder=killing.embedder) as index:
        assert index.check() == []
        index.refresh()
        assert index.check() == []
    assert observe(db, QUERIES, killing.embedder).content() == killing.after.content()
    if not was_killed:
        return "done"
    return "before" if seen == killing.before else "after"


def _kill_often(killing: Killing) -> dict[str, int]:
    """Spread kills over the run, then aim at the publish until both of its sides were hit."""
    random_source = random.Random(SEED)
    hit = {"before": 0, "after": 0, "done": 0}
    aim_s = killing.duration_s
    for number in range(MOST_KILLS):
        if number < KILLS:
            # One moment in each of equal parts, so that no part of the run is left out.
            delay_s = killing.duration_s * (number + random_source.random()) / KILLS
        elif hit["after"] or hit["done"] >= 5:
            break
        else:
            delay_s = aim_s * random_source.uniform(0.95, 1.05)
        side = _attempt(killing, number, delay_s)
        hit[side] += 1
        if number >= KILLS:
            # The machine may be slower or faster than when the run was measured.
            aim_s *= {"before": 1.1, "after": 1.0, "done": 0.92}[side]
    return hit


@pytest.mark.req("A-14", "A-30", "D-4")
def test_a_killed_command_leaves_one_whole_generation_at_every_moment(tmp_path: Path) -> None:
    killing = _killing(tmp_path, lambda db: command_line("refresh", "--db", db), None)
    hit = _kill_often(killing)
    assert hit["before"] >= 10, hit
    # Between publish and end lie few milliseconds: a run that just ended counts as behind it.
    assert hit["after"] + hit["done"] >= 1, hit


@pytest.mark.req("A-14", "A-30", "D-4")
def test_a_killed_refresh_with_vectors_and_a_staged_table_leaves_one_whole_generation(
    tmp_path: Path,
) -> None:
    killing = _killing(
        tmp_path, lambda db: (sys.executable, "-c", SCRIPT, str(db)), HashingEmbedder(16)
    )
    hit = _kill_often(killing)
    assert hit["before"] >= 10, hit
    # Between publish and end lie few milliseconds: a run that just ended counts as behind it.
    assert hit["after"] + hit["done"] >= 1, hit


@pytest.mark.req("A-15", "A-30")
def test_the_lock_of_a_killed_writer_is_free_at_once(tmp_path: Path) -> None:
    killing = _killing(tmp_path, lambda db: command_line("refresh", "--db", db), None)
    db = copy_index(killing.before_db, killing.scratch / "killed")
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
