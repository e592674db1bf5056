"""Bounds and p values against every outcome counted, and against data whose truth is known."""

from __future__ import annotations

from itertools import product
from random import Random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.evaluation.significance import (
    Interval,
    bootstrap_mean,
    paired_bootstrap,
    randomisation_test,
)

pytestmark = pytest.mark.req("A-32")

measured = st.floats(0, 1, allow_subnormal=False)
pairs = st.dictionaries(st.text(max_size=3), st.tuples(measured, measured), min_size=1, max_size=12)

Values = dict[str, float | None]


def sides(values: dict[str, tuple[float, float]]) -> tuple[Values, Values]:
    return {q: a for q, (a, _) in values.items()}, {q: b for q, (_, b) in values.items()}


def by_query(values: list[float]) -> Values:
    return {f"q{at}": value for at, value in enumerate(values)}


def exact_p(differences: list[float]) -> float:
    """Over all 2^n ways to swap."""
    seen = abs(sum(differences)) - 1e-12
    swaps = list(product((1, -1), repeat=len(differences)))
    extreme = sum(
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= seen for signs in swaps
    )
    return extreme / len(swaps)


def exact_quantiles(values: list[float], level: float) -> tuple[float, float]:
    """Of the means of all n^n samples."""
    means = [fmean(sample) for sample in product(values, repeat=len(values))]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@pytest.mark.parametrize(
    "differences",
    [
        [0.5],
        [0.1, 0.1, 0.1, 0.1, 0.1],
        [0.3, -0.1, 0.2, 0.05, -0.4, 0.25],
        [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0],
    ],
)
def test_p_is_the_share_of_all_swaps_that_are_as_extreme(differences: list[float]) -> None:
    zero = dict.fromkeys(by_query(differences), 0.0)
    p = randomisation_test(zero, by_query(differences), seed=7, rounds=20_000)
    assert p == pytest.approx(exact_p(differences), abs=0.015)


def test_p_counts_what_was_seen_as_one_outcome() -> None:
    differences = by_query([1.0] * 40)
    zero = dict.fromkeys(differences, 0.0)
    assert randomisation_test(zero, differences, seed=1, rounds=99) == 1 / 100


@pytest.mark.parametrize("values", [[0.0, 1.0, 1.0, 0.25], [0.1, 0.9, 0.4, 0.3, 0.8]])
def test_bounds_are_percentiles_of_the_means_of_all_samples(values: list[float]) -> None:
    found = bootstrap_mean(by_query(values), seed=3, rounds=20_000, level=0.8)
    assert found.mean == pytest.approx(fmean(values))
    assert (found.low, found.high) == pytest.approx(exact_quantiles(values, 0.8), abs=0.02)


@given(values=pairs, seed=st.integers(0, 2**32))
def test_swapping_the_sides_negates_the_interval_and_keeps_p(
    values: dict[str, tuple[float, float]], seed: int
) -> None:
    a, b = sides(values)
    there = paired_bootstrap(a, b, seed=seed, rounds=50)
    back = paired_bootstrap(b, a, seed=seed, rounds=50)
    assert (back.mean, back.low, back.high) == pytest.approx(
        (-there.mean, -there.high, -there.low), abs=1e-12
    )
    assert there.low <= there.high
    assert randomisation_test(a, b, seed=seed, rounds=50) == randomisation_test(
        b, a, seed=seed, rounds=50
    )


@given(values=pairs, seed=st.integers(0, 2**32))
def test_identical_sides_have_a_zero_interval_and_p_1(
    values: dict[str, tuple[float, float]], seed: int
) -> None:
    a, _ = sides(values)
    assert paired_bootstrap(a, dict(a), seed=seed, rounds=20) == Interval(0.0, 0.0, 0.0)
    assert randomisation_test(a, dict(a), seed=seed, rounds=20) == 1.0


@given(values=pairs, seed=st.integers(0, 2**32), shuffled=st.randoms(use_true_random=False))
def test_the_order_of_the_mappings_does_not_matter(
    values: dict[str, tuple[float, float]], seed: int, shuffled: Random
) -> None:
    a, b = sides(values)
    keys = list(values)
    shuffled.shuffle(keys)
    other = {key: b[key] for key in keys}
    assert paired_bootstrap(a, b, seed=seed, rounds=20) == paired_bootstrap(
        a, other, seed=seed, rounds=20
    )
    assert randomisation_test(a, b, seed=seed, rounds=20) == randomisation_test(
        a, other, seed=seed, rounds=20
    )
    assert bootstrap_mean(b, seed=seed, rounds=20) == bootstrap_mean(other, seed=seed, rounds=20)


def test_the_interval_of_a_difference_is_that_of_the_differences() -> None:
    a, b = by_query([0.1, 0.5, 0.3]), by_query([0.4, 0.2, 0.9])
    differences = by_query([0.4 - 0.1, 0.2 - 0.5, 0.9 - 0.3])
    assert paired_bootstrap(a, b, seed=5) == bootstrap_mean(differences, seed=5)


def test_draws_in_blocks_reach_every_round() -> None:
    many = by_query([float(at % 2) for at in range(3_000)])
    found = bootstrap_mean(many, seed=2, rounds=700)
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / 3_000**0.5, rel=0.15)


def test_bounds_cover_the_true_difference_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(11)
    covered = 0
    for trial in range(200):
        hardness = generator.normal(0.5, 0.3, 60)
        a = by_query((hardness + generator.normal(0, 0.1, 60)).tolist())
        b = by_query((hardness + 0.05 + generator.normal(0, 0.1, 60)).tolist())
        found = paired_bootstrap(a, b, seed=trial, rounds=400)
        covered += found.low <= 0.05 <= found.high
    assert 0.90 <= covered / 200 <= 0.98


def test_a_true_null_is_rejected_about_as_often_as_the_level_says() -> None:
    generator = np.random.default_rng(12)
    rejected = 0
    for trial in range(300):
        a, b = (by_query(generator.exponential(1, 30).tolist()) for _ in "ab")
        rejected += randomisation_test(a, b, seed=trial, rounds=200) <= 0.1
    assert 0.06 <= rejected / 300 <= 0.15


def test_queries_of_one_side_are_named() -> None:
    a, b = by_query([0.1, 0.2]), by_query([0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"only one has 'q2'"):
        paired_bootstrap(a, b, seed=1)
    with pytest.raises(ValueError, match=r"only one has 'q2'"):
        randomisation_test(b, a, seed=1)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_queries_without_a_value_are_named(value: float | None) -> None:
    a: Values = {"known": 0.5, "unknown": value}
    with pytest.raises(ValueError, match=r"no value for 'unknown'"):
        bootstrap_mean(a, seed=1)
    with pytest.raises(ValueError, match=r"no value for 'unknown'"):
        paired_bootstrap(dict.fromkeys(a, 0.5), a, seed=1)
    with pytest.raises(ValueError, match=r"no value for 'unknown'"):
        randomisation_test(a, dict.fromkeys(a, 0.5), seed=1)


def test_many_queries_are_counted_not_listed() -> None:
    with pytest.raises(ValueError, match=r"'q0', 'q1', 'q2', 'q3', 'q4' and 4 more"):
        paired_bootstrap({}, by_query([0.0] * 9), seed=1)


def test_arguments_out_of_range_are_refused() -> None:
    one = by_query([0.5])
    with pytest.raises(ValueError, match="no queries"):
        bootstrap_mean({}, seed=1)
    with pytest.raises(ValueError, match="rounds must be at least 1, not 0"):
        bootstrap_mean(one, seed=1, rounds=0)
    with pytest.raises(ValueError, match="rounds must be at least 1, not 0"):
        randomisation_test(one, one, seed=1, rounds=0)
    with pytest.raises(ValueError, match=r"level must lie between 0 and 1, not 1\.0"):
        bootstrap_mean(one, seed=1, level=1.0)
