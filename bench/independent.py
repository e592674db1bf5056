"""Semantic nDCG@10 computed a second time, with nothing of ours but the stored vectors.

Vectors come out of the file through the sqlite3 shell, cosines from one float64 matrix product,
and ranking, reduction to documents and nDCG are written out here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench.shell import shell_rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")

_COLUMNS = "d.document_id, hex(v.f32)"
_FROM = """
    FROM document_version d JOIN chunk c USING(parse_id)
      JOIN vector v ON v.vector_id = (SELECT g.space_id << 40 FROM head JOIN generation g USING(generation)) | c.text_id
    WHERE d.born IS NOT NULL AND d.died IS NULL ORDER BY d.document_id, c.ord
"""


def semantic_ndcg(
    index_path: Path,
    query_vectors: Mapping[str, Sequence[float] | npt.NDArray[np.float32]],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    cutoff: int = 10,
) -> dict[str, float]:
    """nDCG by query id: linear gain, discount log2(1 + rank), documents at their best chunk."""
    import numpy as np

    names, matrix = _unit_vectors(index_path)
    ndcg = {}
    for query_id, vector in query_vectors.items():
        query = np.asarray(vector, np.float64)
        cosines = matrix @ (query / np.linalg.norm(query))
        documents: list[str] = []
        for row in np.argsort(-cosines, kind="stable").tolist():
            if names[row] not in documents:
                documents.append(names[row])
                if len(documents) == cutoff:
                    break
        ndcg[query_id] = ndcg_of(documents, qrels[query_id], cutoff)
    return ndcg


def best_cosines(
    index_path: Path, query_vector: Sequence[float] | npt.NDArray[np.float32], count: int
) -> list[float]:
    """The largest cosines between a query and the chunks of the head, in descending order."""
    import numpy as np

    _, matrix = _unit_vectors(index_path)
    query = np.asarray(query_vector, np.float64)
    cosines = matrix @ (query / np.linalg.norm(query))
    return sorted((float(cosine) for cosine in cosines), reverse=True)[:count]


@cache
def _unit_vectors(index_path: Path) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Document id of each embedded chunk of the head, and the vectors divided by their norms."""
    import numpy as np

    names: list[str] = []
    vectors: list[npt.NDArray[np.float32]] = []
    for name, stored in shell_rows(index_path, _COLUMNS, _FROM):
        names.append(str(name))
        vectors.append(np.frombuffer(bytes.fromhex(str(stored)), "<f4"))
    matrix = np.array(vectors, np.float64)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return names, matrix


def ndcg_of(documents: Sequence[T], grades: Mapping[T, int], cutoff: int = 10) -> float:
    """nDCG of one ranking: linear gain, discount log2(1 + rank); a grade is above 0."""
    gains = [max(0, grades.get(document, 0)) for document in documents]
    ideal = sorted((max(0, grade) for grade in grades.values()), reverse=True)[:cutoff]
    return _discounted(gains) / _discounted(ideal)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
