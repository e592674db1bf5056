"""An embedder without a model: texts with words in common get similar vectors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_WORD = re.compile(r"\w+")
_NO_WORDS_AXIS = 0


class HashingEmbedder:
    """Counts a text's words into hashed axes and scales the counts to a unit vector.

    The same text gives the same vector on every machine. It knows nothing of meaning; it is for
    tests and takes part only where the host names it.

    Attributes:
        document_inputs: every text given to `embed_documents`, in order.
        query_inputs: every text given to `embed_query`, in order.
        document_calls: number of calls of `embed_documents`.
    """

    def __init__(self, dimensions: int = 64, revision: str = "1") -> None:
        """Take the width of the vectors and a revision that only changes the identity."""
        if dimensions < 1:
            raise ValueError(f"dimensions must be at least 1, not {dimensions}")
        self._dimensions = dimensions
        self._revision = revision
        self.document_inputs: list[str] = []
        self.query_inputs: list[str] = []
        self.document_calls = 0

    @property
    def identity(self) -> str:
        """Changes with the width and the revision."""
        return f"hashing@{self._revision}|{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """Width of every vector."""
        return self._dimensions

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed document texts: float32 array of shape (len(texts), dimensions), unit rows."""
        import numpy as np

        self.document_calls += 1
        self.document_inputs.extend(texts)
        vectors = np.zeros((len(texts), self._dimensions), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._embed(text)
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Embed a query: float32 array of shape (dimensions,), of norm 1."""
        self.query_inputs.append(text)
        return self._embed(text)

    def _embed(self, text: str) -> npt.NDArray[np.float32]:
        import numpy as np

        counts = np.zeros(self._dimensions, np.float64)
        for word in _WORD.findall(text.casefold()):
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            counts[int.from_bytes(digest, "little") % self._dimensions] += 1
        if not counts.any():
            counts[_NO_WORDS_AXIS] = 1
        # Counts are never negative, so words cannot cancel out to a zero vector.
        vector: npt.NDArray[np.float32] = (counts / np.linalg.norm(counts)).astype(np.float32)
        return vector
