"""Readers beside a writer: what eight of them answer together, against one alone."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from bench.child import run_child
from bench.data import Texts
from bench.figures import Figure, at_most, median_of, reported
from bench.machine import ROOT
from sqlindex.errors import SqlindexError
from sqlindex.index import Index
from sqlindex.sources.memory import Document

DEFAULT_CHUNKS = 100_000
READERS = 8
ROUNDS = 7
ROUND_S = 1.0
PAUSE_S = 0.02
LIMIT = 0.8
QUERIES = 40


class Reader:
    """A process that searches as fast as it can, a second at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self) -> None:
        """Let it search for one round."""
        _stream(self._process.stdin).write("go\n")
        _stream(self._process.stdin).flush()

    def answers(self) -> tuple[int, list[str]]:
        """How many answers it got in the round, and what went wrong."""
        count, errors = json.loads(_stream(self._process.stdout).readline())
        return count, errors


class Publisher:
    """Publishes one changed document of four chunks every 20 ms while it runs."""

    def __init__(self, index: Index, texts: Texts) -> None:
        self._index, self._texts = index, texts
        self.published = 0
        self.errors: list[str] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Publish in a thread until the block ends."""
        stop = threading.Event()
        thread = threading.Thread(target=self._publish, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _publish(self, stop: threading.Event) -> None:
        while not stop.wait(PAUSE_S):
            parts = (f"# Part {part}\n\n{self._texts.text()}" for part in range(4))
            document = Document(f"{self.published % 1_000:07}", "\n\n".join(parts), type_name="md")
            try:
                self._index.upsert("texts", [document])
            except SqlindexError as exc:
                self.errors.append(str(exc))
            self.published += 1


def run(n: int | None) -> Iterator[Figure]:
    """Measure a lexical index of `n` chunks (100,000 by default), four to a document."""
    chunks = n or DEFAULT_CHUNKS
    texts = Texts()
    alone: list[float] = []
    together: list[float] = []
    errors: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as folder, ExitStack() as stack:
        path = Path(folder) / "index.db"
        run_child("first_publish", path, str(chunks // 4))
        index = stack.enter_context(Index.open(path))
        readers = stack.enter_context(_readers(path))
        publisher = Publisher(index, texts)
        for turn in range(ROUNDS + 1):
            count, wrong = _round(readers[:1])
            errors.extend(wrong)
            with publisher.running():
                count_together, more_wrong = _round(readers)
            errors.extend(more_wrong)
            if turn > 0:  # the first one fills caches
                alone.append(count / ROUND_S)
                together.append(count_together / ROUND_S)
        longest_log_mb = Path(f"{path}-wal").stat().st_size / 1e6
        errors.extend(publisher.errors)
        faults = len(index.check(quick=True))
    one = statistics.median(alone)
    yield median_of("concurrency.one_reader", alone, "answers/s", chunks)
    yield median_of("concurrency.eight_readers_and_writer", together, "answers/s", chunks)
    yield Figure(
        figure="concurrency.eight_to_one",
        value=statistics.median(together) / one,
        unit="ratio",
        n=chunks,
        limit=LIMIT,
        sense=">=",
        baseline=one,
    )
    yield reported("concurrency.publishes", publisher.published, "publishes", chunks)
    yield reported("concurrency.log_at_end", longest_log_mb, "MB", chunks)
    yield at_most("concurrency.errors", len(errors) + faults, "errors", chunks, 0)


def _round(readers: Sequence[Reader]) -> tuple[int, list[str]]:
    for reader in readers:
        reader.start()
    counts, errors = 0, []
    for reader in readers:
        count, wrong = reader.answers()
        counts += count
        errors.extend(wrong)
    return counts, errors


@contextmanager
def _readers(path: Path) -> Iterator[list[Reader]]:
    command = [sys.executable, "-m", "bench.bench_concurrency", str(path)]
    processes = [
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(READERS)
    ]
    try:
        yield [Reader(process) for process in processes]
    finally:
        for process in processes:
            _stream(process.stdin).close()
            process.wait()
            _stream(process.stdout).close()


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _read(path: str) -> None:
    """The reader's process: on each line of input it searches and reads for one round."""
    queries = [Texts().query() for _ in range(QUERIES)]
    with Index.open(path) as index:
        for _ in sys.stdin:
            answers, errors = 0, []
            end = time.monotonic() + ROUND_S
            while time.monotonic() < end:
                try:
                    result = index.search(queries[answers % QUERIES], mode="lexical")
                    index.get(result.hits[0].document_id)
                except SqlindexError as exc:
                    errors.append(str(exc))
                answers += 2
            print(json.dumps((answers, errors)), flush=True)


if __name__ == "__main__":
    _read(sys.argv[1])
