"""Reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DEFAULT_RANK_CONSTANT = 60


def reciprocal_rank_fusion(
    rankings: Sequence[npt.NDArray[np.int64]],
    size: int,
    *,
    rank_constant: int = DEFAULT_RANK_CONSTANT,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Fuse complete rankings by the sum of ``1 / (rank_constant + rank)``.

    Only ranks enter the score, so channels with incomparable scores (BM25, cosine) need no
    calibration. Pass each ranking in full: cutting one before fusing turns "ranked low" into
    "not found".

    Args:
        rankings: for each channel the found positions, best first, ranks counted from 1; a position
            at most once in each.
        size: positions are below it.
        rank_constant: damps the lead of the first ranks; at least 1.

    Returns:
        The found positions, highest score first, equal scores by ascending position, and their
        scores. Terms are added in the order of the channels, in float64.

    Raises:
        ValueError: `rank_constant` is below 1.

    Source:
        Cormack, Clarke & Büttcher, SIGIR 2009.
    """
    import numpy as np

    if rank_constant < 1:
        raise ValueError(f"rank_constant must be at least 1, not {rank_constant}")
    scores = np.zeros(size, np.float64)
    for ranking in rankings:
        scores[ranking] += 1.0 / (rank_constant + np.arange(1, len(ranking) + 1))
    found = np.flatnonzero(scores)
    order = found[np.argsort(-scores[found], kind="stable")]
    return order, scores[order]
