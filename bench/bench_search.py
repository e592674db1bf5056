"""Latency of the three modes, beside what SQLite and numpy take for the same work."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data import Texts
from bench.figures import Figure
from sqlindex.analysis.terms import query_terms
from sqlindex.config import SearchConfig
from sqlindex.evaluation.runs import percentile
from sqlindex.index import Index
from sqlindex.model.requests import MODES, Mode
from sqlindex.search.lexical.match_expression import any_of
from sqlindex.sources.memory import Document
from sqlindex.store.connection import IndexFile
from sqlindex.store.head import read_head
from sqlindex.store.lexical import FieldWeights, matches
from sqlindex.store.vectors import read_vectors, space_of
from sqlindex.testing.embedders import HashingEmbedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DEFAULT_CHUNKS = 20_000
DIMENSIONS = 384
QUERIES = 40
ROUNDS = 7
LIMIT = 10
_ALL_COLUMNS = FieldWeights(title=1, headings=1, body=1, tags=1, path=1)


def run(n: int | None) -> Iterator[Figure]:
    """Measure `n` chunks (20,000 by default) with hashed vectors of 384 dimensions.

    Hashing costs almost nothing, so these latencies leave out the inference of a query.
    """
    chunks = n or DEFAULT_CHUNKS
    texts = Texts()
    embedder = HashingEmbedder(DIMENSIONS)
    with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as folder:
        index_path = Path(folder) / "index.db"
        documents = [Document(f"{at:07}", texts.text()) for at in range(chunks)]
        queries = [texts.query() for _ in range(QUERIES)]
        with Index.open(index_path, create=True, embedder=embedder) as index:
            index.upsert("texts", documents)
            del documents
            floors = _Floors(index_path, embedder)
            works = _works(index, floors)
            first_ms = {name: _timed_ms(work, queries[0]) for name, work in works}
            samples: dict[str, list[list[float]]] = {}
            for _ in range(ROUNDS):
                for name, work in works:
                    round_ms = [_timed_ms(work, query) for query in queries]
                    samples.setdefault(name, []).append(round_ms)
            floors.close()
    floor_of = {"lexical": "match", "semantic": "vecdot"}
    for mode in MODES:
        floor = floor_of.get(mode)
        for name, percent in (("p50", 50), ("p95", 95)):
            yield Figure(
                figure=f"search.{mode}.{name}",
                value=_median_percentile(samples[mode], percent),
                unit="ms",
                n=chunks,
                baseline=_median_percentile(samples[floor], percent) if floor else None,
                repeats=tuple(percentile(round_ms, percent) for round_ms in samples[mode]),
            )
        yield Figure(figure=f"search.{mode}.first", value=first_ms[mode], unit="ms", n=chunks)
    for name in floor_of.values():
        yield Figure(
            figure=f"search.floor.{name}",
            value=_median_percentile(samples[name], 50),
            unit="ms",
            n=chunks,
            repeats=tuple(percentile(round_ms, 50) for round_ms in samples[name]),
        )


class _Floors:
    """The least that each channel's engine takes: one `MATCH`, one pass over the matrix."""

    def __init__(self, index_path: Path, embedder: HashingEmbedder) -> None:
        import numpy as np

        self._embedder = embedder
        config = SearchConfig()
        self._file = IndexFile.open(index_path, make=False, busy_timeout_ms=config.busy_timeout_ms)
        with self._file.reading() as connection:
            head = read_head(connection)
            assert head.space_id is not None
            _, dimensions = space_of(connection, head.space_id)
            blocks = [block for _, _, block in read_vectors(connection, head.space_id, dimensions)]
        self._matrix: npt.NDArray[np.float32] = np.concatenate(blocks)

    def match(self, query: str) -> None:
        """`MATCH` with BM25 through FTS5, the best ten rowids."""
        expression = any_of(query_terms(query))
        with self._file.reading() as connection:
            table = read_head(connection).lexical
            list(islice(matches(connection, table, expression, _ALL_COLUMNS), LIMIT))

    def vecdot(self, query: str) -> None:
        """The dot product of the query with every vector, in memory."""
        import numpy as np

        np.vecdot(self._matrix, self._embedder.embed_query(query))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _works(index: Index, floors: _Floors) -> list[tuple[str, Callable[[str], None]]]:
    """Everything that is timed, in the order of a round."""
    works: list[tuple[str, Callable[[str], None]]] = []
    for mode in MODES:

        def search(query: str, mode: Mode = mode) -> None:
            _search(index, query, mode)

        works.append((mode, search))
    return [*works, ("match", floors.match), ("vecdot", floors.vecdot)]


def _search(index: Index, query: str, mode: Mode) -> None:
    index.search(query, mode=mode, limit=LIMIT)


def _timed_ms(work: Callable[[str], None], query: str) -> float:
    started = time.perf_counter()
    work(query)
    return (time.perf_counter() - started) * 1000


def _median_percentile(rounds: list[list[float]], percent: float) -> float:
    """The median over rounds of a percentile over queries."""
    return statistics.median(percentile(round_ms, percent) for round_ms in rounds)
