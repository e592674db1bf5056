"""An embedder that is asked for each query once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlindex.ports import Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class EmbedsOnce:
    """Wraps an embedder and keeps the vectors of queries; documents are the index's to keep."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vector_by_text: dict[str, npt.NDArray[np.float32]] = {}

    @property
    def identity(self) -> str:
        """The wrapped embedder's."""
        return self._embedder.identity

    @property
    def dimensions(self) -> int:
        """The wrapped embedder's."""
        return self._embedder.dimensions

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """What the wrapped embedder gave for this query first."""
        if text not in self._vector_by_text:
            self._vector_by_text[text] = self._embedder.embed_query(text)
        return self._vector_by_text[text]

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """As the wrapped embedder does."""
        return self._embedder.embed_documents(texts)
