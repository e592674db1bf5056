"""Exact cosine of a query with every vector of a space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

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
    ) -> VectorTable:
        """Gather blocks as `store.vectors.read_vectors` yields them."""
        import numpy as np

        ids: list[int] = []
        norms: list[npt.NDArray[np.float64]] = []
        vectors: list[npt.NDArray[np.float32]] = []
        for block_ids, block_norms, block_vectors in blocks:
            ids.extend(block_ids)
            norms.append(block_norms)
            vectors.append(block_vectors)
        return cls(
            np.array(ids, np.int64),
            np.concatenate(norms) if norms else np.empty(0, np.float64),
            np.concatenate(vectors) if vectors else np.empty((0, dimensions), np.float32),
        )


def cosines(table: VectorTable, query: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Cosine of `query` with each row, divided by both norms: float64 of shape (n,).

    The dot product is `np.vecdot`, one row at a time: a row's score does not depend on the other
    rows, the blocks or the filters, which a matrix product does not promise.
    """
    import numpy as np

    scores = np.empty(len(table.text_ids), np.float64)
    query_norm = float(np.sqrt(np.vecdot(query.astype(np.float64), query.astype(np.float64))))
    for at in range(0, len(scores), BLOCK_ROWS):
        rows = slice(at, at + BLOCK_ROWS)
        scores[rows] = np.vecdot(table.vectors[rows], query)
    return scores / (table.norms * query_norm)


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
