"""Retrieval quality on every judged set, in every mode and configuration, beside the saved values."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from bench.figures import Figure, aligned, reported
from bench.quality import golden
from bench.quality.kept import KeptQueryVectors, Runs, code_digest, kept_runs
from bench.quality.sets import JudgedSet, judged_sets
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import require_staged
from sqlindex.evaluation.configurations import DEFAULT_CONFIGURATION
from sqlindex.evaluation.evaluate import evaluate
from sqlindex.evaluation.options import EvalOptions
from sqlindex.evaluation.report import EvalReport
from sqlindex.model.requests import MODES

MEASURES = ("nDCG@10", "R@100", "MRR")
DEFAULT = DEFAULT_CONFIGURATION.name
CONFIGURATIONS = (DEFAULT_CONFIGURATION,)
"""Each is run on every set in every mode; the default one, first, is compared with the saved values."""

WORST = 5
"""Queries told of a set: those that lost most."""


def run(n: int | None) -> Iterator[Figure]:
    """Evaluate each set on its first `n` queries; all by default.

    Kept in the user's cache are the indexes, the vectors of queries, and the results of each set
    until the code, the model or the set changes: the first run embeds all corpora (about half an
    hour), later ones take minutes, or seconds if nothing changed.
    """
    for name, runs in _runs_of_sets(n):
        yield from _figures(name, runs)
        yield from _beside_golden(name, runs)


def on_save(n: int | None) -> None:
    """Save each query's values too, if all were asked."""
    if n is None:
        for name, runs in _runs_of_sets(n):
            golden.write(name, _default_values(runs))


def _runs_of_sets(n: int | None) -> Iterator[tuple[str, Runs]]:
    embedder = LocalEmbedder(require_staged("minilm"))
    inputs = (n, embedder.query_identity, CONFIGURATIONS, MEASURES, code_digest())
    try:
        for one in judged_sets():
            print(f"{one.name} …", file=sys.stderr, flush=True)
            vectors = KeptQueryVectors(embedder, one.name)

            def measured(one: JudgedSet = one, vectors: KeptQueryVectors = vectors) -> EvalReport:
                return evaluate(
                    one.folder,
                    embedder=vectors,
                    queries=one.queries,
                    configurations=CONFIGURATIONS,
                    options=EvalOptions(MEASURES, limit_queries=n),
                )

            yield one.name, kept_runs(one, inputs, measured)
            vectors.save()
    finally:
        embedder.close()


def _name(configuration: str, mode: str) -> str:
    """Of a run, as reports name it."""
    return mode if len(CONFIGURATIONS) == 1 else f"{configuration}/{mode}"


def _figures(name: str, runs: Runs) -> Iterator[Figure]:
    for configuration in CONFIGURATIONS:
        for mode in MODES:
            found = runs[_name(configuration.name, mode)]
            label = mode if configuration.name == DEFAULT else _name(configuration.name, mode)
            queries = len(found["queries"])
            for measure, value in found["means"].items():
                bounds = (found["low"], found["high"]) if measure == MEASURES[0] else None
                yield Figure(
                    figure=f"quality.{name}.{label}.{measure}",
                    value=value,
                    unit="mean",
                    n=queries,
                    bounds=bounds,
                )


def _beside_golden(name: str, runs: Runs) -> Iterator[Figure]:
    """How many queries lost and gained since the values were saved; the worst ones are told."""
    saved = golden.read(name)
    if saved is None:
        return
    now = _default_values(runs)
    changed = list(golden.changes(saved, now))
    for mode in MODES:
        differences = [one.difference for one in changed if one.mode == mode]
        for what, count in (
            ("lost", sum(d < 0 for d in differences)),
            ("gained", sum(d > 0 for d in differences)),
        ):
            yield reported(f"quality.{name}.{mode}.{what}", count, "queries", len(now))
    for one in changed[:WORST]:
        if one.difference < 0:
            print(
                f"{name}, {one.mode}: query {one.query_id} from {one.before.ndcg} "
                f"(first relevant at {one.before.rank}) to {one.after.ndcg} ({one.after.rank})",
                file=sys.stderr,
            )


def _default_values(runs: Runs) -> golden.Golden:
    return golden.golden_of({mode: runs[_name(DEFAULT, mode)] for mode in MODES})


def render(figures: Sequence[Figure]) -> str:
    """A line for each set and run: nDCG@10 with its bounds, the other means, lost and gained queries."""
    rows: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        row, _, column = figure.figure.removeprefix("quality.").rpartition(".")
        rows.setdefault(row, {})[column] = figure
    head = ("set and mode", "queries", "nDCG@10", "95 %", "R@100", "MRR", "lost", "gained")
    lines: list[Sequence[str]] = [head]
    for row, found in rows.items():
        first = found[MEASURES[0]]
        low, high = first.bounds or (0.0, 0.0)
        means = [f"{found[name].value:.4f}" for name in MEASURES]
        moved = [f"{found[name].value:.0f}" if name in found else "" for name in ("lost", "gained")]
        lines.append((row, str(first.n), means[0], f"{low:.3f} … {high:.3f}", *means[1:], *moved))
    return aligned(lines)
