"""How good the rankings of a peer are: nDCG@10, and recall of the nearest vectors."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from bench.independent import ndcg_of
from bench.peers.corpus import Corpus

CUTOFF = 10
TIE = 1e-5
"""Cosines closer than this may swap places: peers compute them in float32, in different orders."""


def mean_ndcg(corpus: Corpus, rankings: Sequence[Sequence[int]]) -> dict[str, float]:
    """Mean nDCG@10 by collection; empty if nothing is judged."""
    values: dict[str, list[float]] = {}
    for question, ranking in zip(corpus.questions, rankings, strict=True):
        if question.grades:
            ndcg = ndcg_of(list(ranking[:CUTOFF]), _relevant(question.grades), CUTOFF)
            values.setdefault(question.collection, []).append(ndcg)
    return {collection: statistics.fmean(ndcgs) for collection, ndcgs in values.items()}


def vector_recall(corpus: Corpus, rankings: Sequence[Sequence[int]]) -> float:
    """Share of the first ten hits whose cosine is that of one of the ten nearest texts."""
    import numpy as np

    cosines = corpus.text_vectors.astype(np.float64) @ corpus.question_vectors.T.astype(np.float64)
    right = total = 0
    for question, ranking in enumerate(rankings):
        of_question = cosines[:, question]
        count = min(CUTOFF, len(of_question))
        least = np.partition(of_question, -count)[-count] - TIE
        right += sum(of_question[row] >= least for row in set(ranking[:count]))
        total += count
    return float(right / total)


def _relevant(grades: Mapping[int, int]) -> dict[int, int]:
    return {row: grade for row, grade in grades.items() if grade > 0}
