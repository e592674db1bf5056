"""The n-th write, sync or truncation of an operation fails: a full or a failing disk.

`python -m tests.fault.disk --all [--operation NAME]… [--jobs N] [--json]` lets every call of every
operation fail, full and broken, once and from then on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Literal

import apsw

from sqlindex.errors import SqlindexError, StorageError
from sqlindex.store.driver import sqlite_version
from tests.fault.operations import OPERATIONS, Rehearsal, rehearse
from tests.fault.vfs import FailingVFS, FaultAt, over_apsw
from tests.faults import folder_in_memory

ERRORS: tuple[Literal["full", "io"], ...] = ("full", "io")
VARIANTS = tuple(product(ERRORS, (False, True)))
"""What fails, and whether it goes on failing."""


@dataclass(slots=True)
class Tally:
    """What a run verified.

    Attributes:
        faults: calls that were made to fail, each in a run of its own.
        raised: runs that ended with an error; the others had done their work before.
        old, new: runs that left the state before the operation, or the one after it.
        bad: runs that left something else, or raised a foreign exception.
        messages: of the first bad ones.
    """

    faults: int = 0
    raised: int = 0
    old: int = 0
    new: int = 0
    bad: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in ("faults", "raised", "old", "new", "bad"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.messages += other.messages


def calls_of(rehearsal: Rehearsal) -> int:
    """How many writes, syncs and truncations the operation makes."""
    vfs = FailingVFS(FaultAt(0))
    with over_apsw(vfs):
        rehearsal.run(rehearsal.copy("counted"))
    vfs.unregister()
    return vfs.count


def fail_each(rehearsal: Rehearsal, faults: Iterable[FaultAt]) -> Tally:
    """Run the operation once for each fault, and verify what it left."""
    tally = Tally()
    for fault in faults:
        db = rehearsal.copy("failed")
        try:
            _fail(rehearsal, db, fault, tally)
        except Exception as exc:  # whatever it is, the fault is a bad one
            tally.bad += 1
            name = rehearsal.operation.name
            tally.messages.append(f"{name}, {tuple(fault)}: {type(exc).__name__}: {exc}"[:500])
        for path in db.parent.iterdir():
            path.unlink()
        db.parent.rmdir()
    return tally


def _fail(rehearsal: Rehearsal, db: Path, fault: FaultAt, tally: Tally) -> None:
    vfs = FailingVFS(fault)
    error: SqlindexError | None = None
    with over_apsw(vfs):
        try:
            rehearsal.run(db)
        except SqlindexError as exc:
            error = exc
    vfs.unregister()
    assert vfs.failed, "the call never came"
    tally.faults += 1
    tally.raised += error is not None
    seen = rehearsal.verify(db)
    tally.old += seen == rehearsal.before
    tally.new += seen != rehearsal.before
    if error is None:
        assert seen == rehearsal.after, "it failed without a word"
    else:
        assert isinstance(error, StorageError), repr(error)


def faults_of(calls: int, stride: int, first: int = 1) -> Iterator[FaultAt]:
    """Every `stride`-th call in each of the variants, the variants at different calls."""
    for at, (error, persists) in enumerate(VARIANTS):
        start = first + at * max(1, stride // len(VARIANTS))
        yield from (FaultAt(number, error, persists) for number in range(start, calls + 1, stride))


def _work(name: str, stride: int) -> Tally:
    with (
        tempfile.TemporaryDirectory() as otherwise,
        folder_in_memory(Path(otherwise)) as folder,
    ):
        rehearsal = rehearse(OPERATIONS[name], folder)
        return fail_each(rehearsal, faults_of(calls_of(rehearsal), stride))


def main(arguments: Sequence[str] | None = None) -> int:
    """Let calls fail by hand; progress on stderr, a summary on stdout; 1 if anything was bad."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.disk")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="every call")
    which.add_argument("--stride", type=int, default=10, help="every n-th call")
    parser.add_argument("--operation", action="append", choices=sorted(OPERATIONS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    started, total = time.monotonic(), Tally()
    names = options.operation or sorted(OPERATIONS)
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = {
            name: pool.submit(_work, name, 1 if options.all else options.stride) for name in names
        }
        for name, job in jobs.items():
            tally = job.result()
            total.add(tally)
            print(f"{name}: {tally.faults} faults, {tally.bad} bad", file=sys.stderr)
    summary = {
        "operations": names,
        **{name: getattr(total, name) for name in ("faults", "raised", "old", "new", "bad")},
        "seconds": round(time.monotonic() - started, 1),
        "sqlite": sqlite_version,
        "run_with": apsw.sqlite_lib_version(),
        "messages": total.messages[:20],
    }
    if options.json:
        print(json.dumps(summary))
    else:
        for key, value in summary.items():
            print(f"{key}: {value}")
    return 1 if total.bad else 0


if __name__ == "__main__":
    sys.exit(main())
