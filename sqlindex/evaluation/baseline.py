"""What a report is compared with: a saved run, or the JSON of an earlier report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlindex.errors import UsageError
from sqlindex.evaluation.compare import compare
from sqlindex.evaluation.foreign_runs import foreignness
from sqlindex.evaluation.lines import shown
from sqlindex.evaluation.measures import measure_run
from sqlindex.evaluation.report import SCHEMA, Comparison, Level, RunResult, Values
from sqlindex.evaluation.results import Judged
from sqlindex.evaluation.runs import Run
from sqlindex.evaluation.trec import read_run

_HINT = "a TREC run file, or what 'sqlindex eval --json' printed"


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run of an earlier report.

    Attributes:
        name, mode: as in the report.
        by_query: its values.
    """

    name: str
    mode: str | None
    by_query: Mapping[str, Values]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline as it was read.

    Attributes:
        name: of its file.
        run: the rankings of a run file, or None for a report.
        saved: the runs of a report.
    """

    name: str
    run: Run | None
    saved: tuple[SavedRun, ...] = ()


def read_baseline(path: Path, *, level: Level, qrels_sha256: str) -> Baseline:
    """Read a TREC run, or the JSON of a report, whose level and qrels must be those of now.

    Raises:
        UsageError: it is neither, or was measured otherwise.
    """
    if not _is_json(path):
        return Baseline(path.name, read_run(path))
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(report, dict):
            raise TypeError("it is no JSON object")
        if report["schema"] != SCHEMA:
            raise UsageError(
                f"{path} has schema {report['schema']}, not {SCHEMA}",
                hint="evaluate again and save the report anew",
            )
        if (report["qrels_sha256"], report["level"]) != (qrels_sha256, level):
            raise UsageError(
                f"{path} was measured with other judgements, or on the other level",
                hint="compare reports of the same qrels, or saved runs",
            )
        return Baseline(path.name, None, tuple(map(_saved_run, report["runs"])))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as exc:
        problem = f"it has no {exc}" if isinstance(exc, KeyError) else str(exc)
        raise UsageError(f"{path} is no report of an evaluation: {problem}", hint=_HINT) from exc


def _saved_run(run: Mapping[str, Any]) -> SavedRun:
    """A run of a report.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    name, mode, by_query = run["name"], run["mode"], run["by_query"]
    if not isinstance(name, str) or not isinstance(mode, str | None):
        raise TypeError(f"a run has the name {shown(name)} and the mode {shown(mode)}")
    if not isinstance(by_query, dict):
        raise TypeError(f"the values of {name} are {shown(by_query)}")
    for query_id, values in by_query.items():
        if not isinstance(values, dict):
            raise TypeError(f"the values of query {query_id!r} are {shown(values)}")
        for measure, value in values.items():
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"{measure} of query {query_id!r} is {shown(value)}, not a number")
            if not 0 <= round(value, 6) <= 1:
                raise ValueError(f"{measure} of query {query_id!r} is {value}, not within 0..1")
    return SavedRun(name, mode, by_query)


def require_ours(baseline: Baseline, judged: Judged, is_known: Callable[[str], bool]) -> None:
    """Refuse a run of other queries, or of other documents than those of an index.

    Args:
        is_known: whether the index has a ranked name.

    Raises:
        UsageError: it is such a run.
    """
    if baseline.run is not None:
        queries = {query.id for query in judged.queries}
        problem = foreignness(baseline.run, queries, is_known, "the index")
        if problem:
            raise UsageError(
                f"{baseline.name} is no run of this index: {problem}",
                hint="compare runs of the same queries, on the same level, with the same document ids",
            )


def compare_with_baseline(
    baseline: Baseline, runs: Sequence[RunResult], judged: Judged
) -> tuple[Comparison, ...]:
    """Compare each run with that of the baseline: of the same name, else mode, else its only one.

    A run file is measured with the judgements of now; a report's values are taken as they are.

    Raises:
        UsageError: nothing in it can be compared.
    """
    saved = baseline.saved if baseline.run is None else (_measured(baseline, judged),)
    found = []
    for run in runs:
        before = _counterpart(run, saved)
        if before is not None:
            name = f"{baseline.name}: {before.name}" if baseline.saved else baseline.name
            found.append(
                compare(
                    (name, before.by_query),
                    (run.name, run.by_query),
                    judged.measures,
                    is_baseline=True,
                )
            )
    if not any(comparison.differences for comparison in found):
        raise UsageError(
            f"{baseline.name} has no run with the modes, queries and measures of this evaluation",
            hint="evaluate the same queries in a mode that it has",
        )
    return tuple(found)


def _measured(baseline: Baseline, judged: Judged) -> SavedRun:
    measured = measure_run(
        judged.qrels,
        baseline.run or {},
        [query.id for query in judged.answerable],
        judged.measures,
        sufficient={query.id: query.sufficient for query in judged.queries},
        document_of=judged.document_of,
    )
    return SavedRun(baseline.name, None, measured.by_query)


def _counterpart(run: RunResult, saved: Sequence[SavedRun]) -> SavedRun | None:
    of_name = [other for other in saved if other.name == run.name]
    of_mode = [other for other in saved if other.mode is not None and other.mode == run.mode]
    only = saved if len(saved) == 1 else ()
    return next(iter([*of_name, *of_mode, *only]), None)


def _is_json(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(256).lstrip()[:1] == b"{"
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}", hint=_HINT) from exc
