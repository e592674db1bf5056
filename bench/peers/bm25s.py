"""bm25s: a matrix of BM25 scores; one change writes all of it anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import bm25s
import Stemmer

from bench.peers.protocol import Driver, Vectors, serve


class Bm25s(Driver):
    """Scores of every term computed beforehand."""

    modes: ClassVar[tuple[str, ...]] = ("lexical",)
    note = "German stems, no stop words; a change rebuilds everything"
    _retriever: bm25s.BM25
    _texts: list[str]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._stemmer = Stemmer.Stemmer("german")

    def build(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._retriever = bm25s.BM25()
        self._retriever.index(self._tokens(list(texts)), show_progress=False)
        self._retriever.save(str(self.store))

    def open(self, texts: Sequence[str] = (), vectors: Vectors | None = None) -> None:
        self._texts = list(texts)
        self._retriever = bm25s.BM25.load(str(self.store))

    def rebuild(self, texts: Sequence[str], vectors: Vectors) -> None:
        self.build(texts, vectors)

    def replace(self, row: int, text: str, vector: bytes) -> None:
        self._texts[row] = text
        self._retriever = bm25s.BM25()
        self._retriever.index(self._tokens(self._texts), show_progress=False)
        self._retriever.save(str(self.store))

    def lexical(self, text: str, limit: int) -> list[int]:
        limit = min(limit, self._retriever.scores["num_docs"])
        rows, scores = self._retriever.retrieve(self._tokens([text]), k=limit, show_progress=False)
        return [int(row) for row, score in zip(rows[0], scores[0], strict=True) if score > 0]

    def _tokens(self, texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords=None, stemmer=self._stemmer, show_progress=False)


if __name__ == "__main__":
    serve(Bm25s)
