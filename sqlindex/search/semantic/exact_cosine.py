"""Exact cosine of a query with every vector of a space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_LEAST_NORM, _GREATEST_NORM = 1e-12, 1e12
"""Between these no float32 product of a vector with a query of length 1 over- or underflows."""

BLOCK_ROWS = 1_024
"""Rows scored at a time: a block of 384-d vectors fits the second-level cache."""


@dataclass(frozen=True, slots=True)
class VectorTable:
    """The vectors of a space in memory, ascending by text id.

    Attributes:
        text_ids: int64 of shape (n,).
        norms: float64 of shape (n,), positive.
        vectors: float32 of shape (n, dimensions), C-contiguous.
    """

    text_ids: npt.NDArray[np.int64]
    norms: npt.NDArray[np.float64]
    vectors: npt.NDArray[np.float32]

    @classmethod
    def of_blocks(
        cls,
        blocks: Iterable[tuple[list[int], npt.NDArray[np.float64], npt.NDArray[np.float32]]],
        dimensions: int,
        wanted: npt.NDArray[np.int64],
    ) -> VectorTable:
        """Gather the wanted text ids from blocks as `store.vectors.read_vectors` yields them."""
        import numpy as np

        ids: list[npt.NDArray[np.int64]] = []
        norms: list[npt.NDArray[np.float64]] = []
        vectors: list[npt.NDArray[np.float32]] = []
        for block_ids, block_norms, block_vectors in blocks:
            is_wanted = np.isin(block_ids, wanted, assume_unique=True)
            ids.append(np.array(block_ids, np.int64)[is_wanted])
            norms.append(block_norms[is_wanted])
            vectors.append(block_vectors[is_wanted])
        return cls(
            np.concatenate(ids) if ids else np.empty(0, np.int64),
            np.concatenate(norms) if norms else np.empty(0, np.float64),
            np.concatenate(vectors) if vectors else np.empty((0, dimensions), np.float32),
        )


def cosines(
    table: VectorTable, query: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Cosine of `query` with the given rows, divided by both norms: float64 of shape (len(rows),).

    The dot product is `np.vecdot`, one row at a time: a row's score does not depend on the other
    rows, the blocks or the filters, which a matrix product does not promise. The query is scaled to
    length 1 first; rows whose norms are too far from 1 for float32 products are scored in float64.
    """
    import numpy as np

    exact_query = query.astype(np.float64)
    exact_query /= np.sqrt(np.vecdot(exact_query, exact_query))
    unit_query = exact_query.astype(np.float32)
    is_partial = len(rows) < len(table.text_ids) // 5
    wanted = rows if is_partial else np.arange(len(table.text_ids))
    scores = np.empty(len(wanted), np.float64)
    for at in range(0, len(wanted), BLOCK_ROWS):
        block = slice(at, at + BLOCK_ROWS)
        vectors = table.vectors[wanted[block]] if is_partial else table.vectors[block]
        norms = table.norms[wanted[block]] if is_partial else table.norms[block]
        if norms.min() > _LEAST_NORM and norms.max() < _GREATEST_NORM:
            scores[block] = np.vecdot(vectors, unit_query) / norms
        else:
            # Scored alone and so alike in every block and filter.
            is_extreme = (norms <= _LEAST_NORM) | (norms >= _GREATEST_NORM)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                scores[block] = np.vecdot(vectors, unit_query) / norms
            scaled = vectors[is_extreme].astype(np.float64) / norms[is_extreme, None]
            scores[at + np.flatnonzero(is_extreme)] = np.vecdot(scaled, exact_query)
    return scores if is_partial else scores[rows]


def top_positions(scores: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """Positions of the `count` highest scores, highest first, equal scores by position.

    Exact with one pass: the `count`-th highest of the block maxima bounds the result from below,
    so only blocks that reach it are looked into.
    """
    import numpy as np

    if count >= len(scores):
        return np.argsort(-scores, kind="stable")
    full = len(scores) // BLOCK_ROWS * BLOCK_ROWS
    maxima = scores[:full].reshape(-1, BLOCK_ROWS).max(axis=1) if full else np.empty(0)
    if count <= len(maxima):
        bound = np.partition(maxima, len(maxima) - count)[len(maxima) - count]
        found = np.flatnonzero(scores >= bound)
    else:
        bound = np.partition(scores, len(scores) - count)[len(scores) - count]
        found = np.flatnonzero(scores >= bound)
    order = np.argsort(-scores[found], kind="stable")[:count]
    return found[order]
