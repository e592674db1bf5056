"""Work that is measured in a process of its own: `python -m bench.child TASK ARGUMENT…`.

A fresh process has cold caches of ours and a peak memory of its own.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.machine import ROOT

_COMMON = "everywhere"
_ROUNDS = 7


def run_child(task: str, *arguments: str | Path) -> dict[str, float]:
    """Run a task in a fresh process; what it measured.

    Besides the task's own values: `task_s`, imports included and the interpreter's start left
    out, and `peak_mib`.
    """
    command = [sys.executable, "-m", "bench.child", task, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def main(task: str, arguments: list[str]) -> None:
    """Run one task here and print what it measured."""
    started = time.perf_counter()
    values = dict(_TASKS[task](*arguments))
    values["task_s"] = time.perf_counter() - started
    values["peak_mib"] = _peak_kib() / 1024
    print(json.dumps(values))


def _refresh(index_path: str, folder: str) -> Mapping[str, float]:
    """A lexical refresh of a folder; registers it the first time."""
    from sqlindex.index import Index

    with Index.open(index_path, create=True) as index:
        if not index.status().sources:
            index.add_source(folder, name="tree")
        report = index.refresh()
        chunks = index.status().chunks
    return {
        "chunks": chunks,
        "unchanged": report.changes.unchanged,
        "added": report.changes.count("added"),
        "generation": report.generation,
    }


def _markdown_it(folder: str) -> Mapping[str, float]:
    """Read and parse every Markdown file with bare markdown-it-py."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    files = 0
    for path in sorted(Path(folder).rglob("*.md")):
        parser.parse(path.read_bytes().decode())
        files += 1
    return {"files": files}


def _stat(folder: str) -> Mapping[str, float]:
    """Walk a folder and look at every file, as a refresh must at least."""
    files = 0
    for base, _, names in os.walk(folder):
        for name in names:
            os.lstat(os.path.join(base, name))
            files += 1
    return {"files": files}


def _build(index_path: str, chunks: str, width: str = "0") -> Mapping[str, float]:
    """An index of seeded texts, one chunk each, with hashed vectors of that width or none."""
    from bench.data import Texts
    from sqlindex.index import Index
    from sqlindex.sources.memory import Document
    from sqlindex.testing import HashingEmbedder

    texts = Texts()
    documents = [Document(f"{at:07}", texts.text()) for at in range(int(chunks))]
    embedder = HashingEmbedder(int(width)) if int(width) else None
    with Index.open(index_path, create=True, embedder=embedder) as index:
        index.upsert("texts", documents)
        return {"chunks": index.status().chunks}


def _first_publish(index_path: str, documents: str) -> Mapping[str, float]:
    """The first publish of documents of four chunks each: its transaction and the log of it."""
    from bench.bench_publish import observed
    from bench.data import Texts
    from sqlindex.index import Index
    from sqlindex.sources.memory import Document

    texts = Texts()
    given = (
        Document(
            f"{at:07}",
            "\n\n".join(f"# Part {part}\n\n{texts.text()}" for part in range(4)),
            type_name="md",
        )
        for at in range(int(documents))
    )
    with Index.open(index_path, create=True) as index, observed() as seen:
        index.upsert("texts", given)
        chunks = index.status().chunks
    assert chunks == 4 * int(documents), chunks
    return {
        "publish_s": seen.transaction_ms[-1] / 1_000,
        "log_mb": (seen.log_behind[-1] - seen.log_before[-1]) / 1e6,
    }


def _build_matching(index_path: str, chunks: str) -> Mapping[str, float]:
    """As `_build`, with 384-d vectors and one word that every text has."""
    from bench.data import Texts
    from sqlindex.index import Index
    from sqlindex.sources.memory import Document
    from sqlindex.testing import HashingEmbedder

    texts = Texts()
    documents = (Document(f"{at:07}", f"{_COMMON} {texts.text()}") for at in range(int(chunks)))
    with Index.open(index_path, create=True, embedder=HashingEmbedder(384)) as index:
        index.upsert("texts", documents)
        return {"chunks": index.status().chunks}


def _search_matching(index_path: str) -> Mapping[str, float]:
    """Median milliseconds of a search in each mode that every document matches, warm, ten hits."""
    from sqlindex.index import Index
    from sqlindex.model.requests import MODES
    from sqlindex.testing import HashingEmbedder

    found: dict[str, float] = {}
    with Index.open(index_path, embedder=HashingEmbedder(384)) as index:
        for mode in MODES:
            samples = []
            for _ in range(_ROUNDS + 1):
                started = time.perf_counter()
                assert index.search(_COMMON, mode=mode, limit=10).hits
                samples.append((time.perf_counter() - started) * 1_000)
            found[mode] = statistics.median(samples[1:])
    return found


def _search_cached(index_path: str) -> Mapping[str, float]:
    """The 95th percentile of hybrid searches of ten hits, warm, whose query vectors cost nothing."""
    from bench.data import Texts
    from sqlindex.evaluation.runs import percentile
    from sqlindex.index import Index
    from sqlindex.testing import HashingEmbedder

    texts = Texts()
    samples = []
    with Index.open(index_path, embedder=HashingEmbedder(384)) as index:
        for query in [texts.query() for _ in range(200)]:
            started = time.perf_counter()
            index.search(query, mode="hybrid", limit=10)
            samples.append((time.perf_counter() - started) * 1_000)
    return {"p95_ms": percentile(samples[1:], 95)}


def _gemm() -> Mapping[str, float]:
    """What one processor can do: 32-bit products of the shape of MiniLM's widest layer, one thread."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when numpy is imported
    import numpy as np

    random = np.random.default_rng(1)
    left, right = (random.random(shape, np.float32) for shape in ((600, 384), (384, 1536)))
    spent_ms = []
    for _ in range(60):
        before = time.process_time()
        left @ right
        spent_ms.append((time.process_time() - before) * 1000)
    return {"flop_per_ms": 2 * 600 * 384 * 1536 / statistics.median(spent_ms[5:])}


_TASKS: dict[str, Callable[..., Mapping[str, float]]] = {
    "refresh": _refresh,
    "markdown_it": _markdown_it,
    "stat": _stat,
    "build": _build,
    "first_publish": _first_publish,
    "build_matching": _build_matching,
    "search_matching": _search_matching,
    "search_cached": _search_cached,
    "gemm": _gemm,
}


def _peak_kib() -> float:
    """Peak resident memory of this process.

    The kernel lets `ru_maxrss` start at the parent's peak (it survives exec); `VmHWM` does not.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1])
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if sys.platform == "darwin" else peak


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
