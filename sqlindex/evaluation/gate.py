"""A publish gate: conditions on measures, as people write them, and their values by ir-measures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlindex.errors import UsageError
from sqlindex.evaluation.measures import measure_run, parse_measure
from sqlindex.model.gate import Comparison, GateCondition
from sqlindex.model.requests import MODES, Mode

UNCUT_DEPTH = 100
"""Distinct documents in a ranking for measures without a cutoff, as `MRR`."""

_CONDITION = re.compile(
    r"\s*(?P<measure>[^<>=!≤≥]*?)\s*(?P<comparison>[<>=!≤≥]+)\s*(?P<bound>.*?)\s*"
)
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")
_HINT = (
    "conditions look like 'ndcg@10 >= 0.8, hit@5 >= 0.9'; measures are nDCG@K, nDCG(exp)@K, P@K, R@K, "
    "hit@K, MRR, MRR@K, MAP and MAP@K, with a number for K"
)


@dataclass(frozen=True, slots=True)
class Gate:
    """What golden questions must find in a generation before it may become the head.

    Conditions are parted by commas: a measure (see `evaluation.measures.parse_measure`), `>=` or `>`,
    and a number within 0..1. All must be met by the mean over the questions that expect a document.

    Attributes:
        text: the conditions, for example `ndcg@10 >= 0.8, hit@5 >= 0.9`.
        mode: that the questions are searched in; None for hybrid with an embedder, else lexical.
        conditions: as they were read.

    Raises:
        UsageError: the text is malformed; the message names the column.
        ValueError: there is no such mode.
        OptionalDependencyError: ir-measures is missing.
    """

    text: str
    mode: Mode | None = None
    conditions: tuple[GateCondition, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.mode is not None and self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        object.__setattr__(self, "conditions", _parse(self.text))
        measure_run({}, {}, ())  # a missing package shows now, not when all is staged

    @property
    def depth(self) -> int:
        """How many distinct documents of each ranking the measures look at."""
        cutoffs = [condition.measure.partition("@")[2] for condition in self.conditions]
        return max(int(cutoff) if cutoff else UNCUT_DEPTH for cutoff in cutoffs)

    def measure(
        self, qrels: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]
    ) -> Mapping[str, Mapping[str, float]]:
        """Measure rankings, see `ports.PublishGate`."""
        run = {
            question: {name: float(len(ranking) - at) for at, name in enumerate(ranking)}
            for question, ranking in rankings.items()
        }
        measures = list(dict.fromkeys(condition.measure for condition in self.conditions))
        by_question = measure_run(qrels, run, qrels, measures).by_query
        return {
            question: {name: value or 0.0 for name, value in values.items()}
            for question, values in by_question.items()
        }


def _parse(text: str) -> tuple[GateCondition, ...]:
    conditions = []
    at = 0
    for part in text.split(","):
        conditions.append(_condition(text, part, at))
        at += len(part) + 1
    return tuple(conditions)


def _condition(text: str, part: str, at: int) -> GateCondition:
    """The condition that stands at an offset of the text."""
    found = _CONDITION.fullmatch(part)
    if not part.strip():
        raise _malformed(text, at, "a condition is missing")
    if found is None and at and part.strip().isdecimal():
        raise _malformed(text, at - 1, "a comma parts conditions: write numbers like 0.5")
    if found is None:
        raise _malformed(text, at + len(part.rstrip()), "a comparison is missing: >= or >")
    if found["comparison"] not in (">=", ">", "≥"):
        raise _malformed(
            text,
            at + found.start("comparison"),
            f"{found['comparison']!r} is no comparison of a gate: >= or >",
        )
    comparison: Comparison = ">" if found["comparison"] == ">" else ">="
    bound = float(found["bound"]) if _NUMBER.fullmatch(found["bound"]) else 2.0
    if bound > 1:
        percent = found["bound"].removesuffix("%").rstrip()
        meant = f": write {float(percent) / 100:g}" if _is_percent(percent) else ""
        raise _malformed(
            text, at + found.start("bound"), f"{found['bound']!r} is no number within 0..1{meant}"
        )
    if comparison == ">" and bound == 1:
        raise _malformed(text, at + found.start("comparison"), "no value is above 1")
    try:
        measure = parse_measure(found["measure"])
    except UsageError as exc:
        raise _malformed(text, at + found.start("measure"), str(exc)) from None
    if measure.startswith("sufficient-"):
        raise _malformed(
            text, at + found.start("measure"), f"{measure} needs sets that questions do not have"
        )
    return GateCondition(measure, comparison, bound)


def _is_percent(number: str) -> bool:
    return _NUMBER.fullmatch(number) is not None and 1 < float(number) <= 100


def _malformed(text: str, at: int, problem: str) -> UsageError:
    return UsageError(f"gate {text!r}, column {at + 1}: {problem}", hint=_HINT)
