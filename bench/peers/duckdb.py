"""DuckDB with its full-text extension and exact cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import duckdb
import numpy as np
import pyarrow as pa
from duckdb_extensions import import_extension

from bench.peers.protocol import Driver, Vectors, fused, serve, words

_TABLE = "CREATE OR REPLACE TABLE d(id INTEGER PRIMARY KEY, body TEXT, e FLOAT[384])"
_INDEX = """
    PRAGMA create_fts_index('d', 'id', 'body', stemmer = 'german', stopwords = 'none',
        ignore = '[^a-zäöüß0-9]+', strip_accents = 0, overwrite = 1)
"""
_LEXICAL = """
    SELECT id FROM (SELECT id, fts_main_d.match_bm25(id, ?) AS score FROM d)
    WHERE score IS NOT NULL ORDER BY score DESC, id LIMIT ?
"""
_VECTOR = "SELECT id FROM d ORDER BY array_cosine_distance(e, ?::FLOAT[384]), id LIMIT ?"


class DuckDb(Driver):
    """One table; its full-text index does not follow changes and is made anew with it."""

    modes: ClassVar[tuple[str, ...]] = ("lexical", "vector", "hybrid")
    note = (
        "German stems, no stop words; exact; hybrid: ranks fused by the driver; "
        "a change rebuilds the full-text index"
    )
    _db: duckdb.DuckDBPyConnection

    def build(self, texts: Sequence[str], vectors: Vectors) -> None:
        self.open()
        self.rebuild(texts, vectors)
        self._db.execute("CHECKPOINT")

    def open(self, texts: Sequence[str] = (), vectors: Vectors | None = None) -> None:
        import_extension("fts")
        self._db = duckdb.connect(str(self.store / "index.duckdb"))
        self._db.execute("LOAD fts")

    def rebuild(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._db.execute("BEGIN")
        self._db.execute(_TABLE)
        self._insert(texts, vectors)
        self._db.execute(_INDEX)
        self._db.execute("COMMIT")

    def replace(self, row: int, text: str, vector: bytes) -> None:
        self._db.execute("BEGIN")
        self._db.execute(
            "UPDATE d SET body = ?, e = ?::FLOAT[384] WHERE id = ?",
            [text, np.frombuffer(vector, "<f4").tolist(), row],
        )
        self._db.execute(_INDEX)
        self._db.execute("COMMIT")

    def lexical(self, text: str, limit: int) -> list[int]:
        found = self._db.execute(_LEXICAL, [" ".join(words(text)), limit]).fetchall()
        return [row for (row,) in found]

    def vector(self, text: str, vector: bytes, limit: int) -> list[int]:
        query = np.frombuffer(vector, "<f4").tolist()
        return [row for (row,) in self._db.execute(_VECTOR, [query, limit]).fetchall()]

    def hybrid(self, text: str, vector: bytes, limit: int) -> list[int]:
        return fused([self.lexical(text, limit), self.vector(text, vector, limit)], limit)

    def close(self) -> None:
        self._db.close()

    def _insert(self, texts: Sequence[str], vectors: Vectors) -> None:
        matrix = np.load(vectors.path)
        arrays = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
        rows = pa.table({"id": range(len(texts)), "body": texts, "e": arrays})
        self._db.register("rows", rows)
        self._db.execute("INSERT INTO d SELECT id, body, e::FLOAT[384] FROM rows")
        self._db.unregister("rows")


if __name__ == "__main__":
    serve(DuckDb)
