"""Two runs against each other: differences with bounds, and the queries that lost most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from sqlindex.evaluation.report import Comparison, Difference, QueryDelta, RunResult, Values
from sqlindex.evaluation.results import ROUNDS, SEED
from sqlindex.evaluation.significance import paired_bootstrap, randomisation_test


def compare(
    before: tuple[str, Mapping[str, Values]],
    after: tuple[str, Mapping[str, Values]],
    measures: Sequence[str],
    *,
    is_baseline: bool = False,
) -> Comparison:
    """Compare two runs, each a name with its values by query, over the queries that both have.

    Args:
        measures: the first one gives the differences of single queries.
    """
    (before_name, before_values), (after_name, after_values) = before, after
    differences = []
    for measure in measures:
        a, b = _shared(before_values, after_values, measure)
        if a:
            differences.append(
                Difference(
                    measure=measure,
                    queries=len(a),
                    before=sum(a.values()) / len(a),
                    after=sum(b.values()) / len(b),
                    difference=paired_bootstrap(a, b, seed=SEED, rounds=ROUNDS),
                    p=randomisation_test(a, b, seed=SEED, rounds=ROUNDS),
                )
            )
    a, b = _shared(before_values, after_values, measures[0])
    deltas = [QueryDelta(query_id, a[query_id], b[query_id]) for query_id in a]
    deltas.sort(key=lambda delta: (delta.difference, delta.query_id))
    return Comparison(before_name, after_name, is_baseline, tuple(differences), tuple(deltas))


def compare_all(runs: Sequence[RunResult], measures: Sequence[str]) -> tuple[Comparison, ...]:
    """Every run with every later one that shares its configuration or its mode.

    Saved runs have neither, and are all compared.
    """
    return tuple(
        compare((before.name, before.by_query), (after.name, after.by_query), measures)
        for before, after in combinations(runs, 2)
        if before.configuration == after.configuration or before.mode == after.mode
    )


def _shared(
    before: Mapping[str, Values], after: Mapping[str, Values], measure: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Values of the queries that both sides have one for, in the order of `after`."""
    a: dict[str, float] = {}
    b: dict[str, float] = {}
    for query_id, values in after.items():
        old, new = before.get(query_id, {}).get(measure), values.get(measure)
        if old is not None and new is not None:
            a[query_id], b[query_id] = old, new
    return a, b
