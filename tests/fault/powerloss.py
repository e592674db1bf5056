"""Simulated power loss: what any moment of an operation may leave on the disk is opened and verified.

A recording file system notes every write, sync, truncation, creation and deletion. A crash state is
made from a prefix of them: of each file everything before its last sync is there; of what came later
none, all, or a random part of its 512-byte sectors; creations and deletions whose folder was not
synced may have happened or not. The shared-memory file never survives. A publish is acknowledged
when the commit that moved the head, or the whole call, has returned: then it must be there.

`python -m tests.fault.powerloss --states 100000 [--seed N] [--operation NAME]… [--completes-every N]
[--jobs N] [--json]`
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import apsw

from sqlindex.store.driver import sqlite_version
from tests.fault.operations import OPERATIONS, Operation, Rehearsal, documents, look, rehearse
from tests.fault.vfs import CountingVFS, over_apsw
from tests.faults import State, folder_in_memory

SECTOR_BYTES = 512
SUFFIXES = ("", "-wal", "-journal")
MORE = {"afterwards.md": "# Afterwards\n\nA pump that came later.\n"}


class Event(NamedTuple):
    """Something that happened to a file, or an acknowledgement.

    Attributes:
        suffix: which file: of the index's name.
        inode: number of the file that had that name at the time.
        number: offset, size, number of the acknowledged state, or whether the folder was synced.
    """

    kind: Literal["write", "truncate", "sync", "create", "delete", "acknowledged"]
    suffix: str = ""
    inode: int = 0
    number: int = 0
    data: bytes = b""


class RecordingVFS(CountingVFS):
    """Notes what happens to the files of one index.

    Attributes:
        base: contents before, by inode number.
        names: inode number by suffix, before.
        events: in order.
    """

    def __init__(self, db: Path) -> None:
        super().__init__()
        self._db = str(db)
        self._files: dict[str, int] = {}
        self.base: dict[int, bytes] = {}
        self.events: list[Event] = []
        self.is_published = False
        for suffix in SUFFIXES:
            path = Path(self._db + suffix)
            if path.exists():
                self.base[len(self.base)] = path.read_bytes()
                self._files[suffix] = len(self.base) - 1
        self.names = dict(self._files)
        self._inodes = len(self.base)

    def before(self, call: str, path: str) -> bool:
        suffix = self._suffix(path)
        if call == "create" and suffix is not None:
            self._files[suffix] = self._inodes
            self._inodes += 1
            self.events.append(Event("create", suffix, self._files[suffix]))
        return True

    def after_write(self, path: str, data: bytes, offset: int) -> None:
        self._note("write", path, offset, data)

    def after_truncate(self, path: str, size: int) -> None:
        self._note("truncate", path, size)

    def after_sync(self, path: str) -> None:
        self._note("sync", path)

    def after_delete(self, path: str, is_synced: bool) -> None:
        self._note("delete", path, int(is_synced))

    def published(self) -> None:
        if (
            not self.is_published
        ):  # a repair may point the head to another lexical table more than once
            self.is_published = True
            self.acknowledge_next()

    def acknowledge_next(self) -> None:
        """The next state is acknowledged."""
        number = sum(event.kind == "acknowledged" for event in self.events) + 1
        self.events.append(Event("acknowledged", number=number))

    def _note(
        self,
        kind: Literal["write", "truncate", "sync", "delete"],
        path: str,
        number: int = 0,
        data: bytes = b"",
    ) -> None:
        suffix = self._suffix(path)
        if suffix is not None and suffix in self._files:
            self.events.append(Event(kind, suffix, self._files[suffix], number, data))

    def _suffix(self, path: str) -> str | None:
        suffix = path.removeprefix(self._db)
        return suffix if path.startswith(self._db) and suffix in SUFFIXES else None


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorded operation, and one more publish after it, with the states they lead through."""

    rehearsal: Rehearsal
    base: dict[int, bytes]
    names: dict[str, int]
    events: list[Event]
    states: tuple[State, ...]


def record(operation: Operation, place: Path, *, synchronous: str | None = None) -> Trace:
    """Run an operation and one more publish over the recording file system.

    Args:
        place: an empty folder.
        synchronous: what every transaction gets instead of what the store asks for.
    """
    rehearsal = rehearse(operation, place)
    db = rehearsal.copy("recorded")
    vfs = RecordingVFS(db)
    states = [rehearsal.before]
    for step in (operation.run, lambda index, _: index.upsert("afterwards", documents(MORE))):
        vfs.is_published = False
        with over_apsw(vfs, synchronous=synchronous), operation.open(db) as index:
            step(index, rehearsal.folder)
        if not vfs.is_published:
            vfs.acknowledge_next()
        states.append(look(db))
    vfs.unregister()
    assert states[1].content() == rehearsal.after.content()
    return Trace(rehearsal, vfs.base, vfs.names, vfs.events, tuple(states))


Policy = Literal["none", "all", "random"]


class Crash(NamedTuple):
    """A moment, and what of the unsynced survives."""

    at: int
    policy: Policy
    seed: int = 0


def crashes(trace: Trace, seed: int) -> Iterator[Crash]:
    """All moments with none and all of the unsynced, in random order, then random parts for ever."""
    chance = random.Random(seed)
    moments = range(len(trace.events) + 1)
    both: list[Crash] = [Crash(at, policy) for at in moments for policy in ("none", "all")]
    chance.shuffle(both)
    yield from both
    while True:
        yield Crash(chance.choice(moments), "random", chance.getrandbits(32))


def left_by(trace: Trace, crash: Crash) -> tuple[dict[str, bytes], int]:
    """(contents by suffix, number of the last acknowledged state) after a crash."""
    events = trace.events[: crash.at]
    chance = random.Random(crash.seed)
    last_sync = {event.inode: at for at, event in enumerate(events) if event.kind == "sync"}
    contents = {inode: bytearray(data) for inode, data in trace.base.items()}
    acknowledged = 0
    for at, event in enumerate(events):
        if event.kind == "acknowledged":
            acknowledged = event.number
        elif event.kind in ("write", "truncate"):
            content = contents.setdefault(event.inode, bytearray())
            if at < last_sync.get(event.inode, -1) or crash.policy == "all":
                _apply(content, event)
            elif crash.policy == "random":
                _apply_part(content, event, chance)
    names = dict(trace.names)
    for event in _folder_events(events, crash, chance):
        if event.kind == "create":
            names[event.suffix] = event.inode
        else:
            names.pop(event.suffix, None)
    return {suffix: bytes(contents.get(n, b"")) for suffix, n in names.items()}, acknowledged


def _folder_events(events: Sequence[Event], crash: Crash, chance: random.Random) -> list[Event]:
    """The creations and deletions that are on the disk: the folder keeps their order."""
    changes: list[Event] = []
    synced = 0
    created: set[int] = set()
    for event in events:
        if event.kind in ("create", "delete"):
            changes.append(event)
            if event.kind == "create":
                created.add(event.inode)
            elif event.number:
                synced = len(changes)
        elif event.kind == "sync" and event.inode in created:
            # SQLite syncs the folder with the first sync of a file that it made.
            created.discard(event.inode)
            synced = len(changes)
    kept = {"none": synced, "all": len(changes), "random": chance.randint(synced, len(changes))}
    return changes[: kept[crash.policy]]


def _apply(content: bytearray, event: Event) -> None:
    if event.kind == "truncate":
        del content[event.number :]
        content.extend(bytes(event.number - len(content)))
        return
    content.extend(bytes(max(0, event.number - len(content))))
    content[event.number : event.number + len(event.data)] = event.data


def _apply_part(content: bytearray, event: Event, chance: random.Random) -> None:
    """Nothing, all, or some sectors of an unsynced write."""
    luck = chance.random()
    if luck < 1 / 3:
        return
    if luck < 2 / 3 or event.kind == "truncate":
        _apply(content, event)
        return
    at = 0
    while at < len(event.data):
        offset = event.number + at
        size = min(SECTOR_BYTES - offset % SECTOR_BYTES, len(event.data) - at)
        if chance.random() < 0.5:
            piece = event._replace(number=offset, data=event.data[at : at + size])
            _apply(content, piece)
        at += size


@dataclass(slots=True)
class Tally:
    """What a run verified.

    Attributes:
        states: distinct ones: the same bytes are verified once.
        bad: those that were damaged or had lost an acknowledged publish.
        old, new: those that showed the state before the operation, or a later one.
        messages: of the first bad ones.
    """

    states: int = 0
    bad: int = 0
    old: int = 0
    new: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.states += other.states
        self.bad += other.bad
        self.old += other.old
        self.new += other.new
        self.messages += other.messages


def examine(
    trace: Trace,
    count: int,
    seed: int,
    *,
    completes_every: int = 1,
    until_bad: bool = False,
    patience: int = 40,
) -> Tally:
    """Verify up to `count` distinct crash states of a trace.

    Args:
        completes_every: in every so many states the operation is run again: half of the time.
        until_bad: end at the first bad one.
        patience: how many random states in a row may be known already before it ends.
    """
    tally = Tally()
    known: set[bytes] = set()
    repeats = 0
    with tempfile.TemporaryDirectory(dir=trace.rehearsal.scratch) as scratch:
        for number, crash in enumerate(crashes(trace, seed)):
            files, acknowledged = left_by(trace, crash)
            digest = _digest(files, acknowledged)
            if digest in known:
                repeats += 1
                if crash.policy == "random" and repeats > patience:
                    break
                continue
            repeats = 0
            known.add(digest)
            folder = Path(scratch) / str(number)
            completes = tally.states % completes_every == 0
            _verify(trace, crash, files, acknowledged, folder, tally, completes=completes)
            if tally.states >= count or (until_bad and tally.bad):
                break
    return tally


def _digest(files: dict[str, bytes], acknowledged: int) -> bytes:
    digest = hashlib.blake2b(str(acknowledged).encode(), digest_size=16)
    for suffix, data in sorted(files.items()):
        digest.update(f"{suffix} {len(data)} ".encode() + data)
    return digest.digest()


def _verify(
    trace: Trace,
    crash: Crash,
    files: dict[str, bytes],
    acknowledged: int,
    folder: Path,
    tally: Tally,
    *,
    completes: bool,
) -> None:
    folder.mkdir()
    db = folder / "index.db"
    for suffix, data in files.items():
        Path(f"{db}{suffix}").write_bytes(data)
    if db.exists():
        db.chmod(0o600)
    tally.states += 1
    try:
        seen = trace.rehearsal.verify(db, trace.states[acknowledged:], completes=completes)
        tally.old += seen == trace.states[0]
        tally.new += seen != trace.states[0]
    except Exception as exc:  # whatever it is, the state is a bad one
        tally.bad += 1
        if len(tally.messages) < 5:
            name = trace.rehearsal.operation.name
            tally.messages.append(f"{name}, {tuple(crash)}: {type(exc).__name__}: {exc}"[:500])
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def _work(name: str, count: int, seed: int, completes_every: int) -> Tally:
    with (
        tempfile.TemporaryDirectory() as otherwise,
        folder_in_memory(Path(otherwise)) as folder,
    ):
        # A trace of its own each time: what the operation writes depends a little on the clock.
        trace = record(OPERATIONS[name], folder)
        return examine(trace, count, seed, completes_every=completes_every)


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify many states by hand; progress on stderr, a summary on stdout; 1 if any was bad."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.powerloss")
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--operation", action="append", choices=sorted(OPERATIONS))
    parser.add_argument(
        "--completes-every",
        type=int,
        default=10,
        help="run the operation again in every n-th state",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    names = options.operation or sorted(OPERATIONS)
    started, done, total = time.monotonic(), dict.fromkeys(names, 0), Tally()
    with ProcessPoolExecutor(options.jobs) as pool:
        round_ = 0
        while total.states < options.states:
            share = max(1, min(1_000, -(-(options.states - total.states) // len(names))))
            jobs = {
                name: pool.submit(
                    _work, name, share, options.seed + round_ * 1_000 + at, options.completes_every
                )
                for at, name in enumerate(names)
            }
            for name, job in jobs.items():
                tally = job.result()
                total.add(tally)
                done[name] += tally.states
                print(
                    f"{total.states} states, {total.bad} bad, {time.monotonic() - started:.0f} s, {name}",
                    file=sys.stderr,
                )
            round_ += 1
    summary = {
        "states": total.states,
        "bad": total.bad,
        "old": total.old,
        "new": total.new,
        "seed": options.seed,
        "completes_every": options.completes_every,
        "seconds": round(time.monotonic() - started, 1),
        "sqlite": sqlite_version,
        "recorded_with": apsw.sqlite_lib_version(),
        "by_operation": done,
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
