"""Refresh a folder of Markdown: first, unchanged, one file; and are the chunks true?"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.child import run_child
from bench.data import unpack_tree
from bench.fidelity import find_violations
from bench.figures import Figure, at_most, reported
from sqlindex.index import Index

ROUNDS = 7
BUDGET_S = 20.0
"""Rounds of the first refresh end early when they have taken this long: at full size it is one."""

MARKDOWN_IT_LIMIT = 2.0
PEAK_LIMIT_MIB = 200
UNCHANGED_LIMIT = 0.05
LIMITED_FROM = 400
"""Files; with fewer, the first refresh is so short that imports make up the ratio: no limit."""

RACY_S = 2.1
"""A file read within two seconds of its change must be read again to be known; nobody's files are
that new, so the first refresh waits."""


def run(n: int | None) -> Iterator[Figure]:
    """Measure on `n` files of docs-large, spread evenly; all of them by default."""
    with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as folder:
        base = Path(folder).resolve()
        tree = base / "tree"
        files = unpack_tree(tree, n)
        count = len(files)
        megabytes = sum(path.stat().st_size for path in files) / 1e6
        time.sleep(RACY_S)
        index_path, first, bare = _first_refreshes(base, tree)
        first_s = [measured["task_s"] for measured in first]
        bare_s = [measured["task_s"] for measured in bare]
        median_s = statistics.median(first_s)
        for name, amount, unit in (("files", count, "files/s"), ("megabytes", megabytes, "MB/s")):
            yield Figure(
                figure=f"index.first.{name}_per_s",
                value=amount / median_s,
                unit=unit,
                n=count,
                baseline=amount / statistics.median(bare_s),
                repeats=tuple(amount / seconds for seconds in first_s),
            )
        yield Figure(
            figure="index.first_to_markdown_it",
            value=median_s / statistics.median(bare_s),
            unit="ratio",
            n=count,
            limit=MARKDOWN_IT_LIMIT if count >= LIMITED_FROM else None,
            sense="<=" if count >= LIMITED_FROM else None,
            baseline=statistics.median(bare_s),
            repeats=tuple(ours / theirs for ours, theirs in zip(first_s, bare_s, strict=True)),
        )
        peak = max(m["peak_mib"] for m in first)
        yield at_most("index.first.peak", peak, "MiB", count, PEAK_LIMIT_MIB)
        yield reported("index.chunks", first[-1]["chunks"], "chunks", count)
        unchanged = [run_child("refresh", index_path, tree) for _ in range(ROUNDS)]
        unchanged_s = [measured["task_s"] for measured in unchanged]
        is_limited = count >= LIMITED_FROM
        yield Figure(
            figure="index.unchanged_to_first",
            value=statistics.median(unchanged_s) / median_s,
            unit="ratio",
            n=count,
            limit=UNCHANGED_LIMIT if is_limited else None,
            sense="<=" if is_limited else None,
            baseline=median_s,
            repeats=tuple(seconds / median_s for seconds in unchanged_s),
        )
        read_again = sum(m["unchanged"] != count or m["generation"] != 1 for m in unchanged)
        yield at_most("index.unchanged.violations", read_again, "violations", count, 0)
        found = find_violations(index_path, tree, files)
        for name, value in (
            ("text", found.text),
            ("lines", found.lines),
            ("uncovered", found.uncovered),
            ("documents", found.documents),
            ("hits", found.hits),
        ):
            yield at_most(f"index.fidelity.{name}", value, "violations", count, 0)
        yield from _one_edit(index_path, files)


def _first_refreshes(
    base: Path, tree: Path
) -> tuple[Path, list[dict[str, float]], list[dict[str, float]]]:
    """First refreshes and bare parses in turn, each in a fresh process; the last index."""
    first: list[dict[str, float]] = []
    bare: list[dict[str, float]] = []
    started = time.perf_counter()
    while len(first) < ROUNDS and (not first or time.perf_counter() - started < BUDGET_S):
        index_path = base / f"{len(first)}.db"
        first.append(run_child("refresh", index_path, tree))
        bare.append(run_child("markdown_it", tree))
    return index_path, first, bare


def _one_edit(index_path: Path, files: list[Path]) -> Iterator[Figure]:
    """Edit one file, plan, refresh; a different file each round."""
    plan_ms = []
    refresh_ms = []
    wrong = 0
    with Index.open(index_path) as index:
        for turn in range(ROUNDS):
            edited = files[turn * len(files) // ROUNDS]
            edited.write_bytes(edited.read_bytes() + f"\nOne more line, round {turn}.\n".encode())
            started = time.perf_counter()
            planned = index.plan()
            plan_ms.append((time.perf_counter() - started) * 1000)
            started = time.perf_counter()
            report = index.refresh()
            refresh_ms.append((time.perf_counter() - started) * 1000)
            is_right = planned == report.changes and planned.count("changed") == 1
            wrong += not (is_right and len(planned.documents) == 1 and report.is_published)
    for name, samples in (("plan", plan_ms), ("refresh", refresh_ms)):
        yield Figure(
            figure=f"index.one_edit.{name}",
            value=statistics.median(samples),
            unit="ms",
            n=len(files),
            repeats=tuple(samples),
        )
    yield at_most("index.one_edit.violations", wrong, "violations", len(files), 0)
