"""Reciprocal rank fusion: golden contract, and agreement with a naive sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.search.fusion.rrf import reciprocal_rank_fusion

SIZE = 31
_RANKINGS = st.lists(st.lists(st.integers(0, SIZE - 1), unique=True, max_size=20), max_size=4)


def _fuse(rankings: list[list[int]]) -> list[tuple[int, float]]:
    found, scores = reciprocal_rank_fusion([np.array(r, np.int64) for r in rankings], SIZE)
    return list(zip(found.tolist(), scores.tolist(), strict=True))


@pytest.mark.req("A-22")
def test_the_contract_scores_are_sums_of_reciprocal_ranks() -> None:
    assert _fuse([[1, 2], [3, 4, 1]]) == [
        (1, 1 / 61 + 1 / 63),
        (3, 1 / 61),
        (2, 1 / 62),
        (4, 1 / 62),
    ]


@given(rankings=_RANKINGS)
def test_fusion_is_the_naive_sum_over_all_rankings(rankings: list[list[int]]) -> None:
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, found in enumerate(ranking, start=1):
            scores[found] = scores.get(found, 0.0) + 1.0 / (60 + rank)
    assert _fuse(rankings) == sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


def test_a_rank_constant_below_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        reciprocal_rank_fusion([], 0, rank_constant=0)
