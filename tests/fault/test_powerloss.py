"""Simulated power loss at any moment of every operation: nothing damaged, nothing acknowledged lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.operations import OPERATIONS, REFRESH, Operation
from tests.fault.powerloss import Crash, examine, left_by, record
from tests.faults import folder_in_memory

pytestmark = pytest.mark.own_sqlite

SEED = 20_261_130
STATES = 1_500
SHARE = -(-STATES // len(OPERATIONS))
"""Distinct states for each operation."""


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    with folder_in_memory(tmp_path) as folder:
        yield folder


@pytest.mark.req("A-14", "A-30", "D-4")
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_power_loss_leaves_one_whole_generation_and_keeps_what_was_acknowledged(
    operation: Operation, quick_path: Path
) -> None:
    tally = examine(record(operation, quick_path), SHARE, SEED, completes_every=3)
    assert tally.messages == []
    assert tally.states == SHARE
    assert tally.old > 0 or operation.origin is not None
    assert tally.new > 0


@pytest.mark.req("A-14")
def test_the_simulation_notices_a_store_that_never_syncs(quick_path: Path) -> None:
    tally = examine(record(REFRESH, quick_path, synchronous="OFF"), 400, SEED, until_bad=True)
    assert tally.bad > 0


@pytest.mark.req("A-14")
def test_the_simulation_notices_a_publish_that_is_not_synced(quick_path: Path) -> None:
    trace = record(REFRESH, quick_path, synchronous="NORMAL")
    tally = examine(trace, 400, SEED, until_bad=True)
    assert tally.bad > 0
    # The log still is in order: a publish is lost whole, never in part.
    assert all("is none of the published states" in message for message in tally.messages)


@pytest.mark.req("A-14")
def test_a_crash_state_without_a_crash_is_the_index_as_it_was_left(quick_path: Path) -> None:
    trace = record(REFRESH, quick_path)
    files, acknowledged = left_by(trace, Crash(len(trace.events), "all"))
    assert acknowledged == 2
    for suffix in ("", "-wal"):
        left = trace.rehearsal.scratch / "recorded" / f"index.db{suffix}"
        assert files[suffix] == left.read_bytes()
