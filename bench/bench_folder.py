"""A folder of many small files: memory, an unchanged refresh, one file by its path."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.bench_index import RACY_S, ROUNDS
from bench.child import run_child
from bench.figures import Figure, at_most, reported
from sqlindex.index import Index

FILES = 20_000
FILES_PER_FOLDER = 100
PEAK_LIMIT_MIB = 200
UNCHANGED_LIMIT_S = 2.0
ONE_PATH_LIMIT_MS = 100.0


def run(n: int | None) -> Iterator[Figure]:
    """Measure on `n` files of three lines, 100 to a folder; 20,000 by default.

    The limits of time are for 20,000 files; that of memory is for any number.
    """
    count = n or FILES
    with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as folder:
        base = Path(folder).resolve()
        tree, index_path = base / "tree", base / "index.db"
        for number in range(count):
            write_file(file_of(tree, number), number)
        time.sleep(RACY_S)
        first = run_child("refresh", index_path, tree)
        yield reported("folder.first.files_per_s", count / first["task_s"], "files/s", count)
        yield at_most("folder.first.peak", first["peak_mib"], "MiB", count, PEAK_LIMIT_MIB)
        # The first reading may have been too soon after the writing to be trusted.
        run_child("refresh", index_path, tree)
        unchanged, bare = [], []
        for _ in range(ROUNDS):
            unchanged.append(run_child("refresh", index_path, tree))
            bare.append(run_child("stat", tree))
        is_limited = count == FILES
        yield Figure(
            figure="folder.unchanged",
            value=statistics.median(m["task_s"] for m in unchanged),
            unit="s",
            n=count,
            limit=UNCHANGED_LIMIT_S if is_limited else None,
            sense="<=" if is_limited else None,
            baseline=statistics.median(m["task_s"] for m in bare),
            repeats=tuple(m["task_s"] for m in unchanged),
        )
        yield at_most(
            "folder.unchanged.peak",
            max(m["peak_mib"] for m in unchanged),
            "MiB",
            count,
            PEAK_LIMIT_MIB,
        )
        wrong = sum(m["unchanged"] != count or m["generation"] != 1 for m in unchanged)
        yield at_most("folder.unchanged.violations", wrong, "violations", count, 0)
        yield from _one_path(index_path, tree, count, is_limited=is_limited)


def file_of(tree: Path, number: int) -> Path:
    """Path of a file by its number."""
    return tree / f"{number // FILES_PER_FOLDER:05}" / f"{number % FILES_PER_FOLDER:02}.md"


def write_file(path: Path, number: int) -> None:
    """A heading and a sentence."""
    os.makedirs(path.parent, exist_ok=True)
    path.write_text(f"# Kapitel {number}\n\nText über Pumpe {number} und ihr Ventil.\n", "utf-8")


def _one_path(index_path: Path, tree: Path, count: int, *, is_limited: bool) -> Iterator[Figure]:
    """Edit one file and refresh its path; beside it the same with a refresh of all."""
    by_path: list[float] = []
    by_all: list[float] = []
    wrong = 0
    with Index.open(index_path) as index:
        for turn in range(2 * ROUNDS):
            file = file_of(tree, turn * count // (2 * ROUNDS))
            with file.open("a", encoding="utf-8") as text:
                text.write(f"Zeile {turn}.\n")
            started = time.perf_counter()
            report = index.refresh(paths=[file] if turn % 2 else None)
            (by_path if turn % 2 else by_all).append((time.perf_counter() - started) * 1000)
            wrong += not (report.is_published and report.changes.count("changed") == 1)
    yield Figure(
        figure="folder.one_path",
        value=statistics.median(by_path),
        unit="ms",
        n=count,
        limit=ONE_PATH_LIMIT_MS if is_limited else None,
        sense="<=" if is_limited else None,
        baseline=statistics.median(by_all),
        repeats=tuple(by_path),
    )
    yield at_most("folder.one_path.violations", wrong, "violations", count, 0)
