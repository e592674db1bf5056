"""Four readers and two writers beside each other: only whole, published states, and a bounded log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.soak import LOG_LIMIT_BYTES, Variant, judge, publish_many, soak


@pytest.mark.req("A-15", "A-24", "A-30")
def test_d22_readers_beside_two_writers_and_a_frozen_reader_see_only_published_states(
    tmp_path: Path,
) -> None:
    figures = soak(tmp_path / "index.db", 20, variant="processes", frozen_s=8)
    assert figures.publishes > 10
    assert figures.reads > 100
    assert figures.longest_log < LOG_LIMIT_BYTES
    assert figures.longest_log_frozen < LOG_LIMIT_BYTES
    assert figures.last_log < 1_000_000


@pytest.mark.req("A-15", "A-24", "A-30")
@pytest.mark.parametrize("variant", ["threads", "fork"])
def test_d22_threads_and_forked_children_see_only_published_states(
    variant: Variant, tmp_path: Path
) -> None:
    figures = soak(tmp_path / "index.db", 2.5, variant=variant)
    assert figures.publishes > 1
    assert figures.reads > 10


@pytest.mark.req("A-24", "A-30")
def test_d23_overlapping_readers_let_the_log_of_many_small_generations_shrink(
    tmp_path: Path,
) -> None:
    figures = publish_many(tmp_path / "index.db", 60)
    assert figures["reads"] > 0
    assert figures["longest_log"] < LOG_LIMIT_BYTES


@pytest.mark.req("A-24")
def test_thejudge_notices_a_state_that_nobody_published() -> None:
    written = [{"published": {"2": "a0", "3": "a1"}, "locked": 0}]
    seen = {"seen": {"2": "a0", "3": "a0"}, "reads": 2, "slowest_s": 0.0}
    with pytest.raises(AssertionError):
        judge(written, [seen])
