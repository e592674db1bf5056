"""Measures of a run against qrels, computed by ir-measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType

from sqlindex.errors import OptionalDependencyError
from sqlindex.evaluation.beir import Qrels
from sqlindex.evaluation.runs import Run

MEASURES = ("nDCG@10", "R@10", "R@100", "MRR")
"""Names in reports: nDCG with linear gain over log2(1 + rank); recall; 1 / rank of the first
relevant document of the ranking."""

_SPELLING = {"MRR": "RR"}  # ir-measures names the measure of one query


@dataclass(frozen=True, slots=True)
class Measured:
    """Values of one run.

    Attributes:
        mean: by measure, over the answerable queries; every query counts the same.
        by_query: by query id, then by measure.
    """

    mean: Mapping[str, float]
    by_query: Mapping[str, Mapping[str, float]]


def measure_run(qrels: Qrels, run: Run, query_ids: Iterable[str]) -> Measured:
    """Measure a run on some queries.

    A query that the run found nothing for counts 0. A query without a relevant document has no
    value and is left out. Grades below 0 count as 0.

    Args:
        query_ids: which queries count.

    Raises:
        OptionalDependencyError: ir-measures is missing.

    Source:
        MacAvaney, Macdonald & Ounis, "Streamlining Evaluation with ir-measures", ECIR 2022.
    """
    ir_measures = _ir_measures()
    judged = {
        query_id: {name: max(0, grade) for name, grade in qrels[query_id].items()}
        for query_id in query_ids
        if any(grade > 0 for grade in qrels.get(query_id, {}).values())
    }
    name_by_measure = {
        ir_measures.parse_measure(_SPELLING.get(name, name)): name for name in MEASURES
    }
    by_query: dict[str, dict[str, float]] = {query_id: {} for query_id in judged}
    ranked = {query_id: dict(run.get(query_id, {})) for query_id in judged}
    if judged:
        for value in ir_measures.iter_calc(list(name_by_measure), judged, ranked):
            by_query[value.query_id][name_by_measure[value.measure]] = float(value.value)
    mean = {
        name: sum(values[name] for values in by_query.values()) / len(judged) if judged else 0.0
        for name in MEASURES
    }
    ordered = {
        query: {name: values[name] for name in MEASURES} for query, values in by_query.items()
    }
    return Measured(mean, ordered)


def _ir_measures() -> ModuleType:
    try:
        import ir_measures
    except ImportError as exc:
        raise OptionalDependencyError(
            "evaluation needs the package ir-measures", hint="pip install 'sqlindex[eval]'"
        ) from exc
    module: ModuleType = ir_measures
    return module
