"""Chroma: a graph of vectors (HNSW), approximate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import chromadb
import numpy as np
from chromadb.config import Settings

from bench.peers.protocol import Driver, Vectors, serve

_BATCH = 2_000


class Chroma(Driver):
    """One collection with texts and vectors; no BM25 in its local form."""

    modes: ClassVar[tuple[str, ...]] = ("vector",)
    is_approximate = True
    note = "HNSW with its defaults: approximate; no ranked lexical search in the local package"
    _collection: Any

    def build(self, texts: Sequence[str], vectors: Vectors) -> None:
        self.open()
        self.rebuild(texts, vectors)

    def open(self, texts: Sequence[str] = (), vectors: Vectors | None = None) -> None:
        client = chromadb.PersistentClient(
            str(self.store), settings=Settings(anonymized_telemetry=False)
        )
        self._collection = client.get_or_create_collection(
            "texts", embedding_function=None, metadata={"hnsw:space": "cosine"}
        )

    def rebuild(self, texts: Sequence[str], vectors: Vectors) -> None:
        matrix = np.load(vectors.path)
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            self._collection.upsert(
                ids=[str(start + at) for at in range(len(batch))],
                embeddings=matrix[start : start + _BATCH],
                documents=list(batch),
            )

    def replace(self, row: int, text: str, vector: bytes) -> None:
        self._collection.upsert(
            ids=[str(row)], embeddings=[np.frombuffer(vector, "<f4")], documents=[text]
        )

    def vector(self, text: str, vector: bytes, limit: int) -> list[int]:
        found = self._collection.query(
            query_embeddings=[np.frombuffer(vector, "<f4")], n_results=limit, include=[]
        )
        return [int(name) for name in found["ids"][0]]

    def count(self, word: str) -> int:
        found = self._collection.get(where_document={"$contains": word}, include=[])
        return len(found["ids"])


if __name__ == "__main__":
    serve(Chroma)
