"""Reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Sequence

DEFAULT_RANK_CONSTANT = 60


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[int]], *, rank_constant: int = DEFAULT_RANK_CONSTANT
) -> list[tuple[int, float]]:
    """Fuse complete rankings by the sum of ``1 / (rank_constant + rank)``.

    Only ranks enter the score, so channels with incomparable scores (BM25, cosine) need no
    calibration. Pass each ranking in full: cutting one before fusing turns "ranked low" into
    "not found".

    Args:
        rankings: one list per channel, best first, ranks counted from 1; an id at most once each.
        rank_constant: damps the lead of the first ranks; at least 1.

    Returns:
        (id, score) pairs, highest score first, equal scores by ascending id.

    Raises:
        ValueError: `rank_constant` is below 1.

    Source:
        Cormack, Clarke & Büttcher, SIGIR 2009.
    """
    if rank_constant < 1:
        raise ValueError(f"rank_constant must be at least 1, not {rank_constant}")
    score_by_id: dict[int, float] = {}
    for ranking in rankings:
        for rank, found in enumerate(ranking, start=1):
            score_by_id[found] = score_by_id.get(found, 0.0) + 1.0 / (rank_constant + rank)
    return sorted(score_by_id.items(), key=lambda pair: (-pair[1], pair[0]))
