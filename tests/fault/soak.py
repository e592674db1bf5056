"""Readers and writers beside each other for a while: every answer belongs to one published state.

Four readers (lexical, semantic, hybrid, overlapping), two writers (one waits for the other, one
gives up) and a status loop; as processes, as threads of one process, or as forked children. One more
reader can be frozen inside its read transaction.

`python -m tests.fault.soak --seconds 300 [--frozen-seconds N] [--variant NAME] [--json]`
`python -m tests.fault.soak --generations 1000 [--json]`
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sqlindex import Index
from sqlindex.errors import LockedError
from sqlindex.model.requests import MODES, Mode
from sqlindex.sources.memory import Document
from sqlindex.store.connection import IndexFile
from sqlindex.store.driver import sqlite_version
from sqlindex.testing import HashingEmbedder
from tests.faults import clean_environment, wait_until

PAGES = 12
LOG_LIMIT_BYTES = 64_000_000

Variant = Literal["processes", "threads", "fork"]
ROLES = (
    ("write", "a"),
    ("write", "b"),
    ("read", "lexical"),
    ("read", "semantic"),
    ("read", "hybrid"),
    ("read", "lexical"),
    ("status", ""),
)
"""What runs beside each other; writer `a` waits for the other, `b` gives up and tries again."""


def pages(stamp: str) -> list[Document]:
    """One state: every page carries the same stamp."""
    return [
        Document(f"page{n}.md", f"# Page {n}\n\ncommon word, stamp {stamp}\n", type_name="md")
        for n in range(PAGES)
    ]


def assert_one_state(texts: list[str]) -> str:
    """The one stamp of an answer: fails on a mixture and on a missing page."""
    stamps = {text.rsplit(" ", 1)[1].strip() for text in texts}
    assert len(texts) == PAGES, f"{len(texts)} pages"
    assert len(stamps) == 1, f"a mixture of {sorted(stamps)}"
    return stamps.pop()


def open_index(db: Path, *, create: bool = False) -> Index:
    """The index as every role opens it."""
    return Index.open(db, create=create, embedder=HashingEmbedder(16))


def play(index: Index, role: str, name: str, seconds: float) -> dict[str, Any]:
    """Read or write until the time is over; what was seen or published, by generation."""
    if role == "write":
        return _write(index, name, seconds)
    if role == "status":
        return _status(index, seconds)
    (mode,) = (known for known in MODES if known == name)
    return _read(index, mode, seconds)


def _write(index: Index, name: str, seconds: float) -> dict[str, Any]:
    published: dict[str, str] = {}
    locked, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        stamp = f"{name}{len(published)}"
        try:
            report = index.upsert("pages", pages(stamp), wait_s=30 if name == "a" else 0)
        except LockedError:
            locked += 1
            time.sleep(0.005)
            continue
        published[str(report.generation)] = stamp
    return {"published": published, "locked": locked}


def _read(index: Index, mode: Mode, seconds: float) -> dict[str, Any]:
    seen: dict[str, str] = {}
    reads, last, slowest_s, end = 0, 0, 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.monotonic()
        result = index.search("common word", mode=mode, limit=100)
        slowest_s = max(slowest_s, time.monotonic() - started)
        stamp = assert_one_state([hit.text for hit in result.hits])
        assert seen.setdefault(str(result.generation), stamp) == stamp
        assert result.generation >= last, (result.generation, last)
        last, reads = result.generation, reads + 1
    return {"seen": seen, "reads": reads, "slowest_s": slowest_s}


def _status(index: Index, seconds: float) -> dict[str, Any]:
    reads, last, end = 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        status = index.status()
        assert status.documents == PAGES, status
        assert status.generation >= last, (status.generation, last)
        last, reads = status.generation, reads + 1
    return {"seen": {}, "reads": reads, "slowest_s": 0.0}


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run did.

    Attributes:
        publishes, reads, locked: how often; `locked` counts refusals of the writer that gives up.
        longest_log: bytes of the longest log seen; without and with the frozen reader.
        last_log: bytes of the log at the end.
        slowest_read_s: the longest search.
    """

    variant: Variant
    seconds: float
    publishes: int
    reads: int
    locked: int
    longest_log: int
    longest_log_frozen: int
    last_log: int
    slowest_read_s: float


def soak(db: Path, seconds: float, *, variant: Variant, frozen_s: float = 0) -> Figures:
    """Run all roles on a new index.

    Args:
        db: where to make it.
        frozen_s: for how long one more reader is stopped inside its read transaction, from a fifth
            of the time on.

    Raises:
        AssertionError: an answer was mixed, went back, was of no published state, or a role failed.
    """
    with open_index(db, create=True) as index:
        index.upsert("pages", pages("start"))
    log = Path(f"{db}-wal")
    longest = {False: 0, True: 0}
    with ExitStack() as stack:
        frozen = stack.enter_context(_holder(db)) if frozen_s else None
        run = {"processes": _processes, "threads": _threads, "fork": _forks}[variant]
        results = stack.enter_context(run(db, seconds))
        started = time.monotonic()
        is_frozen = False
        while time.monotonic() < started + seconds:
            since = time.monotonic() - started
            if frozen is not None and is_frozen != (0 <= since - seconds / 5 < frozen_s):
                is_frozen = not is_frozen
                frozen.send_signal(signal.SIGSTOP if is_frozen else signal.SIGCONT)
                if not is_frozen:
                    out, err = frozen.communicate("go\n", timeout=30)
                    assert out == "whole\n", err
                    frozen = None
            longest[is_frozen] = max(longest[is_frozen], log.stat().st_size)
            time.sleep(0.02)
        played = results()
    written = [result for result in played if "published" in result]
    read = [result for result in played if "seen" in result]
    judge(written, read)
    with open_index(db) as index:
        assert index.check() == []
        index.upsert("pages", pages("end"))
        assert index.status().documents == PAGES
    return Figures(
        variant,
        seconds,
        sum(len(writer["published"]) for writer in written),
        sum(reader["reads"] for reader in read),
        sum(writer["locked"] for writer in written),
        longest[False],
        longest[True],
        log.stat().st_size,
        round(max(reader["slowest_s"] for reader in read), 3),
    )


def judge(written: list[dict[str, Any]], read: list[dict[str, Any]]) -> None:
    """Every generation was published once, and readers saw nothing else."""
    stamp_by_generation = {"1": "start"}
    for writer in written:
        assert writer["published"] or writer["locked"]
        assert stamp_by_generation.keys().isdisjoint(writer["published"])
        stamp_by_generation.update(writer["published"])
    assert len(stamp_by_generation) == max(map(int, stamp_by_generation))
    for reader in read:
        assert reader["reads"] > 0
        for generation, stamp in reader["seen"].items():
            assert stamp == stamp_by_generation[generation]


Results = Callable[[], list[dict[str, Any]]]

_ROLE = """
import json, sys
from pathlib import Path
from tests.fault.soak import open_index, play
db, role, name, seconds = sys.argv[1:]
with open_index(Path(db)) as index:
    print(json.dumps(play(index, role, name, float(seconds))))
"""

_HOLDER = """
import sys
from pathlib import Path
from sqlindex.store.connection import IndexFile
file = IndexFile.open(Path(sys.argv[1]), make=False, busy_timeout_ms=1_000)
texts = "SELECT piece_id, body FROM content_piece ORDER BY piece_id"
with file.reading() as connection:
    before = connection.execute(texts).fetchall()
    print("reading", flush=True)
    sys.stdin.readline()
    assert connection.execute(texts).fetchall() == before
print("whole")
"""


def _start(source: str, *words: object) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join((root, os.environ.get("PYTHONPATH", "")))
    return subprocess.Popen(
        [sys.executable, "-c", source, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment({"PYTHONPATH": path}),
    )


@contextmanager
def _holder(db: Path) -> Iterator[subprocess.Popen[str]]:
    """A process inside a read transaction."""
    process = _start(_HOLDER, db)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def _processes(db: Path, seconds: float) -> Iterator[Results]:
    started = [_start(_ROLE, db, role, name, seconds) for role, name in ROLES]

    def results() -> list[dict[str, Any]]:
        found = []
        for process in started:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            found.append(json.loads(out))
        return found

    try:
        yield results
    finally:
        for process in started:
            process.kill()
            process.communicate()


@contextmanager
def _threads(db: Path, seconds: float) -> Iterator[Results]:
    found: list[dict[str, Any]] = []
    errors: list[BaseException] = []

    def run(role: str, name: str) -> None:
        try:
            found.append(play(index, role, name, seconds))
        except BaseException as exc:  # a thread's, reported by its starter
            errors.append(exc)

    def results() -> list[dict[str, Any]]:
        for thread in threads:
            thread.join()
        assert errors == []
        return found

    with open_index(db) as index:
        threads = [threading.Thread(target=run, args=role) for role in ROLES]
        for thread in threads:
            thread.start()
        yield results
        results()


@contextmanager
def _forks(db: Path, seconds: float) -> Iterator[Results]:
    """Children forked from a process that has the index open and has searched it."""
    with open_index(db) as index, tempfile.TemporaryDirectory() as folder:
        assert index.search("common word").hits
        children: dict[int, Path] = {}
        for number, (role, name) in enumerate(ROLES):
            answer = Path(folder) / str(number)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    answer.write_text(json.dumps(play(index, role, name, seconds)))
                    code = 0
                finally:
                    os._exit(code)
            children[child] = answer

        def results() -> list[dict[str, Any]]:
            found = []
            for child, answer in children.items():
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                found.append(json.loads(answer.read_text()))
            return found

        yield results


def publish_many(db: Path, generations: int) -> dict[str, Any]:
    """Publish small generations while four readers overlap without a gap; figures of the log."""
    file_stack = ExitStack()
    with open_index(db, create=True) as index, file_stack:
        index.upsert("pages", pages("start"))
        file = IndexFile.open(db, make=False, busy_timeout_ms=1_000)
        file_stack.callback(file.close)
        stop, reads, errors = threading.Event(), [0] * 4, list[BaseException]()

        def overlap(number: int) -> None:
            try:
                with ExitStack() as all_held:
                    held = all_held.enter_context(ExitStack())
                    held.enter_context(file.reading())
                    while not stop.is_set():
                        following = all_held.enter_context(ExitStack())
                        following.enter_context(file.reading())
                        time.sleep(0.003)
                        held.close()
                        held, reads[number] = following, reads[number] + 1
            except BaseException as exc:  # a thread's, reported by its starter
                errors.append(exc)

        readers = [threading.Thread(target=overlap, args=(number,)) for number in range(4)]
        for reader in readers:
            reader.start()
        started, longest, log = time.monotonic(), 0, Path(f"{db}-wal")
        try:
            for number in range(generations):
                index.upsert("pages", pages(str(number)))
                longest = max(longest, log.stat().st_size)
            wait_until(lambda: bool(errors) or all(reads))
        finally:
            stop.set()
            for reader in readers:
                reader.join()
        assert errors == []
        assert index.check() == []
        return {
            "generations": generations,
            "reads": sum(reads),
            "longest_log": longest,
            "seconds": round(time.monotonic() - started, 1),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak by hand; figures on stdout; 1 if something was wrong or the log too long."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.soak")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--frozen-seconds", type=float, default=0)
    parser.add_argument("--variant", choices=get_args(Variant), default="processes")
    parser.add_argument("--generations", type=int, default=0, help="publish so many instead")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "index.db"
        if options.generations:
            figures = publish_many(db, options.generations)
        else:
            done = soak(
                db, options.seconds, variant=options.variant, frozen_s=options.frozen_seconds
            )
            figures = asdict(done)
    figures["sqlite"] = sqlite_version
    if options.json:
        print(json.dumps(figures))
    else:
        for key, value in figures.items():
            print(f"{key}: {value}")
    return 1 if figures["longest_log"] > LOG_LIMIT_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
