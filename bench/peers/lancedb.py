"""LanceDB: native full-text index, vectors without an index (exact)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import lancedb
import numpy as np
import pyarrow as pa

from bench.peers.protocol import Driver, Vectors, serve, words


class LanceDb(Driver):
    """One table of id, body and vector."""

    modes: ClassVar[tuple[str, ...]] = ("lexical", "vector", "hybrid")
    note = "German stems, no stop words; exact: no vector index"
    _table: Any

    def build(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._table = lancedb.connect(str(self.store)).create_table("d", _rows(texts, vectors))
        self._table.create_fts_index(
            "body", language="German", stem=True, ascii_folding=True, remove_stop_words=False
        )

    def open(self, texts: Sequence[str] = (), vectors: Vectors | None = None) -> None:
        self._table = lancedb.connect(str(self.store)).open_table("d")

    def rebuild(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._merge(_rows(texts, vectors))
        self._table.optimize()

    def replace(self, row: int, text: str, vector: bytes) -> None:
        matrix = np.frombuffer(vector, "<f4").reshape(1, -1)
        self._merge(_arrow([row], [text], matrix))

    def lexical(self, text: str, limit: int) -> list[int]:
        query = self._table.search(" ".join(words(text)), query_type="fts")
        return _ids(query.limit(limit))

    def vector(self, text: str, vector: bytes, limit: int) -> list[int]:
        query = self._table.search(np.frombuffer(vector, "<f4")).metric("cosine")
        return _ids(query.limit(limit))

    def hybrid(self, text: str, vector: bytes, limit: int) -> list[int]:
        query = self._table.search(query_type="hybrid").vector(np.frombuffer(vector, "<f4"))
        return _ids(query.text(" ".join(words(text))).metric("cosine").limit(limit))

    def _merge(self, rows: pa.Table) -> None:
        self._table.merge_insert(
            "id"
        ).when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _ids(query: Any) -> list[int]:
    return [int(row) for row in query.select(["id"]).to_arrow()["id"].to_pylist()]


def _rows(texts: Sequence[str], vectors: Vectors) -> pa.Table:
    return _arrow(range(len(texts)), texts, np.load(vectors.path))


def _arrow(ids: Sequence[int], texts: Sequence[str], matrix: np.ndarray[Any, Any]) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
    return pa.table({"id": list(ids), "body": list(texts), "vector": vectors})


if __name__ == "__main__":
    serve(LanceDb)
