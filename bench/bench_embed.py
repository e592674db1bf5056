"""Embedding with MiniLM: beside sentence-transformers, the processor's own limit, and itself."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from bench import figures as tables
from bench.child import run_child
from bench.data import Texts
from bench.figures import Figure, at_most, median_of
from bench.machine import SEED
from bench.peers.encoders import FOURS, ONE_BY_ONE
from bench.peers.environments import PeerFailedError, interpreter
from bench.peers.processes import Peer, write_corpus
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import StagedModel, find_staged, require_staged
from sqlindex.index import Index

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DEFAULT_TEXTS = 32
ROUNDS = 5
COLD_ROUNDS = 3
PIPELINE_TIMES = 16
"""The whole pipeline gets so many times the texts: what it costs to make a file must not show."""
MIN_WORDS, MAX_WORDS = 5, 70
"""Of a text: 20 to 240 tokens or so, fewer than any package cuts at."""

FP32, INT8, TORCH = "fp32", "int8", "torch"
_MODELS = {FP32: "minilm", INT8: "minilm-int8", TORCH: "minilm"}
_PEERS = {FP32: "minilm", INT8: "minilm", TORCH: "sentence_transformers"}

TORCH_LIMIT = 0.95
FLOOR_LIMIT = 1.25
INT8_LIMIT = 0.50
ONE_BY_ONE_LIMIT = 0.70
CALLERS_LIMIT = 0.70
PIPELINE_LIMIT = 1.10
COLD_LIMIT = 0.08
PEAK_LIMIT = 0.40
DIFFERENCE_LIMIT = 1e-5

FLOP_PER_TOKEN = 6 * 2 * (4 * 384 * 384 + 2 * 384 * 1536)
FLOP_PER_SQUARED_TOKEN = 6 * 2 * 2 * 384
"""Matrix products of MiniLM's six layers; a token's attention grows with the length of its text."""

_UNITS = {"cold": "ms", "peak": "MiB", "bulk_peak": "MiB"}


class RecordingEmbedder(LocalEmbedder):
    """Keeps the texts that it embeds."""

    def __init__(self, staged: StagedModel) -> None:
        super().__init__(staged)
        self.texts: list[str] = []

    def embed_counted(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], list[int]]:
        """As its parent."""
        self.texts += texts
        return super().embed_counted(texts)


@dataclass(slots=True)
class _Samples:
    """What was measured in each round, by side and name; why a side was not measured."""

    n: int
    by_name: dict[str, list[float]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, side: str, name: str, value: float) -> None:
        self.by_name.setdefault(f"{side}.{name}", []).append(value)

    def fail(self, side: str, reason: str) -> None:
        """Leave a side out from here on, with all that was measured of it."""
        self.reasons[side] = reason
        for name in [name for name in self.by_name if name.startswith(f"{side}.")]:
            del self.by_name[name]

    def ratio(self, figure: str, ours: str, theirs: str, limit: float) -> Figure:
        """Median to median; without a value if a side has none."""
        for name in (ours, theirs):
            if name not in self.by_name:
                return missing(figure, "ratio", self.n, self.reasons[name.partition(".")[0]])
        return ratio(figure, self.by_name[ours], self.by_name[theirs], self.n, limit)

    def absolute(self) -> Iterator[Figure]:
        """The medians behind the ratios."""
        for name, values in self.by_name.items():
            unit = _UNITS.get(name.partition(".")[2], "CPU ms/text")
            yield median_of(f"embed.{name}", values, unit, self.n)


def run(n: int | None) -> Iterator[Figure]:
    """Measure `n` texts (32 by default) of mixed lengths; what is compared takes turns.

    Raises:
        ModelNotInstalledError: MiniLM is not installed.
    """
    staged = require_staged(_MODELS[FP32])
    texts = mixed_texts(n or DEFAULT_TEXTS)
    with tempfile.TemporaryDirectory(prefix="sqlindex-embed-") as scratch:
        base = Path(scratch).resolve()
        yield from _in_processes(base, staged, texts)
        yield _two_callers(staged, texts)
        yield _pipeline(base, staged, mixed_texts(len(texts) * PIPELINE_TIMES))


def mixed_texts(count: int) -> list[str]:
    """Seeded texts of mixed lengths, in no order."""
    import numpy as np

    texts = Texts()
    lengths = np.random.default_rng(SEED).integers(MIN_WORDS, MAX_WORDS + 1, count)
    return [texts.text(int(words)) for words in lengths]


def _in_processes(base: Path, staged: StagedModel, texts: Sequence[str]) -> Iterator[Figure]:
    """One thread each, in a process of its own: many texts, and the first query of a cold one."""
    import numpy as np

    samples = _Samples(len(texts))
    nothing = np.empty((0, 384), np.float32)
    corpus = write_corpus(base / "given", texts, nothing, [Texts().query()])
    peers = _peers(samples)
    flop = _flop(staged, texts)
    for at in range(ROUNDS):
        for side, peer in peers.items():
            if side in samples.reasons:
                continue
            print(f"round {at + 1} of {ROUNDS}: {side}", file=sys.stderr, flush=True)
            try:
                _measure(samples, side, peer, base, corpus, has_cold=at < COLD_ROUNDS)
            except PeerFailedError as exc:
                samples.fail(side, str(exc))
        samples.add("floor", ONE_BY_ONE, flop / run_child("gemm")["flop_per_ms"])
    yield from samples.absolute()
    ours = f"{FP32}.{ONE_BY_ONE}"
    of_torch = [name for name in samples.by_name if name.startswith(f"{TORCH}.") and _is_ms(name)]
    best = min(
        of_torch, key=lambda name: statistics.median(samples.by_name[name]), default=f"{TORCH}."
    )
    yield samples.ratio("embed.fp32_to_torch", ours, best, TORCH_LIMIT)
    yield samples.ratio("embed.fp32_to_floor", ours, f"floor.{ONE_BY_ONE}", FLOOR_LIMIT)
    yield samples.ratio("embed.int8_to_fp32", f"{INT8}.{ONE_BY_ONE}", ours, INT8_LIMIT)
    fours = f"{FP32}.{FOURS}"
    yield samples.ratio("embed.one_by_one_to_fours", ours, fours, ONE_BY_ONE_LIMIT)
    yield samples.ratio("embed.cold_to_torch", f"{FP32}.cold", f"{TORCH}.cold", COLD_LIMIT)
    yield samples.ratio("embed.peak_to_torch", f"{FP32}.peak", f"{TORCH}.peak", PEAK_LIMIT)
    yield _difference(samples, base)


def _is_ms(name: str) -> bool:
    return name.partition(".")[2] not in _UNITS


def _peers(samples: _Samples) -> dict[str, Peer]:
    """The sides that can be run."""
    peers = {FP32: Peer(_PEERS[FP32], Path(sys.executable))}
    if find_staged(_MODELS[INT8]) is None:
        samples.fail(INT8, f"not installed: sqlindex model install {_MODELS[INT8]}")
    else:
        peers[INT8] = Peer(_PEERS[INT8], Path(sys.executable))
    cache = Path(platformdirs.user_cache_dir("sqlindex", appauthor=False)) / "bench" / "peers"
    cache.mkdir(parents=True, exist_ok=True)
    try:
        peers[TORCH] = Peer(_PEERS[TORCH], interpreter(_PEERS[TORCH], cache))
    except PeerFailedError as exc:
        samples.fail(TORCH, str(exc))
    return peers


def _measure(
    samples: _Samples, side: str, peer: Peer, base: Path, corpus: Path, *, has_cold: bool
) -> None:
    model = _MODELS[side]
    said = peer.run("embed", base, corpus, model, _vectors(base, side))[-1]
    for way, spent_ms in said["ms"].items():
        samples.add(side, way, spent_ms)
    samples.add(side, "bulk_peak", said["peak_mib"])
    if has_cold:
        took_s, said_first = peer.first_answer(base, corpus, model)
        samples.add(side, "cold", took_s * 1000)
        samples.add(side, "peak", said_first[-1]["peak_mib"])


def _vectors(base: Path, side: str) -> Path:
    return base / f"{side}.npy"


def _flop(staged: StagedModel, texts: Sequence[str]) -> float:
    """Mean floating point operations of a text."""
    embedder = LocalEmbedder(staged, threads=1)
    tokens = embedder.count_tokens(texts)
    embedder.close()
    return statistics.fmean(
        FLOP_PER_TOKEN * count + FLOP_PER_SQUARED_TOKEN * count**2 for count in tokens
    )


def _difference(samples: _Samples, base: Path) -> Figure:
    """The largest difference of a component between two implementations of the same model."""
    import numpy as np

    figure, unit = "embed.fp32_difference_to_torch", "components"
    if TORCH in samples.reasons:
        return missing(figure, unit, samples.n, samples.reasons[TORCH])
    ours, theirs = (np.load(_vectors(base, side)) for side in (FP32, TORCH))
    return at_most(figure, float(np.abs(ours - theirs).max()), unit, samples.n, DIFFERENCE_LIMIT)


def _two_callers(staged: StagedModel, texts: Sequence[str]) -> Figure:
    """Wall time of two threads that share the model, to one's."""
    figure = "embed.two_callers_to_one"
    if len(os.sched_getaffinity(0)) < 2:
        return missing(figure, "ratio", len(texts), "one processor")
    one, two = (LocalEmbedder(staged, threads=threads) for threads in (1, 2))
    took: dict[int, list[float]] = {1: [], 2: []}
    for at in range(ROUNDS + 1):
        for threads, embedder in ((1, one), (2, two)):
            seconds = _seconds(embedder.embed_documents, texts)
            if at:  # the first round loads the model
                took[threads].append(seconds)
    one.close()
    two.close()
    return ratio(figure, took[2], took[1], len(texts), CALLERS_LIMIT)


def _pipeline(base: Path, staged: StagedModel, texts: Sequence[str]) -> Figure:
    """Wall time of a first refresh of a folder, to that of embedding the same texts alone."""
    folder = base / "texts"
    folder.mkdir()
    for at, text in enumerate(texts):
        (folder / f"{at:06}.txt").write_text(text, encoding="utf-8")
    embedder = RecordingEmbedder(staged)
    refreshes, alone = [], []
    for at in range(ROUNDS + 1):
        embedder.texts.clear()
        refreshed = _seconds(_refresh, base / f"{at}.db", folder, embedder)
        embedded = list(embedder.texts)
        assert len(embedded) == len(texts), "a file is one chunk"
        by_itself = _seconds(embedder.embed_documents, embedded)
        if at:
            refreshes.append(refreshed)
            alone.append(by_itself)
    embedder.close()
    return ratio("embed.pipeline_to_alone", refreshes, alone, len(texts), PIPELINE_LIMIT)


def _refresh(path: Path, folder: Path, embedder: LocalEmbedder) -> None:
    with Index.open(path, create=True, embedder=embedder) as index:
        index.add_source(folder)
        index.refresh()


def _seconds(work: Callable[..., object], *arguments: object) -> float:
    started = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - started


def ratio(
    figure: str, ours: Sequence[float], theirs: Sequence[float], n: int, limit: float
) -> Figure:
    """Median to median, with the ratio of each round."""
    baseline = statistics.median(theirs)
    return Figure(
        figure=figure,
        value=statistics.median(ours) / baseline,
        unit="ratio",
        n=n,
        limit=limit,
        sense="<=",
        baseline=baseline,
        repeats=tuple(a / b for a, b in zip(ours, theirs, strict=True)),
    )


def missing(figure: str, unit: str, n: int, reason: str) -> Figure:
    """A figure that could not be measured here."""
    return Figure(figure=figure, value=None, unit=unit, n=n, details={"reason": reason})


def render(figures: Sequence[Figure]) -> str:
    """The table, and why a figure has no value."""
    reasons = [
        f"{figure.figure}: {figure.details['reason']}" for figure in figures if figure.value is None
    ]
    return "\n".join([tables.render(figures), *reasons])
