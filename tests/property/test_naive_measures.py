"""Every measure agrees with a few lines of plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.evaluation.measures import measure_run

pytestmark = pytest.mark.req("A-32")

Grades = Mapping[str, int]
Sets = Sequence[frozenset[str]]

_NAMES = st.sampled_from([*"abcdefgh", "ä ö", "漢字", "x#1"])
_MEASURES = [
    "nDCG@3",
    "nDCG",
    "nDCG(exp)@3",
    "nDCG(exp)",
    "P@3",
    "R@3",
    "hit@3",
    "MRR",
    "MRR@2",
    "MAP",
    "MAP@3",
    "sufficient-hit@3",
    "sufficient-RR",
]


def discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def naive(measure: str, ranking: Sequence[str], grades: Grades, sets: Sets) -> float | None:
    """The value by definition."""
    name, _, cutoff = measure.partition("@")
    top = ranking[: int(cutoff)] if cutoff else ranking
    relevant = {document for document, grade in grades.items() if grade > 0}
    if name.startswith("nDCG"):

        def gain(grade: int) -> float:
            return max(grade, 0) if name == "nDCG" else 2 ** max(grade, 0) - 1

        ideal = sorted(map(gain, grades.values()), reverse=True)
        found = [gain(grades.get(document, 0)) for document in top]
        return discounted(found) / discounted(ideal[: int(cutoff)] if cutoff else ideal)
    if name == "P":
        return len(relevant & {*top}) / int(cutoff)
    if name == "R":
        return len(relevant & {*top}) / len(relevant)
    if name == "hit":
        return float(bool(relevant & {*top}))
    if name == "MRR":
        ranks = [rank for rank, document in enumerate(top, start=1) if document in relevant]
        return 1 / ranks[0] if ranks else 0.0
    if name == "MAP":
        precisions = [
            len(relevant & {*top[:rank]}) / rank
            for rank, document in enumerate(top, start=1)
            if document in relevant
        ]
        return sum(precisions) / len(relevant)
    if not sets:
        return None
    if name == "sufficient-hit":
        return float(any(one <= {*top} for one in sets))
    complete = [
        rank for rank in range(1, len(top) + 1) if any(one <= {*top[:rank]} for one in sets)
    ]
    return 1 / complete[0] if complete else 0.0


@given(
    queries=st.dictionaries(
        st.sampled_from(["q", "r", "s t"]),
        st.tuples(
            st.lists(_NAMES, unique=True, max_size=8),
            st.dictionaries(_NAMES, st.integers(-1, 4), max_size=8),
            st.lists(st.frozensets(_NAMES, min_size=1, max_size=3), max_size=3),
        ),
        max_size=3,
    )
)
def test_measures_equal_their_definitions(
    queries: dict[str, tuple[list[str], dict[str, int], list[frozenset[str]]]],
) -> None:
    measured = measure_run(
        {query_id: grades for query_id, (_, grades, _) in queries.items()},
        {
            query_id: {name: -float(at) for at, name in enumerate(ranking)}
            for query_id, (ranking, _, _) in queries.items()
        },
        list(queries),
        _MEASURES,
        sufficient={query_id: tuple(sets) for query_id, (_, _, sets) in queries.items()},
    )
    expected = {
        query_id: {name: naive(name, ranking, grades, sets) for name in _MEASURES}
        for query_id, (ranking, grades, sets) in queries.items()
        if any(grade > 0 for grade in grades.values())
    }
    assert list(measured.by_query) == list(expected)
    for query_id, values in expected.items():
        assert measured.by_query[query_id] == pytest.approx(values, abs=1e-6)
    for name in _MEASURES:
        defined = [value for row in expected.values() if (value := row[name]) is not None]
        mean = sum(defined) / len(defined) if defined else None
        assert measured.mean[name] == (mean if mean is None else pytest.approx(mean, abs=1e-6))
