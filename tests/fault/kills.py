"""Real `kill -9` of a refresh and its process group: at random moments and at named points.

`python -m tests.fault.kills --n 1000 [--seed N] [--jobs N] [--json]`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sqlindex import Index
from sqlindex.ports import Embedder
from sqlindex.store.driver import sqlite_version
from sqlindex.testing import HashingEmbedder
from tests.faults import (
    State,
    clean_environment,
    command_line,
    copy_index,
    folder_in_memory,
    observe,
    verify,
)

QUERIES = ("pump", "valve 17", "letter", "quartz 3")

WITH_VECTORS = """
import sys
from sqlindex import Index
from sqlindex.config import IndexConfig
from sqlindex.testing import HashingEmbedder
config = IndexConfig(documents_per_batch=8, embedding_batch=4, staged_fts_chunks=50)
with Index.open(sys.argv[1], embedder=HashingEmbedder(16), config=config) as index:
    index.refresh()
"""

POINTS = {
    "before the build begins": ("INTO build(", 0, "before"),
    "while documents are staged": ("INTO document_version(", 0, "before"),
    "after a staged batch": ("COMMIT", 1, "before"),
    "before removals are staged": ("INTO build_removes", 0, "before"),
    "before the head moves": ("UPDATE head SET", 0, "before"),
    "after the head moved, uncommitted": ("DELETE FROM build WHERE build_id", 0, "before"),
    "before the log is copied": ("PRAGMA wal_checkpoint(PASSIVE)", 0, "after"),
    "before the log is cut": ("PRAGMA wal_checkpoint(TRUNCATE)", 0, "after"),
}
"""Name → (part of the statement, how many of these come before, the state that must be left)."""

AT_A_POINT = """
import os, signal, sys
from sqlindex.cli.main import main
from sqlindex.store import driver
from tests.faults import FailingConnection, FaultPlan, connecting_by
db, part, skipped = sys.argv[1], sys.argv[2], int(sys.argv[3])
real = driver.connect

class Killing(FailingConnection):
    def __init__(self, inner, *, writes):
        super().__init__(inner, FaultPlan())
        self._writes = writes

    def _before(self, sql):
        global skipped
        if self._writes and part in " ".join(sql.split()):
            skipped -= 1
            if skipped < 0:
                os.killpg(0, signal.SIGKILL)

def connect(path, mode, **options):
    return Killing(real(path, mode, **options), writes=mode == "rw")

with connecting_by(connect):
    sys.exit(main(["refresh", "--db", db]))
"""

Command = Callable[[Path], Sequence[str]]
"""The words that refresh the index at a path."""


def cli(db: Path) -> Sequence[str]:
    """The program as people run it."""
    return command_line("refresh", "--db", db)


def with_vectors(db: Path) -> Sequence[str]:
    """A program with an embedder, small batches and a staged lexical table."""
    return (sys.executable, "-c", WITH_VECTORS, str(db))


def at_point(name: str) -> Command:
    """The program, in a process that kills its own group at a named point."""
    part, skipped, _ = POINTS[name]
    return lambda db: (sys.executable, "-c", AT_A_POINT, str(db), part, str(skipped))


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
        duration_s: how long one refresh took.
    """

    before_db: Path
    scratch: Path
    command: Command
    embedder: Embedder | None
    before: State
    after: State
    duration_s: float

    def look(self, db: Path) -> State:
        """The state that an index shows."""
        return observe(db, QUERIES, self.embedder)

    def attempt(self, delay_s: float, command: Command | None = None) -> str:
        """Kill after a delay and verify; `before`, `after` or `done`: where the kill hit, if it did.

        Args:
            command: instead of the usual one, for one that kills itself.
        """
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            db = copy_index(self.before_db, Path(folder) / "copy")
            was_killed = _kill_after((command or self.command)(db), delay_s)
            seen = verify(db, (self.before, self.after), self.look, self._complete)
        if not was_killed:
            return "done"
        return "before" if seen == self.before else "after"

    def _complete(self, db: Path, _: State) -> None:
        with Index.open(db, embedder=self.embedder) as index:
            index.refresh()
        assert self.look(db).content() == self.after.content()


def prepare(place: Path, command: Command, embedder: Embedder | None) -> Killing:
    """Make an index of 150 files, change the files, and time the refresh that will be killed."""
    folder, db, scratch = place / "documents", place / "before" / "index.db", place / "copies"
    for made in (folder, db.parent, scratch):
        made.mkdir()
    _write_first(folder)
    with Index.open(db, create=True, embedder=embedder) as index:
        index.add_source(folder)
        index.refresh()
    _change(folder)
    durations = []
    for attempt in range(3):
        after_db = copy_index(db, place / f"after{attempt}")
        started = time.monotonic()
        subprocess.run(command(after_db), check=True, capture_output=True, env=environment())
        durations.append(time.monotonic() - started)
    before, after = (observe(path, QUERIES, embedder) for path in (db, after_db))
    assert before.content() != after.content()
    return Killing(db, scratch, command, embedder, before, after, sorted(durations)[1])


def environment() -> dict[str, str]:
    """So that a program's process finds the tests too."""
    path = os.pathsep.join((str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")))
    return clean_environment({"PYTHONPATH": path})


def _kill_after(command: Sequence[str], delay_s: float) -> bool:
    """Start the command as its own process group and kill it; whether it was still running."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment(),
    )
    try:
        process.wait(delay_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    assert code in (0, -signal.SIGKILL), f"the command ended with {code}"
    return code == -signal.SIGKILL


def kill_often(killing: Killing, kills: int, chance: random.Random, *, most: int) -> dict[str, int]:
    """Spread kills over the run, then aim at the publish until both of its sides were hit.

    Args:
        most: how many are tried in all.
    """
    hit = {"before": 0, "after": 0, "done": 0}
    aim_s = killing.duration_s
    for number in range(most):
        if number < kills:
            # One moment in each of equal parts, so that no part of the run is left out.
            delay_s = killing.duration_s * (number + chance.random()) / kills
        elif hit["after"] or hit["done"] >= 5:
            break
        else:
            delay_s = aim_s * chance.uniform(0.95, 1.05)
        side = killing.attempt(delay_s)
        hit[side] += 1
        if number >= kills:
            # The machine may be slower or faster than when the run was measured.
            aim_s *= {"before": 1.1, "after": 1.0, "done": 0.92}[side]
    return hit


def _work(kills: int, seed: int, *, has_vectors: bool) -> dict[str, int]:
    with (
        tempfile.TemporaryDirectory() as otherwise,
        folder_in_memory(Path(otherwise)) as place,
    ):
        command, embedder = (with_vectors, HashingEmbedder(16)) if has_vectors else (cli, None)
        killing = prepare(place, command, embedder)
        hit = kill_often(killing, kills, random.Random(seed), most=kills + 20)
        for name, (_, _, left) in () if has_vectors else POINTS.items():
            side = killing.attempt(60, at_point(name))
            assert side == left, (name, side)
            hit[side] += 1
        return hit


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill often by hand; progress on stderr, a summary on stdout; 1 if an index was damaged."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.kills")
    parser.add_argument("--n", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    hit = {"before": 0, "after": 0, "done": 0}
    bad: list[str] = []
    round_ = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        while hit["before"] + hit["after"] < options.n and len(bad) < 20:
            share = max(10, min(40, (options.n - hit["before"] - hit["after"]) // 2))
            jobs = [
                pool.submit(_work, share, options.seed + round_ * 2 + at, has_vectors=bool(at))
                for at in range(2)
            ]
            round_ += 1
            for job in jobs:
                try:
                    for side, count in job.result().items():
                        hit[side] += count
                except AssertionError as exc:
                    bad.append(str(exc)[:500])
            print(f"{hit}, {len(bad)} bad, {time.monotonic() - started:.0f} s", file=sys.stderr)
    summary = {
        "kills": hit["before"] + hit["after"],
        "before_publish": hit["before"],
        "after_publish": hit["after"],
        "had_ended": hit["done"],
        "bad": len(bad),
        "seed": options.seed,
        "seconds": round(time.monotonic() - started, 1),
        "sqlite": sqlite_version,
        "messages": bad,
    }
    if options.json:
        print(json.dumps(summary))
    else:
        for key, value in summary.items():
            print(f"{key}: {value}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
