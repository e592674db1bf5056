"""sqlindex with the vectors it is handed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from bench.peers.protocol import Driver, Vectors, emptied, serve
from sqlindex.config import ChunkConfig, IndexConfig
from sqlindex.index import Index
from sqlindex.model.requests import Mode
from sqlindex.sources.memory import Document

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NOT_CUT = IndexConfig(chunks=ChunkConfig(target_chars=1_000_000, min_chars=0, overlap_lines=0))
_SOURCE = "texts"
_PAGE = 100


class GivenVectors:
    """An embedder that looks vectors up; implements `Embedder`."""

    identity = "given"
    dimensions = 384

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.query = b""
        self.embedded = 0

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """The given vectors of the texts."""
        import numpy as np

        self.embedded += len(texts)
        joined = b"".join(self.documents[text] for text in texts)
        return np.frombuffer(joined, "<f4").reshape(len(texts), self.dimensions).copy()

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """The vector that was set for the question."""
        import numpy as np

        return np.frombuffer(self.query, "<f4").copy()


class Sqlindex(Driver):
    """One document for each text, one chunk for each document."""

    modes: ClassVar[tuple[str, ...]] = ("lexical", "vector", "hybrid")
    note = "exact; no stems; whole hits with text, place and snippet, where the others give ids"
    rename = ""
    _index: Index
    _embedder: GivenVectors

    def build(self, texts: Sequence[str], vectors: Vectors) -> None:
        self.open()
        self.rebuild(texts, vectors)
        chunks = self._index.status().chunks
        assert chunks == len(texts), f"{chunks} chunks of {len(texts)} texts"

    def open(self, texts: Sequence[str] = (), vectors: Vectors | None = None) -> None:
        self._embedder = GivenVectors()
        self._index = Index.open(
            self.store / "index.db", create=True, embedder=self._embedder, config=NOT_CUT
        )

    def rebuild(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._embedder.documents = {text: vectors[row] for row, text in enumerate(texts)}
        self._index.upsert(_SOURCE, (_document(row, text) for row, text in enumerate(texts)))

    def replace(self, row: int, text: str, vector: bytes) -> None:
        self._embedder.documents = {text: vector}
        self._index.upsert(_SOURCE, [_document(row, text)])

    def lexical(self, text: str, limit: int) -> list[int]:
        return self._rows(text, "lexical", limit)

    def vector(self, text: str, vector: bytes, limit: int) -> list[int]:
        self._embedder.query = vector
        return self._rows(text, "semantic", limit)

    def hybrid(self, text: str, vector: bytes, limit: int) -> list[int]:
        self._embedder.query = vector
        return self._rows(text, "hybrid", limit)

    def renamed(self, texts: Sequence[str], vectors: Vectors) -> int:
        """Files in a folder, all renamed between two refreshes."""
        folder = emptied(self.store / "files")
        self.open()
        self._embedder.documents = {text: vectors[row] for row, text in enumerate(texts)}
        for row, text in enumerate(texts):
            (folder / f"{row}.txt").write_text(text, encoding="utf-8", newline="\n")
        self._index.add_source(folder, name="files")
        self._index.refresh()
        assert self._embedder.embedded == len(set(texts))
        self._embedder.embedded = 0
        for row in range(len(texts)):
            (folder / f"{row}.txt").rename(folder / f"renamed-{row}.txt")
        report = self._index.refresh()
        assert report.changes.count("renamed") == len(texts), report.changes.counts
        self.close()
        return self._embedder.embedded

    def close(self) -> None:
        self._index.close()

    def _rows(self, query: str, mode: Mode, limit: int) -> list[int]:
        rows: list[int] = []
        while len(rows) < limit:
            page = min(limit - len(rows), _PAGE)
            found = self._index.search(query, mode=mode, limit=page, offset=len(rows))
            rows.extend(int(hit.document_id) for hit in found.hits)
            if not found.has_more:
                break
        return rows


def _document(row: int, text: str) -> Document:
    return Document(str(row), text)


if __name__ == "__main__":
    serve(Sqlindex)
