"""What a driver that embeds and the benchmark say to each other; standard library only.

A driver is a module `bench/peers/NAME.py` that ends with `serve(load)`, run as the others' (see
`protocol`): `python -m bench.peers.NAME TASK STORE CORPUS ARGUMENT…`. The first argument is the name
of the model; texts and questions are those of `CORPUS`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from bench.peers.protocol import peak_mib, read_texts

ONE_BY_ONE = "one_by_one"
FOURS = "fours_padded"
"""Batches of four in the order of the texts, padded to their longest."""


class Encoder(Protocol):
    """A loaded model that uses one thread."""

    @property
    def ways(self) -> Sequence[str]:
        """Ways to embed many texts, `ONE_BY_ONE` first; the package's own batches, and `FOURS`."""

    def embed(self, texts: Sequence[str], way: str) -> Any:
        """The vectors of texts, an array of numpy."""

    def query(self, text: str) -> Any:
        """The vector of a query."""


def serve(load: Callable[[str], Encoder]) -> None:
    """Run the task that the command line names."""
    task, _, corpus, model, *arguments = sys.argv[1:]
    _TASKS[task](load, Path(corpus), model, arguments)


def _embed(load: Callable[[str], Encoder], corpus: Path, model: str, arguments: list[str]) -> None:
    """Processor time of all texts in each way, model loaded and warm; vectors into a file, if named."""
    texts = read_texts(corpus)
    encoder = load(model)
    encoder.embed(texts[:4], encoder.ways[0])
    spent_ms = {}
    for way in encoder.ways:
        before = time.process_time()
        vectors = encoder.embed(texts, way)
        spent_ms[way] = (time.process_time() - before) * 1000 / len(texts)
        if way == ONE_BY_ONE and arguments:
            import numpy as np

            np.save(arguments[0], vectors)
    print(json.dumps({"ms": spent_ms, "peak_mib": peak_mib()}))


def _first(load: Callable[[str], Encoder], corpus: Path, model: str, _: list[str]) -> None:
    """The first query vector of a new process; the benchmark holds the clock."""
    (question, *_others) = read_texts(corpus, "questions")
    print(json.dumps({"width": len(load(model).query(question))}), flush=True)
    print(json.dumps({"peak_mib": peak_mib()}))


_TASKS: dict[str, Callable[[Callable[[str], Encoder], Path, str, list[str]], None]] = {
    "embed": _embed,
    "first": _first,
}
