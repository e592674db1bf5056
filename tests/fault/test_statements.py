"""The n-th statement of a write fails, or the process ends there, for n = 1, 2, … until it passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sqlindex import Index
from sqlindex.errors import SqlindexError, StorageError
from tests.fault.operations import (
    OPERATIONS,
    QUERIES,
    REFRESH,
    STAGED,
    Operation,
    Rehearsal,
    look,
    rehearse,
)
from tests.faults import (
    FaultKind,
    FaultPlan,
    faulty_writer,
    folder_in_memory,
    killed_at_statement,
    searched,
)


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Like `tmp_path`, without the cost of syncs."""
    with folder_in_memory(tmp_path) as folder:
        yield folder


def _durable_steps(rehearsal: Rehearsal) -> list[int]:
    """For each statement of the write, how many commits and checkpoints came before it."""
    with faulty_writer(FaultPlan()) as plan:
        rehearsal.run(rehearsal.copy("counted"))
    steps, before = [], 0
    for statement in plan.statements:
        steps.append(before)
        before += statement == "COMMIT" or "wal_checkpoint" in statement
    return steps


@pytest.mark.req("A-14")
@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        pytest.param(operation, kind, id=f"{operation.name}, {kind}")
        for operation in OPERATIONS.values()
        for kind in ("error", "rollback")
        if kind == "error" or operation is STAGED
    ],
)
def test_a_failing_statement_leaves_one_whole_generation(
    operation: Operation, kind: FaultKind, quick_path: Path
) -> None:
    rehearsal = rehearse(operation, quick_path)
    has_failed = 0
    verified: set[tuple[int, bool]] = set()
    for number in range(1, 1_000):
        db = rehearsal.copy(number)
        error: Exception | None = None
        with operation.open(db) as index, faulty_writer(FaultPlan(number, kind)) as plan:
            try:
                operation.run(index, rehearsal.folder)
            except Exception as exc:  # its type is asserted below
                error = exc
        assert error is None or isinstance(error, SqlindexError), repr(error)
        if not plan.has_fired:
            assert error is None
            break
        where = plan.statements[-1]
        if error is not None:
            has_failed += 1
            assert isinstance(error, StorageError), (where, repr(error))
            assert "no space left" in str(error)
        # The file cannot differ between two commits: what was verified of one failure holds for all.
        group = (plan.durable_steps, error is None)
        if group not in verified:
            verified.add(group)
            seen = rehearsal.verify(db)
            # Only work after the commit may fail without a word: closing copies the log.
            assert error is not None or seen == rehearsal.after, where
    else:
        pytest.fail("the write never passed")
    assert has_failed > 2


@pytest.mark.req("A-14")
@pytest.mark.parametrize("operation", [REFRESH, STAGED], ids=lambda operation: operation.name)
def test_an_open_index_goes_on_after_a_failed_statement(
    operation: Operation, quick_path: Path
) -> None:
    rehearsal = rehearse(operation, quick_path)
    has_failed = 0
    for number in range(1, 1_000, 6):
        db = rehearsal.copy(number)
        with operation.open(db) as index:
            with faulty_writer(FaultPlan(number)) as plan, suppress(StorageError):
                operation.run(index, rehearsal.folder)
            found = searched(index, QUERIES, True)
            assert found in (rehearsal.before.found, rehearsal.after.found)
            operation.run(index, rehearsal.folder)
            assert searched(index, QUERIES, True) == rehearsal.after.found
        has_failed += plan.has_fired
        if not plan.has_fired:
            break
    else:
        pytest.fail("the write never passed")
    assert has_failed > 10


@pytest.mark.req("A-14", "D-4")
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_process_killed_at_any_statement_leaves_one_whole_generation(
    operation: Operation, quick_path: Path
) -> None:
    rehearsal = rehearse(operation, quick_path)
    steps = _durable_steps(rehearsal)
    # Deaths between the same two commits leave the same file: one in the middle of each is enough.
    groups = {step: [n + 1 for n, s in enumerate(steps) if s == step] for step in steps}
    kept = set()
    for numbers in groups.values():
        number = numbers[len(numbers) // 2]
        db = rehearsal.copy(number)
        assert killed_at_statement(FaultPlan(number), lambda db=db: rehearsal.run(db))  # type: ignore[misc]  # a bound default
        kept.add(rehearsal.verify(db))
    assert kept == {rehearsal.before, rehearsal.after}


@pytest.mark.req("A-14")
def test_the_oracle_notices_a_publish_in_two_transactions(quick_path: Path) -> None:
    rehearsal = rehearse(REFRESH, quick_path)
    with faulty_writer(FaultPlan()) as plan:
        rehearsal.run(rehearsal.copy("counted"))
    moving_head = 1 + next(
        at for at, statement in enumerate(plan.statements) if statement.startswith("UPDATE head")
    )
    db = rehearsal.copy("split")
    split = FaultPlan(moving_head, splits_publish=True)
    assert killed_at_statement(split, lambda: rehearsal.run(db))
    with pytest.raises(AssertionError):
        rehearsal.verify(db)


@pytest.mark.req("A-14")
def test_two_interrupted_builds_and_a_third_publish_never_see_each_other(quick_path: Path) -> None:
    """Two refreshes die after they staged different files; a third publishes others."""
    rehearsal = rehearse(REFRESH, quick_path)
    db = rehearsal.copy("interrupted")
    folder = rehearsal.folder
    staged = [at + 1 for at, step in enumerate(_durable_steps(rehearsal)) if step == 3]
    for name, word in (("first.md", "lighthouse"), ("second.md", "windmill")):
        (folder / name).write_text(
            f"# {word}\n\nOnly one build saw this {word}.\n", encoding="utf-8"
        )
        assert killed_at_statement(FaultPlan(staged[-1]), lambda: rehearsal.run(db))
        (folder / name).unlink()
        assert look(db) == rehearsal.before
    (folder / "third.md").write_text("# Third\n\nThe third build saw a pump.\n", encoding="utf-8")
    rehearsal.run(db)
    fresh = quick_path / "fresh.db"
    with REFRESH.open(fresh, is_first=True) as index:
        index.add_source(folder)
        index.refresh()
    assert look(db).content() == look(fresh).content()
    with Index.open(db) as index:
        assert index.check() == []
        for word in ("lighthouse", "windmill"):
            assert index.search(word).hits == ()
