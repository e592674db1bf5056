"""The local models of sqlindex as one of the drivers that embed: one thread, one text at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.peers.encoders import ONE_BY_ONE, serve
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import require_staged


class Local:
    """A staged model."""

    ways = (ONE_BY_ONE,)

    def __init__(self, model: str) -> None:
        self._embedder = LocalEmbedder(require_staged(model), threads=1)

    def embed(self, texts: Sequence[str], way: str) -> Any:
        """The vectors of texts; there is one way."""
        return self._embedder.embed_documents(texts)

    def query(self, text: str) -> Any:
        """The vector of a query."""
        return self._embedder.embed_query(text)


if __name__ == "__main__":
    serve(Local)
