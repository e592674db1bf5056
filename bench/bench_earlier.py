"""What earlier systems published, beside the same measurements here."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from bench.child import run_child
from bench.figures import Figure
from bench.machine import ROOT
from bench.rules import JUDGED as RULES
from bench.rules import write_rules
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import require_staged
from sqlindex.evaluation.evaluate import evaluate
from sqlindex.evaluation.options import EvalOptions
from sqlindex.evaluation.report import EvalReport, RunResult
from sqlindex.model.requests import MODES
from sqlindex.ports import Embedder

CORPORA = ROOT / "fixtures" / "corpora"
KNOWLEDGE = CORPORA / "company-knowledge"
MANUALS = CORPORA / "manuals-zh-en"
SIZES = (1_000, 10_000, 50_000, 100_000)
RULES_AT_SCALE = 20_000
CACHED_CHUNKS = 1_000

# As published, in the order lexical, semantic, hybrid.
_KNOWLEDGE = {
    "R@5": (0.642, 0.869, 0.848),
    "R@10": (0.781, 0.948, 0.929),
    "MRR": (0.739, 0.873, 0.860),
    "nDCG@10": (0.665, 0.841, 0.830),
    "sufficient-hit@5": (0.629, 0.886, 0.886),
    "sufficient-hit@10": (0.800, 0.971, 0.971),
    "sufficient-RR": (0.574, 0.682, 0.718),
}
_KNOWLEDGE_CLASSES = {
    "conceptual": (0.523, 0.450),
    "mixed": (0.826, 0.812),
    "ambiguous": (0.862, 0.823),
    "noisy": (0.841, 0.758),
    "multi-relevant": (0.957, 0.933),
    "code and configuration": (0.956, 0.918),
}
_COSINES = {
    "answerable": (0.217, 0.501, 0.668),
    "negative": (0.096, 0.163, 0.206),
    "near miss": (0.239, 0.304, 0.663),
}
_SCALE_MS = {
    1_000: (4, 9, 17),
    10_000: (25, 114, 202),
    50_000: (132, 427, 743),
    100_000: (246, 792, 1_438),
}
_SCALE_PEAK_MIB = 1_396
_RULE_CLASSES = {
    "code": (0.96, 0.94),
    "compound": (0.87, 1.00),
    "cross-lingual": (0.36, 0.31),
    "direct": (0.83, 0.96),
    "english": (0.92, 1.00),
    "inflection": (0.80, 0.76),
    "long mail": (0.56, 0.76),
    "paraphrase": (0.54, 0.61),
    "typo": (0.90, 0.88),
    "validity": (0.88, 0.93),
}


def run(n: int | None) -> Iterator[Figure]:
    """Measure all of it; the scale up to `n` chunks, 100,000 by default."""
    embedder = LocalEmbedder(require_staged("minilm"))
    try:
        yield from _knowledge(embedder)
        yield from _scale([size for size in SIZES if size <= (n or SIZES[-1])])
        yield from _rules()
        yield from _manuals(embedder)
    finally:
        embedder.close()


def _figure(
    name: str, value: float | None, unit: str, n: int, earlier: float | None = None
) -> Figure:
    details = {} if earlier is None else {"earlier": earlier}
    return Figure(figure=f"earlier.{name}", value=value, unit=unit, n=n, details=details)


def _knowledge(embedder: Embedder) -> Iterator[Figure]:
    """A-33."""
    options = EvalOptions(tuple(_KNOWLEDGE))
    report = evaluate(KNOWLEDGE, embedder=embedder, options=options)
    runs = _by_mode(report)
    for measure, earlier in _KNOWLEDGE.items():
        for mode, published in zip(MODES, earlier, strict=True):
            value = runs[mode].mean[measure]
            yield _figure(f"A-33.{measure}.{mode}", value, "mean", report.answerable, published)
    for name, (semantic, hybrid) in _KNOWLEDGE_CLASSES.items():
        for mode, published in (("semantic", semantic), ("hybrid", hybrid)):
            found = next(one for one in runs[mode].classes if one.name == name)
            value = found.mean["nDCG@10"]
            yield _figure(f"A-33.nDCG@10 {name}.{mode}", value, "mean", found.queries, published)
    for mode in MODES:
        empty = [one.non_empty_rate for one in runs[mode].no_answer]
        name = f"A-33.no-answer queries with hits.{mode}"
        yield _figure(name, fmean(empty), "share", report.no_answer, 1.0)
    for name, published_cosines in _COSINES.items():
        spread = runs["semantic"].cosines[name]
        for what, published in zip(("min", "median", "max"), published_cosines, strict=True):
            value = getattr(spread, what)
            yield _figure(
                f"A-33.top cosine {name}.{what}", value, "cosine", len(spread.values), published
            )


def _scale(sizes: Sequence[int]) -> Iterator[Figure]:
    """A-34: each document of one chunk holds the query's word."""
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as folder:
            path = Path(folder) / "index.db"
            run_child("build_matching", path, str(size))
            found = run_child("search_matching", path)
        for mode, published in zip(MODES, _SCALE_MS[size], strict=True):
            yield _figure(f"A-34.{size:,} chunks.{mode}", found[mode], "ms", size, published)
        if size == SIZES[-1]:
            yield _figure(
                "A-34.peak memory.searches", found["peak_mib"], "MiB", size, _SCALE_PEAK_MIB
            )


def _rules() -> Iterator[Figure]:
    """B-14: the held-out half of the queries on 20,000 rules."""
    lines = (RULES / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    held_out = {
        one["id"]: one["class"] for one in map(json.loads, lines) if one["split"] == "held-out"
    }
    with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as folder:
        write_rules(Path(folder) / "rules", RULES_AT_SCALE)
        path = Path(folder) / "rules.db"
        report = evaluate(
            Path(folder) / "rules",
            ["lexical"],
            index_path=path,
            options=EvalOptions(("R@10", "MRR")),
        )
        size = path.stat().st_size
    (found,) = report.runs
    for name, earlier in _RULE_CLASSES.items():
        values = [v for query_id, v in found.by_query.items() if held_out.get(query_id) == name]
        for measure, published in zip(("R@10", "MRR"), earlier, strict=True):
            mean = fmean(value[measure] or 0.0 for value in values)
            yield _figure(f"B-14.{name}.{measure}", mean, "mean", len(values), published)
    (facts,) = report.indexes
    assert found.latency is not None
    for name, value, unit, published in (
        ("search.p95", found.latency.p95_ms, "ms", 50.0),
        ("build.whole", facts.index_s, "s", 10.0),
        ("file.per rule", size / RULES_AT_SCALE / 1_000, "kB", 1.7),
    ):
        yield _figure(f"B-14.{name}", value, unit, RULES_AT_SCALE, published)


def _manuals(embedder: Embedder) -> Iterator[Figure]:
    """C-18."""
    options = EvalOptions(("R@5",))
    evaluate(MANUALS, embedder=embedder, options=options)
    report = evaluate(MANUALS, embedder=embedder, options=options)
    runs = _by_mode(report)
    for mode, published in (("lexical", 0.667), ("semantic", 1.0)):
        yield _figure(
            f"C-18.R@5.{mode}", runs[mode].mean["R@5"], "mean", report.answerable, published
        )
    latency, embedding = runs["hybrid"].latency, report.query_embedding
    assert latency is not None
    assert embedding is not None
    fresh = latency.p50_ms + embedding.p50_ms
    yield _figure("C-18.hybrid with a fresh query vector.p50", fresh, "ms", report.answerable, 15.7)
    (facts,) = report.indexes
    yield _figure(
        "C-18.texts embedded again.after a restart", facts.embedded, "texts", facts.chunks, 0
    )
    with tempfile.TemporaryDirectory(prefix="sqlindex-bench-") as folder:
        path = Path(folder) / "index.db"
        run_child("build", path, str(CACHED_CHUNKS), "384")
        found = run_child("search_cached", path)
    yield _figure("C-18.hybrid with a cached vector.p95", found["p95_ms"], "ms", CACHED_CHUNKS, 2.5)


def _by_mode(report: EvalReport) -> dict[str, RunResult]:
    return {run.mode: run for run in report.runs if run.mode is not None}
