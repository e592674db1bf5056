"""FTS5 and sqlite-vec side by side in one SQLite file, through apsw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import apsw
import sqlite_vec

from bench.peers.protocol import Driver, Vectors, fused, serve, words

_SCHEMA = """
    CREATE VIRTUAL TABLE t USING fts5(body, tokenize = 'porter unicode61');
    CREATE VIRTUAL TABLE v USING vec0(id INTEGER PRIMARY KEY, e float[384] distance_metric=cosine);
"""
_LEXICAL = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?"
_VECTOR = "SELECT id FROM v WHERE e MATCH ? AND k = ?"


class SqliteVec(Driver):
    """Every change is one transaction."""

    modes: ClassVar[tuple[str, ...]] = ("lexical", "vector", "hybrid")
    note = "English stems (`porter unicode61`); vec0: exact; hybrid: ranks fused by the driver"
    _db: apsw.Connection

    def build(self, texts: Sequence[str], vectors: Vectors) -> None:
        self.open()
        with self._db:
            self._db.execute(_SCHEMA)
            self._insert(texts, vectors)

    def open(self, texts: Sequence[str] = (), vectors: Vectors | None = None) -> None:
        self._db = apsw.Connection(str(self.store / "index.db"))
        self._db.enable_load_extension(True)
        self._db.load_extension(sqlite_vec.loadable_path())
        self._db.execute("PRAGMA journal_mode = WAL")

    def rebuild(self, texts: Sequence[str], vectors: Vectors) -> None:
        with self._db:
            self._db.execute("DELETE FROM t; DELETE FROM v")
            self._insert(texts, vectors)

    def replace(self, row: int, text: str, vector: bytes) -> None:
        with self._db:
            self._db.execute("UPDATE t SET body = ? WHERE rowid = ?", (text, row))
            self._db.execute("UPDATE v SET e = ? WHERE id = ?", (vector, row))

    def lexical(self, text: str, limit: int) -> list[int]:
        any_word = " OR ".join(f'"{word}"' for word in words(text))
        return [row for (row,) in self._db.execute(_LEXICAL, (any_word, limit))]

    def vector(self, text: str, vector: bytes, limit: int) -> list[int]:
        return [row for (row,) in self._db.execute(_VECTOR, (vector, limit))]

    def hybrid(self, text: str, vector: bytes, limit: int) -> list[int]:
        return fused([self.lexical(text, limit), self.vector(text, vector, limit)], limit)

    def close(self) -> None:
        self._db.close()

    def _insert(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._db.executemany("INSERT INTO t(rowid, body) VALUES (?, ?)", enumerate(texts))
        self._db.executemany("INSERT INTO v(id, e) VALUES (?, ?)", enumerate(vectors))


if __name__ == "__main__":
    serve(SqliteVec)
