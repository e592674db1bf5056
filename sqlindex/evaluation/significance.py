"""How sure a mean or a difference of means is: bootstrap bounds and the randomisation test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

DEFAULT_ROUNDS = 10_000
DEFAULT_LEVEL = 0.95

_BLOCK_VALUES = 1_000_000
"""Drawn values held at once: 8 MB, however many rounds and queries there are."""

_NAMED = 5
"""Queries that an error message names; it counts the rest."""

QueryValues = Mapping[str, float | None]
"""A measure's value by query id."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its bounds, in the unit of the values.

    Attributes:
        mean: of the values as they are.
        low, high: percentile bounds of the mean; `low` ≤ `high`. With few, skewed values the mean
            may lie outside them.
    """

    mean: float
    low: float
    high: float


def bootstrap_mean(
    a: QueryValues,
    *,
    seed: int,
    rounds: int = DEFAULT_ROUNDS,
    level: float = DEFAULT_LEVEL,
) -> Interval:
    """The mean of one system's values, with bounds.

    Queries are drawn with replacement, as many as there are, `rounds` times; the bounds are
    percentiles of the means. They say how the mean would vary with other queries of the same
    kind, nothing about other kinds. The order of the mapping does not matter.

    Args:
        a: value by query id.
        seed: of the draws; the same seed and values give the same bounds.
        rounds: at least 1.
        level: share of the means between the bounds, above 0 and below 1.

    Raises:
        ValueError: no queries, a value that is None or not finite, or an argument out of range.

    Source:
        Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13 (percentile
        method); Sakai, "Evaluating evaluation metrics based on the bootstrap", SIGIR 2006.
    """
    return _bootstrap(_values(a), seed, rounds, level)


def paired_bootstrap(
    a: QueryValues,
    b: QueryValues,
    *,
    seed: int,
    rounds: int = DEFAULT_ROUNDS,
    level: float = DEFAULT_LEVEL,
) -> Interval:
    """The mean of `b - a` over the same queries, with bounds.

    The difference of each query is what is drawn, so hard and easy queries do not widen the
    bounds. Zero outside the bounds speaks for a difference; see `randomisation_test` for how
    strongly. Swapping `a` and `b` negates the interval.

    Args:
        a, b: value by query id, of the same queries in any order.
        seed, rounds, level: as in `bootstrap_mean`.

    Raises:
        ValueError: as in `bootstrap_mean`, or a query that only one side has.

    Source:
        As `bootstrap_mean`.
    """
    return _bootstrap(_differences(a, b), seed, rounds, level)


def randomisation_test(
    a: QueryValues, b: QueryValues, *, seed: int, rounds: int = DEFAULT_ROUNDS
) -> float:
    """How often chance alone gives a mean difference as large as the one seen: a two-sided p.

    If `a` and `b` were alike, each query's two values could be swapped: each round swaps every
    query's with probability 1/2. The p value is (1 + rounds at least as extreme) / (1 + rounds),
    never 0: what was seen is itself one of the outcomes.

    Args:
        a, b: value by query id, of the same queries in any order.
        seed: of the swaps; the same seed and values give the same p.
        rounds: at least 1; p is no smaller than 1 / (1 + rounds).

    Raises:
        ValueError: as in `paired_bootstrap`.

    Source:
        Smucker, Allan & Carterette, "A comparison of statistical significance tests for
        information retrieval evaluation", CIKM 2007. The added 1: Phipson & Smyth, "Permutation
        p-values should never be zero", 2010.
    """
    import numpy as np

    _check(rounds)
    differences = _differences(a, b)
    # Sums of the same numbers in another order differ in their last bits; they count as equal.
    seen = abs(differences.sum()) - 1e-12 * np.abs(differences).sum()
    generator = np.random.default_rng(seed)
    extreme = 0
    for size in _blocks(rounds, len(differences)):
        signs = generator.integers(0, 2, (size, len(differences)), dtype=np.int8) * 2 - 1
        extreme += int(np.count_nonzero(np.abs(signs @ differences) >= seen))
    return (1 + extreme) / (1 + rounds)


def _bootstrap(values: Values, seed: int, rounds: int, level: float) -> Interval:
    import numpy as np

    _check(rounds)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    generator = np.random.default_rng(seed)
    means = np.concatenate(
        [
            values[generator.integers(0, len(values), (size, len(values)))].mean(axis=1)
            for size in _blocks(rounds, len(values))
        ]
    )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def _blocks(rounds: int, queries: int) -> Iterator[int]:
    """Rounds to draw at once, in turn."""
    block = max(1, _BLOCK_VALUES // queries)
    for start in range(0, rounds, block):
        yield min(block, rounds - start)


def _differences(a: QueryValues, b: QueryValues) -> Values:
    lonely = sorted(a.keys() ^ b.keys())
    if lonely:
        raise ValueError(f"both sides need the same queries; only one has {_named(lonely)}")
    return _values(b) - _values(a)


def _values(by_query: QueryValues) -> Values:
    """float64 array of shape (queries,), by ascending query id."""
    import numpy as np

    if not by_query:
        raise ValueError("there are no queries to compute a mean of")
    ordered: list[float] = []
    missing: list[str] = []
    for query_id in sorted(by_query):
        value = by_query[query_id]
        if value is None or not math.isfinite(value):
            missing.append(query_id)
        else:
            ordered.append(value)
    if missing:
        raise ValueError(f"no value for {_named(missing)}; leave queries without a value out")
    return np.array(ordered, dtype=np.float64)


def _named(query_ids: list[str]) -> str:
    named = ", ".join(map(repr, query_ids[:_NAMED]))
    more = len(query_ids) - _NAMED
    return f"{named} and {more} more" if more > 0 else named


def _check(rounds: int) -> None:
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, not {rounds}")
