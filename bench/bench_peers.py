"""The same chunks, vectors and questions through sqlindex and its peers, each in its own process."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import platformdirs

from bench.figures import Figure, median_of
from bench.peers import corpus as corpora
from bench.peers.checks import Checks, not_applicable
from bench.peers.corpus import Corpus
from bench.peers.environments import PeerFailedError, interpreter
from bench.peers.processes import Peer, Said, write_corpus
from bench.peers.protocol import MODES
from bench.peers.quality import mean_ndcg, vector_recall
from bench.peers.table import terminal
from sqlindex.errors import UsageError
from sqlindex.evaluation.runs import percentile

OURS = "sqlindex"
PEERS = (OURS, "sqlite_vec", "lancedb", "chroma", "txtai", "tantivy", "bm25s", "duckdb")
QUICK = (OURS, "sqlite_vec")
DEFAULT_TEXTS = 20_000
QUICK_TEXTS = 500
TIMED_QUESTIONS = 100
SEARCH_PASSES = 3
BUILDS = 2
UNTIMED_AT_ONCE = 2

render = terminal


def run(n: int | None, *, quick: bool = False, only: Sequence[str] = ()) -> Iterator[Figure]:
    """Measure `n` texts (20,000 by default) through the peers.

    All peers take turns in each pass, so that a busy machine shows in the ranges of all. A peer
    that cannot be installed or fails gives figures without a value, with the reason.

    Args:
        quick: 500 made-up texts through two peers.
        only: names of peers; sqlindex, which the ratios need, always takes part.

    Raises:
        UsageError: a peer is unknown, or the texts are there and MiniLM is not.
    """
    unknown = [name for name in only if name not in PEERS]
    if unknown:
        raise UsageError(f"no peer is called {unknown[0]}", hint=f"known: {', '.join(PEERS)}")
    chosen = [n for n in PEERS if n in {OURS, *only}] if only else list(QUICK if quick else PEERS)
    cache = Path(platformdirs.user_cache_dir("sqlindex", appauthor=False)) / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    if quick or not corpora.has_judged_texts():
        corpus = corpora.made_up_corpus(n or QUICK_TEXTS)
    else:
        corpus = corpora.judged_corpus(n or DEFAULT_TEXTS, cache)
    with tempfile.TemporaryDirectory(prefix="sqlindex-peers-") as base:
        yield from _Comparison(Path(base).resolve(), corpus, cache).figures(chosen)


@dataclass(slots=True)
class _Measured:
    """What was measured of a peer, by name of the figure; figures without a value."""

    peer: Peer
    facts: Said
    samples: dict[str, list[float]] = field(default_factory=dict)
    rankings: dict[str, list[list[int]]] = field(default_factory=dict)
    checks: list[Figure] = field(default_factory=list)
    failed: str = ""

    def add(self, name: str, value: float) -> None:
        self.samples.setdefault(name, []).append(value)


class _Comparison:
    """One run through all peers."""

    def __init__(self, base: Path, corpus: Corpus, cache: Path) -> None:
        self._base = base
        self._corpus = corpus
        self._cache = cache
        self._given = write_corpus(
            base / "given",
            corpus.texts,
            corpus.text_vectors,
            [question.text for question in corpus.questions],
            corpus.question_vectors,
        )
        self._checks = Checks(base, corpus)

    def figures(self, names: Sequence[str]) -> Iterator[Figure]:
        """All figures, those of sqlindex first: the others' baselines."""
        # What is not timed is done for two peers at a time.
        with ThreadPoolExecutor(UNTIMED_AT_ONCE) as pool:
            peers = list(pool.map(self._prepared, names))
        able = [measured for measured in peers if not measured.failed]
        steps: list[Callable[[_Measured], None]] = []
        for at in range(SEARCH_PASSES):
            if at < BUILDS:
                steps.append(self._build)
            steps.append(self._first_pass if at == 0 else self._search)
            steps.append(self._first_answer)
        for step in (*steps, self._replace):
            for measured in able:
                _attempt(measured, step)
        with ThreadPoolExecutor(UNTIMED_AT_ONCE) as pool:
            list(pool.map(lambda measured: _attempt(measured, self._check), able))
        baselines: dict[str, float | None] = {}
        for measured in peers:
            for figure in self._of(measured):
                name = figure.figure.split(".", 2)[2]
                if measured.peer.name == OURS:
                    baselines[name] = figure.value
                    yield figure
                else:
                    yield replace(figure, baseline=baselines.get(name))

    def _prepared(self, name: str) -> _Measured:
        """Environment and facts of a peer."""
        try:
            peer = Peer(name, interpreter(name, self._cache / "peers"))
            return _Measured(peer, peer.run("facts", self._base, self._base)[-1])
        except PeerFailedError as exc:
            return _Measured(Peer(name, Path()), {}, failed=str(exc))

    def _store(self, measured: _Measured) -> Path:
        return self._base / "stores" / measured.peer.name

    def _build(self, measured: _Measured) -> None:
        said = measured.peer.run("build", self._store(measured), self._given)[-1]
        measured.add("build", said["build_s"])
        measured.add("build.peak", said["peak_mib"])
        files = [path for path in self._store(measured).rglob("*") if path.is_file()]
        measured.add("size", sum(path.stat().st_size for path in files) / 1e6)

    def _first_pass(self, measured: _Measured) -> None:
        self._search(measured, ranked=True)

    def _search(self, measured: _Measured, ranked: bool = False) -> None:
        said = measured.peer.run(
            "search", self._store(measured), self._given, TIMED_QUESTIONS, int(ranked)
        )
        for of_mode in said[:-1]:
            mode = of_mode["mode"]
            measured.add(f"{mode}.p50", percentile(of_mode["ms"], 50))
            measured.add(f"{mode}.p95", percentile(of_mode["ms"], 95))
            if ranked:
                measured.rankings[mode] = of_mode["rankings"]
        measured.add("search.peak", said[-1]["peak_mib"])

    def _first_answer(self, measured: _Measured) -> None:
        mode = measured.facts["modes"][0]
        took_s = measured.peer.first_answer_s(self._store(measured), self._given, mode)
        measured.add(f"{mode}.first", took_s)

    def _replace(self, measured: _Measured) -> None:
        said = measured.peer.run("replace", self._store(measured), self._given)[-1]
        for took_ms in said["ms"]:
            measured.add("replace", took_ms)

    def _check(self, measured: _Measured) -> None:
        peer, facts = measured.peer, measured.facts
        checks: tuple[tuple[str, str, Callable[[], Figure]], ...] = (
            ("killed.complete", "kills", partial(self._checks.killed, peer)),
            ("renamed.embedded", "texts", partial(self._checks.renamed, peer, facts)),
            ("probes.found", "probes", partial(self._checks.german, peer, facts)),
        )
        for name, unit, check in checks:
            try:
                measured.checks.append(check())
            except PeerFailedError as exc:
                measured.checks.append(not_applicable(peer.name, name, unit, str(exc)))

    def _of(self, measured: _Measured) -> Iterator[Figure]:
        """The figures of one peer."""
        name, count = measured.peer.name, len(self._corpus.texts)
        details: Mapping[str, object] = measured.facts or {"reason": measured.failed}
        if measured.facts and measured.failed:
            details = {**details, "reason": measured.failed}
        yield Figure(
            figure=f"peers.{name}.packages",
            value=len(measured.facts["versions"]) - 1 if measured.facts else None,
            unit="packages",
            n=count,
            details=details,
        )
        for figure, samples in measured.samples.items():
            yield median_of(f"peers.{name}.{figure}", samples, _unit(figure), count)
        for mode in MODES:
            if mode in measured.rankings:
                yield from self._quality(name, mode, measured.rankings[mode])
        yield from measured.checks

    def _quality(self, name: str, mode: str, rankings: list[list[int]]) -> Iterator[Figure]:
        questions = len(rankings)
        by_collection = mean_ndcg(self._corpus, rankings)
        values = {f"ndcg.{collection}": value for collection, value in by_collection.items()}
        yield Figure(
            figure=f"peers.{name}.{mode}.ndcg",
            value=statistics.fmean(by_collection.values()) if by_collection else None,
            unit="nDCG@10",
            n=questions,
            details={} if by_collection else {"reason": "nothing is judged"},
        )
        for figure, value in values.items():
            yield Figure(
                figure=f"peers.{name}.{mode}.{figure}", value=value, unit="nDCG@10", n=questions
            )
        if mode == "vector":
            yield Figure(
                figure=f"peers.{name}.vector.recall",
                value=vector_recall(self._corpus, rankings),
                unit="share",
                n=questions,
            )


def _attempt(measured: _Measured, step: Callable[[_Measured], None]) -> None:
    """Take a step; a peer that has failed is left out of the following ones."""
    if measured.failed:
        return
    print(f"{step.__name__.strip('_')} {measured.peer.name}", file=sys.stderr, flush=True)
    try:
        step(measured)
    except PeerFailedError as exc:
        measured.failed = str(exc)


def _unit(figure: str) -> str:
    if figure == "build" or figure.endswith(".first"):
        return "s"
    return {"size": "MB", "build.peak": "MiB", "search.peak": "MiB"}.get(figure, "ms")
