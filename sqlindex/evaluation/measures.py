"""Measures of a run against qrels: names as people write them, values by ir-measures.

Two functions are the whole interface: `parse_measure` makes a canonical name of a spelling,
`measure_run` gives the values of each query and their mean under such names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from sqlindex.errors import OptionalDependencyError, UsageError
from sqlindex.evaluation.judgements import Qrels, SufficientSets
from sqlindex.evaluation.runs import Run, ranking_of

MEASURES = (
    "nDCG@10",
    "nDCG(exp)@10",
    "P@5",
    "R@5",
    "R@10",
    "R@100",
    "hit@5",
    "MRR",
    "MAP",
)
"""What is measured when nothing else is asked for; runs are compared by the first one."""

SUFFICIENT_MEASURES = ("sufficient-hit@5", "sufficient-hit@10", "sufficient-RR")
"""Measured too when a query names sets of documents that suffice."""

_NAME_BY_SPELLING = {
    **dict.fromkeys(("ndcg", "ndcg-cut"), "nDCG"),
    **dict.fromkeys(("ndcg(exp)", "ndcg-exp"), "nDCG(exp)"),
    **dict.fromkeys(("p", "precision"), "P"),
    **dict.fromkeys(("r", "recall"), "R"),
    **dict.fromkeys(("hit", "hits", "hit-rate", "success"), "hit"),
    **dict.fromkeys(("mrr", "rr", "recip-rank"), "MRR"),
    **dict.fromkeys(("map", "ap", "map-cut"), "MAP"),
    "sufficient-hit": "sufficient-hit",
    "sufficient-rr": "sufficient-RR",
}
_SPELLING = re.compile(r"(.*?)(?:[@.-]?([0-9]+))?", re.DOTALL)
_CUTOFF_DIGITS = 6
_NEEDS_CUTOFF = {"P", "R", "hit", "sufficient-hit"}
_TAKES_NO_CUTOFF = {"sufficient-RR"}
_MEASURE_HINT = (
    "one of nDCG@K, nDCG(exp)@K, P@K, R@K, hit@K, MRR, MRR@K, MAP, MAP@K, sufficient-hit@K and "
    "sufficient-RR, with a number for K"
)

# ir-measures has other names for these.
_FOREIGN = {"hit": "Success", "MRR": "RR", "MAP": "AP", "nDCG(exp)": "nDCG"}


@dataclass(frozen=True, slots=True)
class Measured:
    """Values of one run.

    Attributes:
        mean: by measure, over the queries that have a value, each counting the same; None if none has.
        by_query: by query id, then by measure; None where a measure is not defined for the query.
    """

    mean: Mapping[str, float | None]
    by_query: Mapping[str, Mapping[str, float | None]]


def parse_measure(text: str) -> str:
    """The canonical name of a measure, for `measure_run` and reports.

    Case does not count, and `@10`, `_10` and `.10` are alike. Known are, with the names of
    trec_eval and ir-measures:

    - `nDCG@K`: gain = grade; also `ndcg_cut_K`; without `@K` over the whole ranking.
    - `nDCG(exp)@K`: gain = 2^grade − 1; also `ndcg-exp@K`.
    - `P@K`, `precision@K`: relevant ones among the first K, divided by K however few were found.
    - `R@K`, `recall@K`: share of the relevant ones that are among the first K.
    - `hit@K`, `success@K`: 1 if any of the first K is relevant, else 0.
    - `MRR`, `RR`, `recip_rank`: 1 / rank of the first relevant one; with `@K` 0 beyond K.
    - `MAP`, `AP`: mean of the precisions at the relevant ones; with `@K` cut there.
    - `sufficient-hit@K`: 1 if a sufficient set lies wholly within the first K, else 0.
    - `sufficient-RR`: 1 / the least rank at which some sufficient set is complete.

    Raises:
        UsageError: it is none of them, or the cutoff is missing, 0, or one too many.
    """
    written = _SPELLING.fullmatch(text.strip().lower().replace("_", "-"))
    assert written is not None
    name = _NAME_BY_SPELLING.get(written[1])
    if name is None:
        raise UsageError(f"{text!r} is no measure", hint=_MEASURE_HINT)
    cutoff = (written[2] or "").lstrip("0")
    if written[2] is not None and (not cutoff or name in _TAKES_NO_CUTOFF):
        raise UsageError(f"measure {text!r} cannot have that cutoff", hint=_MEASURE_HINT)
    if len(cutoff) > _CUTOFF_DIGITS:
        raise UsageError(
            f"the cutoff of measure {text!r} has more than {_CUTOFF_DIGITS} digits",
            hint=_MEASURE_HINT,
        )
    if not cutoff and name in _NEEDS_CUTOFF:
        raise UsageError(f"measure {text!r} needs a cutoff", hint=_MEASURE_HINT)
    return f"{name}@{cutoff}" if cutoff else name


def cutoff_of(measure: str) -> int:
    """How deep a measure looks into a ranking; 0 if it takes what is there.

    Args:
        measure: a canonical name.
    """
    return int(measure.partition("@")[2] or 0)


def measure_run(
    qrels: Qrels,
    run: Run,
    query_ids: Iterable[str],
    measures: Sequence[str] = MEASURES,
    *,
    sufficient: Mapping[str, SufficientSets] | None = None,
    document_of: Callable[[str], str] | None = None,
) -> Measured:
    """Measure a run on some queries.

    A query that the run found nothing for counts 0. A query without a relevant document has no
    value and is left out. Grades below 0 count as 0. Rankings are by descending score, equal scores
    by descending id, as trec_eval has it.

    Args:
        query_ids: which queries count.
        measures: canonical names, see `parse_measure`.
        sufficient: by query id, for the `sufficient` measures, which are not defined elsewhere.
        document_of: what document a ranked name stands for, in sufficient sets; itself if None.

    Raises:
        OptionalDependencyError: ir-measures is missing.

    Source:
        MacAvaney, Macdonald & Ounis, "Streamlining Evaluation with ir-measures", ECIR 2022;
        nDCG: Järvelin & Kekäläinen 2002, the exponential gain Burges et al. 2005.
    """
    ir_measures = _ir_measures()
    judged = {
        query_id: {name: max(0, grade) for name, grade in qrels[query_id].items()}
        for query_id in query_ids
        if any(grade > 0 for grade in qrels.get(query_id, {}).values())
    }
    rankings = {query_id: ranking_of(run.get(query_id, {})) for query_id in judged}
    by_query: dict[str, dict[str, float | None]] = {
        query_id: dict.fromkeys(measures) for query_id in judged
    }
    for query_id, ranking in rankings.items():
        sets = (sufficient or {}).get(query_id, ())
        if sets:
            complete = _complete_at([(document_of or str)(name) for name in ranking], sets)
            for measure in measures:
                if measure.startswith("sufficient-"):
                    by_query[query_id][measure] = _sufficiency(measure, complete)
    exponential = {
        query_id: {name: 2**grade - 1 for name, grade in grades.items()}
        for query_id, grades in judged.items()
    }
    for grades, is_exponential in ((judged, False), (exponential, True)):
        wanted = {
            ir_measures.parse_measure(_foreign(name)): name
            for name in measures
            if not name.startswith("sufficient-") and name.startswith("nDCG(exp)") is is_exponential
        }
        if judged and wanted:
            scored = {query_id: _scored(ranking) for query_id, ranking in rankings.items()}
            for value in ir_measures.iter_calc(list(wanted), grades, scored):
                by_query[value.query_id][wanted[value.measure]] = float(value.value)
    return Measured(mean_of(by_query.values(), measures), by_query)


def mean_of(
    values: Iterable[Mapping[str, float | None]], measures: Sequence[str]
) -> dict[str, float | None]:
    """Means by measure, over the queries that have a value; None if none has."""
    rows = list(values)
    means: dict[str, float | None] = {}
    for measure in measures:
        defined = [value for row in rows if (value := row.get(measure)) is not None]
        means[measure] = sum(defined) / len(defined) if defined else None
    return means


def _foreign(name: str) -> str:
    base, at, cutoff = name.partition("@")
    return _FOREIGN.get(base, base) + at + cutoff


def _scored(ranking: Sequence[str]) -> dict[str, float]:
    """Scores that leave no ties, in float32 either."""
    return {name: float(len(ranking) - at) for at, name in enumerate(ranking)}


def _complete_at(documents: Sequence[str], sets: SufficientSets) -> int | None:
    """The least rank at which some set is complete, or None."""
    rank_by_document: dict[str, int] = {}
    for rank, name in enumerate(documents, start=1):
        rank_by_document.setdefault(name, rank)
    ranks = [
        max(rank_by_document[name] for name in one)
        for one in sets
        if one <= rank_by_document.keys()
    ]
    return min(ranks, default=None)


def _sufficiency(measure: str, complete: int | None) -> float:
    if complete is None:
        return 0.0
    _, _, cutoff = measure.partition("@")
    return float(complete <= int(cutoff)) if cutoff else 1 / complete


def _ir_measures() -> ModuleType:
    try:
        import ir_measures
    except ImportError as exc:
        raise OptionalDependencyError(
            "evaluation needs the package ir-measures", hint="pip install 'sqlindex[eval]'"
        ) from exc
    module: ModuleType = ir_measures
    return module
