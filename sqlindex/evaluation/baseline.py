"""What a report is compared with: a saved run, or the JSON of an earlier report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlindex.errors import UsageError
from sqlindex.evaluation.compare import compare
from sqlindex.evaluation.measures import measure_run
from sqlindex.evaluation.report import SCHEMA, Comparison, Level, RunResult, Values
from sqlindex.evaluation.results import Judged
from sqlindex.evaluation.trec import read_run

_HINT = "a TREC run file, or what 'sqlindex eval --json' printed"


@dataclass(frozen=True, slots=True)
class _SavedRun:
    name: str
    mode: str | None
    by_query: Mapping[str, Values]


def compare_with_baseline(
    path: Path, runs: Sequence[RunResult], judged: Judged, *, level: Level, qrels_sha256: str
) -> tuple[Comparison, ...]:
    """Compare each run with that of a baseline: of the same name, else mode, else its only one.

    A run file is measured with the judgements of now. Of a report its values are taken; so it must
    have the same qrels and level.

    Args:
        path: a TREC run, or the JSON of a report.

    Raises:
        UsageError: it is neither, or nothing in it can be compared.
    """
    saved = _read(path, judged, level, qrels_sha256)
    found = []
    for run in runs:
        before = _counterpart(run, saved)
        if before is not None:
            name = f"{path.name}: {before.name}" if before.mode else path.name
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
            f"{path} has no run with the modes, queries and measures of this evaluation",
            hint="evaluate the same queries in a mode that it has",
        )
    return tuple(found)


def _counterpart(run: RunResult, saved: Sequence[_SavedRun]) -> _SavedRun | None:
    of_name = [other for other in saved if other.name == run.name]
    of_mode = [other for other in saved if other.mode is not None and other.mode == run.mode]
    only = saved if len(saved) == 1 else ()
    return next(iter([*of_name, *of_mode, *only]), None)


def _read(path: Path, judged: Judged, level: Level, qrels_sha256: str) -> list[_SavedRun]:
    if not _is_json(path):
        measured = measure_run(
            judged.qrels,
            read_run(path),
            [query.id for query in judged.answerable],
            judged.measures,
            sufficient={query.id: query.sufficient for query in judged.queries},
            document_of=judged.document_of,
        )
        return [_SavedRun(path.stem, None, measured.by_query)]
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
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
        return [_SavedRun(run["name"], run["mode"], run["by_query"]) for run in report["runs"]]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise UsageError(f"{path} is no report of an evaluation: {exc}", hint=_HINT) from exc


def _is_json(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(256).lstrip()[:1] == b"{"
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}", hint=_HINT) from exc
