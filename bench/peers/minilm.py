"""The local models of sqlindex as one of the drivers that embed: one thread, one text at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.peers.encoders import FOURS, ONE_BY_ONE, serve
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import require_staged

_ONE_TOKEN = " the"


class Local:
    """A staged model."""

    ways = (ONE_BY_ONE, FOURS)

    def __init__(self, model: str) -> None:
        self._embedder = LocalEmbedder(require_staged(model), threads=1)

    def embed(self, texts: Sequence[str], way: str) -> Any:
        """The vectors of texts.

        There is no graph that takes a batch. `FOURS` is what its arithmetic costs at least: each text
        as long as the longest of its four, and no mask; what comes out is of no use.
        """
        return self._embedder.embed_documents(self._padded(texts) if way == FOURS else texts)

    def _padded(self, texts: Sequence[str]) -> list[str]:
        tokens = self._embedder.count_tokens(texts)
        padded = []
        for at, text in enumerate(texts):
            longest = max(tokens[at - at % 4 : at - at % 4 + 4])
            padded.append(text + _ONE_TOKEN * (longest - tokens[at]))
        return padded

    def query(self, text: str) -> Any:
        """The vector of a query."""
        return self._embedder.embed_query(text)


if __name__ == "__main__":
    serve(Local)
