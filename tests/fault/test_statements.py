"""The n-th statement of a write fails, or the process ends there, for n = 1, 2, … until it passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sqlindex import Index
from sqlindex.config import IndexConfig
from sqlindex.errors import CorruptIndexError, SqlindexError, StorageError
from sqlindex.sources.memory import Document, MemorySource
from sqlindex.testing import HashingEmbedder
from tests.faults import (
    FaultKind,
    FaultPlan,
    State,
    assert_whole,
    copy_index,
    faulty_writer,
    folder_in_memory,
    killed_at_statement,
    observe,
    searched,
)

QUERIES = ("pump", "valve", "archive letter", "quartz")

BEFORE = {
    "pump.md": "# Pump\n\nThe pump runs at low pressure.\n\n## Service\n\nGrease it each spring.\n",
    "valve.md": "# Valve\n\nA valve closes the pump.\n",
    "old.md": "# Letter\n\nAn archive letter about the valve.\n",
    "gone.md": "# Gone\n\nquartz lamp\n",
    "same.md": "# Same\n\nNothing happens to this archive.\n",
}
AFTER = {
    "pump.md": "# Pump\n\nThe pump runs at high pressure now.\n\n## Service\n\nGrease it each spring.\n",
    "valve.md": BEFORE["valve.md"],
    "new/letter.md": BEFORE["old.md"],
    "same.md": BEFORE["same.md"],
    "added.md": "# Added\n\nA quartz valve.\n",
}


SMALL_STEPS = IndexConfig(documents_per_batch=2, embedding_batch=2)


@dataclass(frozen=True, slots=True)
class Write:
    """A write on an index that holds one generation.

    Attributes:
        name: for the test's id.
        prepare: makes the index as it is before.
        run: the write; also brings an index up to date after it was interrupted.
        fresh: builds what the write leads to from nothing.
        config: of the index.
    """

    name: str
    prepare: Callable[[Index, Path], object]
    run: Callable[[Index, Path], object]
    fresh: Callable[[Index, Path], object]
    config: IndexConfig = SMALL_STEPS


def _write_files(folder: Path, files: dict[str, str]) -> None:
    for old in sorted(folder.rglob("*.md")):
        old.unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def _first_refresh(index: Index, folder: Path) -> None:
    _write_files(folder, BEFORE)
    index.add_source(folder)
    index.refresh()
    _write_files(folder, AFTER)


def _fresh_folder(index: Index, folder: Path) -> None:
    index.add_source(folder)
    index.refresh()


def _documents(files: dict[str, str]) -> list[Document]:
    return [Document(name, text, type_name="md") for name, text in files.items()]


def _two_sources(index: Index, folder: Path) -> None:
    index.add_source(MemorySource("notes", _documents(BEFORE)))
    index.add_source(MemorySource("letters", _documents(AFTER)))
    index.refresh()


def _remove_letters(index: Index, _: Path) -> None:
    if any(source.name == "letters" for source in index.status().sources):
        index.remove_source("letters")


REFRESH = Write("refresh", _first_refresh, lambda index, _: index.refresh(), _fresh_folder)
STAGED = Write(
    "refresh with a staged lexical table",
    _first_refresh,
    lambda index, _: index.refresh(),
    _fresh_folder,
    IndexConfig(documents_per_batch=3, embedding_batch=8, staged_fts_chunks=1),
)
UPSERT = Write(
    "upsert",
    lambda index, _: index.upsert("notes", _documents(BEFORE)),
    lambda index, _: index.upsert("notes", _documents(AFTER)),
    lambda index, _: index.upsert("notes", _documents({**BEFORE, **AFTER})),
)
REMOVE_SOURCE = Write(
    "remove source",
    _two_sources,
    _remove_letters,
    lambda index, _: index.upsert("notes", _documents(BEFORE)),
)


def _open(db: Path, write: Write, *, create: bool = False) -> Index:
    return Index.open(db, create=create, embedder=HashingEmbedder(16), config=write.config)


def _observed(db: Path) -> State:
    return observe(db, QUERIES, HashingEmbedder(16))


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Like `tmp_path`, without the cost of syncs."""
    with folder_in_memory(tmp_path) as folder:
        yield folder


@dataclass(frozen=True, slots=True)
class Bench:
    """A write with the index before it and the states before and after."""

    write: Write
    before_db: Path
    folder: Path
    scratch: Path
    before: State
    after: State

    def copy(self, number: int) -> Path:
        return copy_index(self.before_db, self.scratch / str(number))

    def run(self, db: Path) -> None:
        with _open(db, self.write) as index:
            self.write.run(index, self.folder)


def _bench(write: Write, quick_path: Path) -> Bench:
    folder = quick_path / "documents"
    folder.mkdir()
    db = quick_path / "before" / "index.db"
    db.parent.mkdir()
    with _open(db, write, create=True) as index:
        write.prepare(index, folder)
    before = _observed(db)
    after_db = copy_index(db, quick_path / "after")
    with _open(after_db, write) as index:
        write.run(index, folder)
        assert index.check() == []
    with _open(quick_path / "fresh.db", write, create=True) as index:
        write.fresh(index, folder)
    after = _observed(after_db)
    assert before.content() != after.content()
    assert after.content() == _observed(quick_path / "fresh.db").content()
    return Bench(write, db, folder, quick_path / "copies", before, after)


def _assert_completes(bench: Bench, db: Path) -> None:
    """The write, run again, leads to what a fresh build holds, and the file is sound."""
    with _open(db, bench.write) as index:
        bench.write.run(index, bench.folder)
        assert index.check() == []
    assert _observed(db).content() == bench.after.content()


def _durable_steps(bench: Bench) -> list[int]:
    """For each statement of the write, how many commits and checkpoints came before it."""
    with faulty_writer(FaultPlan()) as plan:
        bench.run(bench.copy(0))
    steps, before = [], 0
    for statement in plan.statements:
        steps.append(before)
        before += statement == "COMMIT" or "wal_checkpoint" in statement
    return steps


@pytest.mark.req("A-14")
@pytest.mark.parametrize(
    ("write", "kind"),
    [
        pytest.param(write, kind, id=f"{write.name}, {kind}")
        for write in (REFRESH, STAGED, UPSERT, REMOVE_SOURCE)
        for kind in ("error", "rollback")
        if kind == "error" or write is STAGED
    ],
)
def test_a_failing_statement_leaves_one_whole_generation(
    write: Write, kind: FaultKind, quick_path: Path
) -> None:
    bench = _bench(write, quick_path)
    kept_old = kept_new = 0
    completed: set[int] = set()
    for number in range(1, 1_000):
        db = bench.copy(number)
        error: Exception | None = None
        with _open(db, write) as index:
            with faulty_writer(FaultPlan(number, kind)) as plan:
                try:
                    write.run(index, bench.folder)
                except Exception as exc:
                    error = exc
            still_searched = searched(index, QUERIES, True)
        assert error is None or isinstance(error, SqlindexError), repr(error)
        if not plan.has_fired:
            assert error is None
            break
        seen = _observed(db)
        where = plan.statements[-1]
        assert_whole(seen, bench.before, bench.after)
        assert still_searched == seen.found, where
        if error is not None:
            assert isinstance(error, StorageError), (where, repr(error))
            assert "no space left" in str(error)
        else:
            # Only work after the commit may fail without a word: closing copies the log.
            assert seen == bench.after, where
        kept_old += seen == bench.before
        kept_new += seen == bench.after
        if plan.durable_steps not in completed:
            completed.add(plan.durable_steps)
            _assert_completes(bench, db)
    else:
        pytest.fail("the write never passed")
    assert kept_old > 20
    assert kept_new > 0


@pytest.mark.req("A-14", "D-4")
@pytest.mark.parametrize(
    "write", [pytest.param(w, id=w.name) for w in (REFRESH, STAGED, UPSERT, REMOVE_SOURCE)]
)
def test_a_process_killed_at_any_statement_leaves_one_whole_generation(
    write: Write, quick_path: Path
) -> None:
    bench = _bench(write, quick_path)
    kept = {bench.before.generation: 0, bench.after.generation: 0}
    steps = _durable_steps(bench)
    completed: set[int] = set()
    for number in range(1, 1_000):
        db = bench.copy(number)
        was_killed = killed_at_statement(FaultPlan(number), lambda db=db: bench.run(db))  # type: ignore[misc]  # a bound default
        seen = _observed(db)
        assert_whole(seen, bench.before, bench.after)
        if not was_killed:
            assert seen == bench.after
            break
        kept[seen.generation] += 1
        if steps[number - 1] not in completed:
            completed.add(steps[number - 1])
            _assert_completes(bench, db)
    else:
        pytest.fail("the write never passed")
    assert kept[bench.before.generation] > 20
    assert kept[bench.after.generation] > 0


@pytest.mark.req("A-14")
def test_the_oracle_notices_a_publish_in_two_transactions(quick_path: Path) -> None:
    bench = _bench(REFRESH, quick_path)
    with faulty_writer(FaultPlan()) as plan:
        bench.run(bench.copy(0))
    moving_head = 1 + next(
        at for at, statement in enumerate(plan.statements) if statement.startswith("UPDATE head")
    )
    db = bench.copy(1)
    split = FaultPlan(moving_head, splits_publish=True)
    assert killed_at_statement(split, lambda: bench.run(db))
    with pytest.raises((AssertionError, CorruptIndexError)):
        assert_whole(_observed(db), bench.before, bench.after)
