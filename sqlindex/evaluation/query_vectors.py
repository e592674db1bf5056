"""An embedder for the searches of an evaluation: each query is embedded once, and timed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlindex.cancellation import CancelToken
from sqlindex.embedding.once import EmbedsOnce
from sqlindex.evaluation.report import QueryEmbedding
from sqlindex.evaluation.runs import percentile
from sqlindex.ports import Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class QueryVectors(EmbedsOnce):
    """Wraps an embedder, so that modes, pages and configurations share the vector of a query.

    So a search's time is that of the search, and the embedder's is known by itself.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self._samples_ms: list[float] = []
        self._reused = 0

    def prepare(self, text: str, cancel: CancelToken) -> None:
        """Embed a query unless it is known or blank, which no search embeds.

        Raises:
            CancelledError: cancelled before the embedder was back.
            EmbedderError: the embedder failed, or its reply is no vector.
        """
        from sqlindex.search.semantic.query_vector import embed_query

        if text in self._vector_by_text:
            self._reused += 1
        elif text.strip():
            started = time.perf_counter()
            self._vector_by_text[text] = embed_query(self._embedder, text, cancel)
            self._samples_ms.append((time.perf_counter() - started) * 1000)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """The vector of a prepared query."""
        return self._vector_by_text[text]

    def report(self) -> QueryEmbedding:
        """What was embedded, and how long it took."""
        later = self._samples_ms[1:]
        return QueryEmbedding(
            embedded=len(self._samples_ms),
            reused=self._reused,
            p50_ms=percentile(later, 50),
            p95_ms=percentile(later, 95),
            total_s=sum(self._samples_ms) / 1000,
        )
