"""Publish, collect and roll back: the cost must follow the change, not the index."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.child import run_child
from bench.data import Texts
from bench.figures import Figure, at_most, median_of, reported
from sqlindex.cancellation import CancelToken
from sqlindex.config import Retention
from sqlindex.index import Index
from sqlindex.indexing import publishing
from sqlindex.sources.memory import Document
from sqlindex.store import driver
from sqlindex.store.collect import collect, put_retention
from sqlindex.store.connection import IndexFile
from sqlindex.store.writer import Writer
from sqlindex.testing import HashingEmbedder

DEFAULT_DOCUMENTS = 100_000
FACTOR = 10
ROUNDS = 25
COLLECTIONS = 7
DEAD_VERSIONS = 80
WIDTH = 384
KEEP_ALL = Retention(generations=10_000)

RATIO_LIMIT = 1.5
MEMBERSHIP_LIMIT = 0.02
LOG_LIMIT_KIB = 400
FIRST_LIMIT_S = 0.5
FIRST_LOG_LIMIT_MB = 16
COLLECT_LIMIT_MS = 20
ROLLBACK_LIMIT = 2.0
QUICK_LIMIT_S = 1.0


@dataclass
class Publishes:
    """What the commit points of the last refreshes took.

    Attributes:
        transaction_ms: the publishing transaction alone, its sync included.
        log_before, log_behind: bytes of the log when it began and when it had committed.
    """

    transaction_ms: list[float] = field(default_factory=list)
    log_before: list[int] = field(default_factory=list)
    log_behind: list[int] = field(default_factory=list)


@contextmanager
def observed() -> Iterator[Publishes]:
    """Time each publishing transaction within the block, and look at the log around it."""
    original: Callable[..., int] = publishing.publish  # type: ignore[attr-defined]  # as imported there
    seen = Publishes()

    def publish(writer: Any, *arguments: Any, **options: Any) -> int:
        seen.log_before.append(_size(f"{writer.path}-wal"))
        started = time.perf_counter()
        generation = original(writer, *arguments, **options)
        seen.transaction_ms.append((time.perf_counter() - started) * 1_000)
        seen.log_behind.append(_size(f"{writer.path}-wal"))
        return generation

    publishing.publish = publish  # type: ignore[attr-defined]  # as imported there
    try:
        yield seen
    finally:
        publishing.publish = original  # type: ignore[attr-defined]  # as imported there


@contextmanager
def unsynced() -> Iterator[None]:
    """Let publishes within the block not wait for the disk, as the copied membership does not.

    A sync takes as long whatever is published; without it the work is compared.
    """
    original = Writer.transaction

    def transaction(writer: Writer, *, durable: bool = False) -> Any:
        return original(writer)

    Writer.transaction = transaction  # type: ignore[assignment,method-assign]  # until the end of the block
    try:
        yield
    finally:
        Writer.transaction = original  # type: ignore[method-assign]  # as it was


def run(n: int | None) -> Iterator[Figure]:
    """Measure indexes of `n` documents (100,000 by default) and of a tenth, with vectors."""
    large = n or DEFAULT_DOCUMENTS
    sizes = {"small": max(1, large // FACTOR), "large": large}
    texts = Texts()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as folder, ExitStack() as stack:
        first = run_child("first_publish", Path(folder) / "first.db", str(large // 4))
        indexes = {}
        for name, size in sizes.items():
            path = Path(folder) / f"{name}.db"
            run_child("build", path, str(size), str(WIDTH))
            indexes[name] = stack.enter_context(Index.open(path, embedder=HashingEmbedder(WIDTH)))
            indexes[name].collect(KEEP_ALL)
        membership = stack.enter_context(_membership(Path(folder) / "membership.db", large))
        seen = {name: Publishes() for name in sizes}
        whole_ms: dict[str, list[float]] = {name: [] for name in sizes}
        rollback_ms: list[float] = []
        work_ms: list[float] = []
        copied_ms: list[float] = []
        for turn in range(ROUNDS + 1):
            for name, index in indexes.items():
                document = Document(
                    f"{turn * sizes[name] // (ROUNDS + 1):07}", f"round {turn} {texts.text()}"
                )
                with observed() as observation:
                    elapsed, report = _timed_ms(lambda: index.upsert("texts", [document]))  # noqa: B023 - called at once
                wrong += not (report.is_published and report.changes.count("changed") == 1)
                if turn > 0:  # the first one imports what publishing needs
                    whole_ms[name].append(elapsed)
                    for part in ("transaction_ms", "log_before", "log_behind"):
                        getattr(seen[name], part).extend(getattr(observation, part))
            elapsed, rolled = _timed_ms(lambda: indexes["large"].rollback(report.generation - 1))  # noqa: B023 - called at once
            wrong += not (rolled.is_published and rolled.changed == 1)
            if turn > 0:
                rollback_ms.append(elapsed)
            document = Document(f"{turn:07}", f"unsynced {turn} {texts.text()}")
            with unsynced(), observed() as observation:
                indexes["large"].upsert("texts", [document])
            work_ms.extend(observation.transaction_ms)
            copied_ms.append(membership(turn))
        collected_ms = []
        for turn in range(COLLECTIONS):
            dead = min(DEAD_VERSIONS, large)
            elapsed, versions = _collection(indexes["large"], texts, turn, dead)
            collected_ms.append(elapsed)
            wrong += versions != dead
        wrong += sum(len(index.check(quick=True)) for index in indexes.values())
        quick_s = _timed_ms(lambda: indexes["large"].check(quick=True))[0] / 1_000
    yield from _figures(sizes, seen, whole_ms, rollback_ms, work_ms, copied_ms, collected_ms)
    for figure, value, unit, limit in (
        ("publish.first.transaction", first["publish_s"], "s", FIRST_LIMIT_S),
        ("publish.first.log", first["log_mb"], "MB", FIRST_LOG_LIMIT_MB),
        ("check.quick", quick_s, "s", QUICK_LIMIT_S),
    ):
        yield (
            at_most(figure, value, unit, large, limit)
            if _is_full(large)
            else reported(figure, value, unit, large)
        )
    yield at_most("publish.violations", wrong, "violations", large, 0)


def _figures(
    sizes: dict[str, int],
    seen: dict[str, Publishes],
    whole_ms: dict[str, list[float]],
    rollback_ms: list[float],
    work_ms: list[float],
    copied_ms: list[float],
    collected_ms: list[float],
) -> Iterator[Figure]:
    large = sizes["large"]
    for name, size in sizes.items():
        yield median_of(f"publish.one_changed.{name}", whole_ms[name], "ms", size)
        yield median_of(f"publish.transaction.{name}", seen[name].transaction_ms, "ms", size)
    yield _ratio("publish.large_to_small", whole_ms["large"], whole_ms["small"], large, RATIO_LIMIT)
    yield _ratio(
        "publish.transaction.large_to_small",
        seen["large"].transaction_ms,
        seen["small"].transaction_ms,
        large,
        RATIO_LIMIT,
    )
    yield _ratio(
        "publish.unsynced.to_copied_membership",
        work_ms,
        copied_ms,
        large,
        MEMBERSHIP_LIMIT if _is_full(large) else None,
    )
    for name, size in sizes.items():
        kib = sorted(behind / 1_024 for behind in seen[name].log_behind)
        yield median_of(f"publish.log.{name}", kib, "KiB", size, limit=LOG_LIMIT_KIB)
        yield Figure(
            figure=f"publish.log.{name}.p95", value=kib[int(0.95 * len(kib))], unit="KiB", n=size
        )
    yield median_of("collect.80_dead_versions", collected_ms, "ms", large, limit=COLLECT_LIMIT_MS)
    yield _ratio("rollback.to_publish", rollback_ms, whole_ms["large"], large, ROLLBACK_LIMIT)


def _is_full(documents: int) -> bool:
    """Whether limits that are meant for the full size hold."""
    return documents >= DEFAULT_DOCUMENTS


def _ratio(
    name: str, measured: list[float], baseline: list[float], n: int, limit: float | None
) -> Figure:
    """The ratio of two medians."""
    below = statistics.median(baseline)
    return Figure(
        figure=name,
        value=statistics.median(measured) / below,
        unit="ratio",
        n=n,
        limit=limit,
        sense=None if limit is None else "<=",
        baseline=below,
    )


@contextmanager
def _membership(path: Path, documents: int) -> Iterator[Callable[[int], float]]:
    """Publishing as a table of every generation's documents would do it; milliseconds for one."""
    path.touch()
    connection = driver.connect(path, "rw")
    for statement in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=NORMAL",
        "PRAGMA wal_autocheckpoint=0",
        """CREATE TABLE membership(generation INTEGER, version_id INTEGER,
             PRIMARY KEY(generation, version_id)) WITHOUT ROWID""",
        "CREATE TABLE head(generation INTEGER)",
        "INSERT INTO head VALUES(0)",
        f"""INSERT INTO membership
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {documents})
            SELECT 0, i FROM n""",
    ):
        connection.execute(statement)

    def publish(turn: int) -> float:
        started = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            """INSERT INTO membership SELECT generation + 1, version_id FROM membership
               WHERE generation = ? AND version_id <> ?""",
            (turn, turn + 1),
        )
        connection.execute("INSERT INTO membership VALUES(?, ?)", (turn + 1, documents + turn + 1))
        connection.execute("UPDATE head SET generation = ?", (turn + 1,))
        connection.execute("COMMIT")
        elapsed = (time.perf_counter() - started) * 1_000
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return elapsed

    try:
        yield publish
    finally:
        connection.close()


def _collection(index: Index, texts: Texts, turn: int, dead: int) -> tuple[float, int]:
    """(milliseconds, versions) of collecting a generation in which so many documents changed."""
    index.collect(Retention(generations=1))
    documents = [Document(f"{at:07}", f"turn {turn} {texts.text()}") for at in range(dead)]
    file = IndexFile.open(index.path, make=False, busy_timeout_ms=1_000)
    index.collect(Retention(generations=2))
    index.upsert("texts", documents)
    with file.writing("collect") as writer:
        with writer.transaction() as connection:
            put_retention(connection, Retention(generations=1))
        elapsed, collected = _timed_ms(lambda: collect(writer, CancelToken()))
    file.close()
    return elapsed, collected.versions


def _timed_ms(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return (time.perf_counter() - started) * 1_000, result


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
