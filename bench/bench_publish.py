"""Publish one changed document: the cost must follow the change, not the index."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.child import run_child
from bench.data import Texts
from bench.figures import Figure, at_most, median_of
from sqlindex.index import Index
from sqlindex.sources.memory import Document

DEFAULT_DOCUMENTS = 10_000
FACTOR = 10
ROUNDS = 25
RATIO_LIMIT = 2.0


def run(n: int | None) -> Iterator[Figure]:
    """Measure lexical indexes of `n` (10,000 by default) and of a tenth as many documents."""
    large = n or DEFAULT_DOCUMENTS
    sizes = (max(1, large // FACTOR), large)
    texts = Texts()
    samples_ms: dict[int, list[float]] = {size: [] for size in sizes}
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as folder, ExitStack() as stack:
        indexes = {}
        for size in sizes:
            index_path = Path(folder) / f"{size}.db"
            run_child("build", index_path, str(size))
            indexes[size] = stack.enter_context(Index.open(index_path))
        for turn in range(ROUNDS + 1):
            for size, index in indexes.items():
                document = Document(
                    f"{turn * size // (ROUNDS + 1):07}", f"round {turn} {texts.text()}"
                )
                started = time.perf_counter()
                report = index.upsert("texts", [document])
                elapsed_ms = (time.perf_counter() - started) * 1000
                is_right = report.is_published and report.changes.count("changed") == 1
                wrong += not is_right
                if turn > 0:  # the first one imports what publishing needs
                    samples_ms[size].append(elapsed_ms)
    for name, size in zip(("small", "large"), sizes, strict=True):
        yield median_of(f"publish.one_changed.{name}", samples_ms[size], "ms", size)
    small_ms, large_ms = (statistics.median(samples_ms[size]) for size in sizes)
    yield Figure(
        figure="publish.large_to_small",
        value=large_ms / small_ms,
        unit="ratio",
        n=large,
        limit=RATIO_LIMIT,
        sense="<=",
        baseline=small_ms,
    )
    yield at_most("publish.violations", wrong, "violations", large, 0)
