"""Embed the query once, and check what comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlindex.cancellation import CancelToken, WorkerThread
from sqlindex.errors import BadVectorError, EmbedderError, SqlindexError
from sqlindex.ports import Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def embed_query(embedder: Embedder, query: str, cancel: CancelToken) -> npt.NDArray[np.float32]:
    """The query's vector: float32 of shape (dimensions,), a copy, finite and not zero.

    Raises:
        CancelledError: cancelled before the embedder was back.
        BadVectorError: wrong shape, not finite, or all zeros.
        EmbedderError: the embedder raised.
    """
    import numpy as np

    try:
        with WorkerThread(cancel) as worker:
            given = worker.run(lambda: embedder.embed_query(query))
    except SqlindexError:
        raise
    except Exception as exc:  # a host's embedder may raise anything
        raise EmbedderError(
            f"the embedder failed on the query: {type(exc).__name__}: {exc}"
        ) from exc
    try:
        with np.errstate(all="ignore"):  # what overflows is infinite and refused below
            vector = np.array(given, dtype=np.float32, copy=True)
    except (TypeError, ValueError) as exc:
        raise BadVectorError(f"the embedder's query reply is no vector: {exc}") from exc
    if vector.shape != (embedder.dimensions,):
        raise BadVectorError(
            f"the query vector has shape {vector.shape}, not ({embedder.dimensions},)"
        )
    if not np.isfinite(vector).all():
        raise BadVectorError("the query vector is not finite")
    if not vector.any():
        raise BadVectorError(
            "the query vector is all zeros", hint="semantic search needs another query"
        )
    return vector
