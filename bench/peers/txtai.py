"""txtai with external vectors: BM25 and exact vectors in one index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from txtai import Embeddings

from bench.peers.protocol import Driver, Vectors, serve, words


class Txtai(Driver):
    """A hybrid index. It would ask both channels in any mode, so one is taken away for the other's."""

    modes: ClassVar[tuple[str, ...]] = ("lexical", "vector", "hybrid")
    note = "external vectors, backend `numpy`: exact; its BM25 has no stems; saved as a whole"
    _index: Embeddings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._vector_by_text: dict[str, bytes] = {}

    def build(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._index = Embeddings(
            method="external",
            transform=self._transform,
            content=True,
            hybrid=True,
            backend="numpy",
        )
        self._know(texts, vectors)
        self._index.index((row, text, None) for row, text in enumerate(texts))
        self._index.save(str(self.store))

    def open(self, texts: Sequence[str] = (), vectors: Vectors | None = None) -> None:
        self._index = Embeddings()
        self._index.load(str(self.store), config={"transform": self._transform})

    def rebuild(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._know(texts, vectors)
        self._index.upsert((row, text, None) for row, text in enumerate(texts))
        self._index.save(str(self.store))

    def replace(self, row: int, text: str, vector: bytes) -> None:
        self._vector_by_text[text] = vector
        self._index.upsert([(row, text, None)])
        self._index.save(str(self.store))

    def lexical(self, text: str, limit: int) -> list[int]:
        return self._rows("lexical", text, b"", limit)

    def vector(self, text: str, vector: bytes, limit: int) -> list[int]:
        return self._rows("vector", text, vector, limit)

    def hybrid(self, text: str, vector: bytes, limit: int) -> list[int]:
        return self._rows("hybrid", text, vector, limit)

    def close(self) -> None:
        self._index.close()

    def _rows(self, mode: str, text: str, vector: bytes, limit: int) -> list[int]:
        question = " ".join(words(text))
        self._vector_by_text[question] = vector
        ann, scoring = self._index.ann, self._index.scoring
        if mode == "lexical":
            self._index.ann = None
        elif mode == "vector":
            self._index.scoring = None
        try:
            found = self._index.search(question, limit)
        finally:
            self._index.ann, self._index.scoring = ann, scoring
        return [int(hit["id"]) for hit in found]

    def _know(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._vector_by_text.update((text, vectors[row]) for row, text in enumerate(texts))

    @property
    def _transform(self) -> Callable[[Sequence[str]], Any]:
        """What gives txtai the vectors: it calls plain functions, of methods it asks for one."""
        vector_by_text = self._vector_by_text

        def vectors_of(texts: Sequence[str]) -> Any:
            rows = [np.frombuffer(vector_by_text[text], "<f4") for text in texts]
            return np.array(rows, np.float32)

        return vectors_of


if __name__ == "__main__":
    serve(Txtai)
