"""Reciprocal rank fusion: golden contract and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.search.fusion.rrf import reciprocal_rank_fusion

_RANKINGS = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=20), max_size=4)


@pytest.mark.req("A-22")
def test_the_contract_scores_are_sums_of_reciprocal_ranks() -> None:
    fused = reciprocal_rank_fusion([[1, 2], [3, 4, 1]])
    assert fused == [(1, 1 / 61 + 1 / 63), (3, 1 / 61), (2, 1 / 62), (4, 1 / 62)]


@given(rankings=_RANKINGS)
def test_fused_ids_are_the_union_of_all_rankings(rankings: list[list[int]]) -> None:
    fused = [found for found, _ in reciprocal_rank_fusion(rankings)]
    assert sorted(fused) == sorted({c for ranking in rankings for c in ranking})


@given(rankings=_RANKINGS)
def test_scores_fall_and_ties_rise_by_id(rankings: list[list[int]]) -> None:
    fused = reciprocal_rank_fusion(rankings)
    assert fused == sorted(fused, key=lambda pair: (-pair[1], pair[0]))


def test_a_rank_constant_below_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        reciprocal_rank_fusion([], rank_constant=0)
