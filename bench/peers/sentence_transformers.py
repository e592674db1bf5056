"""MiniLM in sentence-transformers on torch: one thread of the processor, 32-bit floats."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from bench.peers.encoders import FOURS, ONE_BY_ONE, serve
from sqlindex.embedding.models import CHECKPOINT, MINILM

CARRIER = MINILM.carriers[0].distribution
"""The package that holds the whole model as its authors publish it, settings included."""


_BATCH_SIZES = {ONE_BY_ONE: 1, "sorted_4": 4, "sorted_32": 32}


class Torch:
    """MiniLM from the package that carries it."""

    ways = (*_BATCH_SIZES, FOURS)

    def __init__(self, _: str) -> None:
        torch.set_num_threads(1)
        self._model = SentenceTransformer(str(_folder()), device="cpu", local_files_only=True)
        self._model.max_seq_length = MINILM.token_limit

    def embed(self, texts: Sequence[str], way: str) -> Any:
        """The vectors of texts. It sorts them by length before it makes batches; `FOURS` does not."""
        if way != FOURS:
            return self._encode(list(texts), _BATCH_SIZES[way])
        rows = [self._encode(list(texts[at : at + 4]), 4) for at in range(0, len(texts), 4)]
        return np.concatenate(rows)

    def query(self, text: str) -> Any:
        """The vector of a query."""
        return self._encode([text], 1)[0]

    def _encode(self, texts: list[str], batch_size: int) -> Any:
        return self._model.encode(texts, batch_size=batch_size, show_progress_bar=False)


def _folder() -> Path:
    (checkpoint,) = (
        Path(str(file.locate()))
        for file in metadata.files(CARRIER) or ()
        if file.name == CHECKPOINT
    )
    return checkpoint.parent


if __name__ == "__main__":
    serve(Torch)
