"""Put a report together: runs, their comparisons, and what they were made with."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from sqlindex.evaluation.baseline import Baseline, compare_with_baseline
from sqlindex.evaluation.compare import compare_all
from sqlindex.evaluation.judgements import Judgements
from sqlindex.evaluation.report import (
    EvalReport,
    IndexFacts,
    Level,
    QueryEmbedding,
    RunResult,
)
from sqlindex.evaluation.results import ROUNDS, SEED, Judged
from sqlindex.store.driver import driver_name, sqlite_version


def assembled_report(
    judgements: Judgements,
    judged: Judged,
    runs: Sequence[RunResult],
    *,
    baseline: Baseline | None,
    level: Level,
    depth: int | None,
    facts: Sequence[IndexFacts],
    unknown: int | None,
    corpus_sha256: str | None,
    query_embedding: QueryEmbedding | None = None,
) -> EvalReport:
    """The report of some runs, compared with each other and then with the baseline.

    Raises:
        UsageError: nothing in the baseline can be compared.
    """
    comparisons = compare_all(runs, judged.measures)
    if baseline is not None:
        comparisons += compare_with_baseline(baseline, runs, judged)
    answerable, no_answer = len(judgements.answerable), len(judgements.no_answer)
    return EvalReport(
        collection=judgements.name,
        level=level,
        depth=depth,
        measures=judged.measures,
        corpus_sha256=corpus_sha256,
        queries_sha256=judgements.queries_sha256,
        qrels_sha256=judgements.qrels_sha256,
        queries=judged.facts,
        answerable=answerable,
        no_answer=no_answer,
        unjudged=len(judgements.queries) - answerable - no_answer,
        unknown_judged=unknown,
        indexes=tuple(facts),
        runs=tuple(runs),
        comparisons=comparisons,
        query_embedding=query_embedding,
        versions=_versions(has_index=bool(facts)),
        seed=SEED,
        rounds=ROUNDS,
    )


def _versions(*, has_index: bool) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("sqlindex", "numpy", "ir-measures"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    if has_index:
        found |= {"sqlite": sqlite_version, "driver": driver_name}
    return found
