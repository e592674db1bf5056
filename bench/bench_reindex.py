"""Bulk reindex: what a kill costs, memory of all processes, two workers against one, searches beside it."""

from __future__ import annotations

import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data import Texts
from bench.figures import Figure, at_most, reported
from bench.machine import ROOT
from sqlindex.config import IndexConfig
from sqlindex.embedding.staged import find_staged
from sqlindex.evaluation.runs import percentile
from sqlindex.index import Index
from sqlindex.indexing.report import Phase, Progress
from sqlindex.model.layers import Layer
from sqlindex.testing import HashingEmbedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sqlindex.ports import Embedder

DEFAULT_CHUNKS = 100_000
PARTS = 20
"""Chunks of a document."""
WORKERS = 2
ROUNDS = 3
MODEL = "minilm"
MODEL_CHUNKS = 512
"""Enough to see how MiniLM scales, and as many batches for each of two workers."""
MEMORY_LIMIT_MIB = 400
SPEEDUP_LIMIT = 1.6
BESIDE_LIMIT = 1.5
IDLE_SEARCHES = 300
SEARCH_PAUSE_S = 0.02
SAMPLE_S = 0.05


class LoggingEmbedder(HashingEmbedder):
    """Hashed words; names every input in a file, by its digest, before it embeds it."""

    def __init__(self, log: Path) -> None:
        super().__init__(384)
        self._log = log

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed document texts; nothing of them is kept."""
        with self._log.open("ab") as log:
            log.write(b"".join(_digest(text) for text in texts))
        vectors = super().embed_documents(texts)
        self.document_inputs.clear()
        return vectors


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _digests(log: Path) -> list[bytes]:
    data = log.read_bytes() if log.exists() else b""
    return [data[at : at + 16] for at in range(0, len(data), 16)]


@dataclass(slots=True)
class Reindex:
    """A reindex in a process of its own, and the largest sum of memory of it and its workers."""

    process: subprocess.Popen[str]
    peak_mib: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def started(cls, task: str, path: Path, log: Path, workers: int) -> Reindex:
        """Begin; `task` is `all`, `chunks` or `model`."""
        command = [sys.executable, "-m", "bench.bench_reindex", task, path, log, workers]
        words = list(map(str, command))
        return cls(subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True))

    @property
    def is_running(self) -> bool:
        """Whether it runs; looks at its memory, too."""
        if self.process.poll() is not None:
            return False
        pids = [self.process.pid, *_children(self.process.pid)]
        self.peak_mib = max(self.peak_mib, sum(map(_mib, pids)))
        return True

    def wait(self) -> Reindex:
        """Let it end by itself."""
        while self.is_running:
            time.sleep(SAMPLE_S)
        assert self.process.stdout is not None
        self.seconds = json.loads(self.process.stdout.read())
        self.process.stdout.close()
        return self

    def kill(self) -> Reindex:
        """End it where it is."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:  # it has just ended
            continue
    return found


def _mib(pid: int) -> float:
    """Memory of a process; what several share counts once for all of them."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def run(n: int | None) -> Iterator[Figure]:
    """Measure an index of `n` chunks (100,000 by default) of Markdown, twenty to a file."""
    chunks = n or DEFAULT_CHUNKS
    with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as scratch:
        place = Path(scratch)
        folder, path, log = place / "files", place / "index.db", place / "log"
        texts = Texts()
        _write_files(folder, texts, chunks)
        built = Reindex.started("first", path, log, 0).wait()
        yield reported("reindex.first_refresh", built.seconds["all"], "s", chunks)
        log.unlink()
        yield from _killed_and_beside(path, log, texts, chunks)
        yield from _scaled("parse", "chunks", path, log, chunks)
        if find_staged(MODEL) is not None:
            few = min(chunks, MODEL_CHUNKS)
            _write_files(place / "few", texts, few)
            small = place / "few.db"
            Reindex.started("first-model", small, log, 0).wait()
            yield from _scaled("minilm", "model", small, log, few)


def _killed_and_beside(path: Path, log: Path, texts: Texts, chunks: int) -> Iterator[Figure]:
    """A reindex that is killed half-way, and the one that goes on, with searches beside them."""
    queries = [texts.query() for _ in range(40)]
    beside: list[float] = []
    with Index.open(path, embedder=HashingEmbedder(384)) as index:
        idle = [_search_ms(index, queries, at) for at in range(IDLE_SEARCHES + 1)][1:]
        killed = Reindex.started("all", path, log, WORKERS)
        while killed.is_running and log_length(log) < chunks // 2:
            beside.append(_search_ms(index, queries, len(beside)))
            time.sleep(SEARCH_PAUSE_S)
        killed.kill()
        resumed = Reindex.started("all", path, log, WORKERS)
        while resumed.is_running:
            beside.append(_search_ms(index, queries, len(beside)))
            time.sleep(SEARCH_PAUSE_S)
        resumed.wait()
        generation = index.status().generation
        faults = len(index.check(quick=True))
    digests = _digests(log)
    twice = len(digests) - len(set(digests))
    idle_p95, beside_p95 = percentile(idle, 95), percentile(beside, 95)
    batch = IndexConfig().embedding_batch
    yield at_most("reindex.embedded_twice", twice, "texts", chunks, WORKERS * batch)
    peak = max(killed.peak_mib, resumed.peak_mib)
    yield at_most("reindex.peak_of_all", peak, "MiB", chunks, MEMORY_LIMIT_MIB)
    yield reported("reindex.searches_beside", len(beside), "searches", chunks)
    yield Figure(
        figure="reindex.search_p95_beside",
        value=beside_p95 / idle_p95,
        unit="ratio",
        n=chunks,
        limit=BESIDE_LIMIT,
        sense="<=",
        baseline=idle_p95,
    )
    yield at_most("reindex.faults", faults + abs(generation - 2), "faults", chunks, 0)


def log_length(log: Path) -> int:
    """How many inputs the log names."""
    return log.stat().st_size // 16 if log.exists() else 0


def _search_ms(index: Index, queries: Sequence[str], at: int) -> float:
    started = time.perf_counter()
    index.search(queries[at % len(queries)], limit=10)
    return (time.perf_counter() - started) * 1_000


def _scaled(name: str, task: str, path: Path, log: Path, n: int) -> Iterator[Figure]:
    """One worker against two, by turns: the time of the phase that they share."""
    phase = "read" if task == "chunks" else "embed"
    seconds: dict[int, list[float]] = {1: [], WORKERS: []}
    for _ in range(ROUNDS):
        for workers, samples in seconds.items():
            samples.append(Reindex.started(task, path, log, workers).wait().seconds[phase])
    one, more = (statistics.median(samples) for samples in seconds.values())
    yield Figure(
        figure=f"reindex.{name}.one_worker",
        value=n / one,
        unit="chunks/s",
        n=n,
        repeats=tuple(n / s for s in seconds[1]),
    )
    yield Figure(
        figure=f"reindex.{name}.two_workers_to_one",
        value=one / more,
        unit="ratio",
        n=n,
        limit=SPEEDUP_LIMIT,
        sense=">=",
        baseline=n / one,
        repeats=tuple(a / b for a, b in zip(*seconds.values(), strict=True)),
    )


def _write_files(folder: Path, texts: Texts, chunks: int) -> None:
    """Markdown as people write it: headings, links, emphasis, lists, code; a part is one chunk."""
    folder.mkdir()
    for at in range(0, chunks, PARTS):
        parts = []
        for part in range(at, min(at + PARTS, chunks)):
            words = texts.text().split()
            words[::9] = [f"**{word}**" for word in words[::9]]
            words[4::11] = [f"[{word}](../{word}.md#{word})" for word in words[4::11]]
            words[7::13] = [f"`{word}_{part}`" for word in words[7::13]]
            lines = [" ".join(words[i : i + 10]) for i in range(0, len(words), 10)]
            listed = "\n".join(f"- {line}" for line in lines[5:])
            parts.append(f"## Part {part}\n\n" + "\n".join(lines[:5]) + f"\n\n{listed}\n")
        (folder / f"{at:07}.md").write_text("\n".join(parts), encoding="utf-8")


def _child(task: str, path: str, log: str, workers: str) -> None:
    """Refresh or reindex here, and print the seconds of each phase and of all."""
    from bench.bench_reindex import LoggingEmbedder as Logging  # to be found by the workers, too

    embedder: Embedder | None = Logging(Path(log))
    if task.endswith("model"):
        from sqlindex.embedding.local import LocalEmbedder
        from sqlindex.embedding.staged import require_staged

        embedder = LocalEmbedder(require_staged(MODEL))
    begun: dict[Phase, float] = {}
    ended: dict[Phase, float] = {}

    def note(progress: Progress) -> None:
        # A phase ends where the next one begins.
        now = time.perf_counter()
        ended.update(dict.fromkeys(begun.keys() - ended.keys() - {progress.phase}, now))
        begun.setdefault(progress.phase, now)

    started = time.perf_counter()
    with Index.open(path, create=True, embedder=embedder) as index:
        if task.startswith("first"):
            index.add_source(Path(path).with_name("few" if task.endswith("model") else "files"))
            index.refresh(progress=note)
        else:
            layers: dict[str, list[Layer] | None] = {"chunks": ["chunks"], "model": ["vectors"]}
            index.reindex(layers.get(task), workers=int(workers), progress=note)
    seconds = {phase: ended.get(phase, begun[phase]) - begun[phase] for phase in begun}
    print(json.dumps({**seconds, "all": time.perf_counter() - started}))


if __name__ == "__main__":
    _child(*sys.argv[1:])
