"""Exact cosine: true to a float64 computation, whatever the norms, blocks and ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.search.semantic.exact_cosine import BLOCK_ROWS, VectorTable, cosines, top_positions

ALL = np.arange(3_000)


def _table(vectors: np.ndarray) -> VectorTable:
    return VectorTable(
        np.arange(1, len(vectors) + 1),
        np.linalg.norm(vectors.astype(np.float64), axis=1),
        np.ascontiguousarray(vectors, np.float32),
    )


@pytest.mark.req("A-21")
def test_vectors_of_any_norm_and_width_get_their_cosine() -> None:
    random = np.random.default_rng(7)
    for width in (1, 3, 384):
        vectors = random.normal(size=(3_000, width)) * 10.0 ** random.integers(
            -6, 6, size=(3_000, 1)
        )
        table = _table(vectors)
        query = random.normal(size=width).astype(np.float32) * 50
        exact = table.vectors.astype(np.float64) @ query.astype(np.float64)
        exact /= table.norms * np.linalg.norm(query.astype(np.float64))
        assert np.abs(cosines(table, query, ALL) - exact).max() < 1e-6


@pytest.mark.req("A-21")
def test_a_rows_score_does_not_depend_on_the_other_rows() -> None:
    random = np.random.default_rng(8)
    table = _table(random.normal(size=(2_500, 96)))
    query = random.normal(size=96).astype(np.float32)
    whole = cosines(table, query, ALL[:2_500])
    for rows in (slice(0, 1), slice(17, 1_900), slice(2_499, 2_500)):
        part = VectorTable(table.text_ids[rows], table.norms[rows], table.vectors[rows])
        assert (cosines(part, query, ALL[: len(part.norms)]) == whole[rows]).all()
        assert (cosines(table, query, ALL[rows]) == whole[rows]).all()


@pytest.mark.req("A-21")
@pytest.mark.parametrize("scale", [1e-40, 1e-25, 1e-13, 1.0, 1e13, 1e20, 1e37])
def test_norms_near_the_ends_of_float32_give_the_same_cosines(scale: float) -> None:
    random = np.random.default_rng(9)
    plain = random.normal(size=(3_000, 8)).astype(np.float32)
    query = random.normal(size=8).astype(np.float32)
    want = cosines(_table(plain), query, ALL)
    mixed = plain.astype(np.float64)
    mixed[::3] *= scale
    found = cosines(_table(mixed.astype(np.float32)), query, ALL)
    assert np.isfinite(found).all()
    assert np.abs(found - want).max() < (2e-2 if scale < 1e-38 else 1e-6)
    big_query = (query.astype(np.float64) * min(scale, 1e30)).astype(np.float32)
    if big_query.any() and scale > 1e-38:
        assert np.abs(cosines(_table(plain), big_query, ALL) - want).max() < 1e-6


@given(
    scores=st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.25, 1.0]), min_size=0, max_size=60),
    count=st.integers(1, 70),
    repeat=st.sampled_from([1, 1, 40]),
)
def test_the_top_is_that_of_a_stable_sort(scores: list[float], count: int, repeat: int) -> None:
    array = np.array(scores * repeat, np.float64)
    naive = sorted(range(len(array)), key=lambda at: (-array[at], at))[:count]
    assert top_positions(array, count).tolist() == naive


def test_the_top_of_many_blocks_is_that_of_a_stable_sort() -> None:
    random = np.random.default_rng(9)
    for size in (BLOCK_ROWS - 1, BLOCK_ROWS, 10 * BLOCK_ROWS + 3):
        scores = random.integers(0, 5_000, size).astype(np.float64)
        for count in (1, 8, 12, 500):
            naive = np.argsort(-scores, kind="stable")[:count]
            assert (top_positions(scores, count) == naive).all()
