"""What a gate says of a generation that misses it: conditions, questions and what they expect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlindex.errors import FallenQuestion, GateError, MissedCondition
from sqlindex.indexing.report import described
from sqlindex.model.gate import GateCondition
from sqlindex.model.questions import Question
from sqlindex.model.requests import Mode

_TOLD = 10
"""Questions of each kind, and absent documents, that the message names; the error has them all."""

Absent = tuple[str, str, str]
"""(question id, source, document id) of an expected document that a generation does not hold."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a generation answers: the mean by measure, and by question, then measure."""

    mean: Mapping[str, float]
    by_question: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of a generation: the conditions, in which mode, of which questions."""

    conditions: Sequence[GateCondition]
    mode: Mode
    questions: Sequence[Question]

    def missed(self, measured: Measured) -> list[MissedCondition]:
        """The conditions that a generation misses, in their order."""
        return [
            MissedCondition(c.measure, c.comparison, c.bound, measured.mean[c.measure])
            for c in self.conditions
            if not c.is_met(measured.mean[c.measure])
        ]


def kept_back(
    asked: Asked,
    after: Measured,
    before: Measured | None,
    *,
    absent: Collection[Absent],
    changes: Mapping[str, int],
) -> GateError:
    """The error of a new generation that misses its gate.

    Args:
        before: what the head answers; None if it cannot be searched so.
        absent: what neither of them holds.
        changes: counts by kind, see `indexing.report.described`.
    """
    missed = asked.missed(after)
    if before is not None:
        missed = [replace(condition, before=before.mean[condition.measure]) for condition in missed]
    fell = sorted(set(_fell(asked, after, before)), key=_by_fall)
    below = [] if before is None else _below(asked, after, before, fell)
    embedded = changes.get("embedded", 0)
    texts = f"; embedded {embedded:,} text{'s' if embedded != 1 else ''}" if embedded else ""
    lines = [
        f"the gate keeps the new generation back: {_in_words(asked, missed)}",
        f"what it changes: {described(changes)}{texts}",
        *_told(fell),
        *(["below the bound, in the head as well:", *_told(below)] if below else ()),
        *_told_absent(absent),
    ]
    return GateError(
        "\n".join(lines),
        hint="the head stays; publish the new generation all the same (sqlindex publish --force), drop it "
        "(sqlindex discard), or change something and refresh again",
        missed=missed,
        fell=fell,
        below=below,
        absent=sorted(absent),
        changes=changes,
    )


def head_misses(
    asked: Asked, head: Measured, *, absent: Collection[Absent], changes: Mapping[str, int]
) -> GateError:
    """The error of a head that misses the gate of a refresh that has nothing to publish."""
    missed = asked.missed(head)
    below = _below(asked, head, None, ())
    lines = [
        f"nothing to publish, and the head misses the gate: {_in_words(asked, missed)}",
        *_told(below),
        *_told_absent(absent),
    ]
    return GateError(
        "\n".join(lines),
        hint="no generation waits; change the sources, the questions or the settings and refresh again, or ask for less",
        missed=missed,
        below=below,
        absent=sorted(absent),
        changes=changes,
        is_held=False,
    )


def _fell(asked: Asked, after: Measured, before: Measured | None) -> Iterator[FallenQuestion]:
    for condition in asked.conditions:
        name = condition.measure
        if condition.is_met(after.mean[name]):
            continue
        for question in asked.questions:
            then = after.by_question[question.id][name]
            now = None if before is None else before.by_question[question.id][name]
            if (not condition.is_met(then)) if now is None else then < now:
                yield FallenQuestion(question.id, question.text, name, now, then)


def _below(
    asked: Asked, after: Measured, before: Measured | None, fell: Collection[FallenQuestion]
) -> list[FallenQuestion]:
    """Questions below the bound of a condition that the head misses as well, the lowest first.

    Args:
        before: None if the head itself was measured.
        fell: those that are told already.
    """
    head = after if before is None else before
    told = {(question.id, question.measure) for question in fell}
    found = {
        FallenQuestion(
            question.id,
            question.text,
            condition.measure,
            None if before is None else before.by_question[question.id][condition.measure],
            after.by_question[question.id][condition.measure],
        )
        for condition in asked.conditions
        if not condition.is_met(after.mean[condition.measure])
        and not condition.is_met(head.mean[condition.measure])
        for question in asked.questions
        if not condition.is_met(after.by_question[question.id][condition.measure])
    }
    return sorted(
        (question for question in found if (question.id, question.measure) not in told),
        key=lambda question: (question.after, question.id, question.measure),
    )


def _in_words(asked: Asked, missed: Sequence[MissedCondition]) -> str:
    count = len(asked.questions)
    counted = f"{count:,} question{'s' if count != 1 else ''}"
    return f"{'; '.join(map(str, missed))} ({asked.mode}, {counted})"


def _by_fall(question: FallenQuestion) -> tuple[float, float, str, str]:
    """The largest fall first, then the lowest value."""
    fall = 0.0 if question.before is None else question.before - question.after
    return (-fall, question.after, question.id, question.measure)


def _told(questions: Sequence[FallenQuestion]) -> Iterator[str]:
    for question in questions[:_TOLD]:
        was = "" if question.before is None else f"{question.before:.4f} -> "
        text = " ".join(question.text.split())
        yield f"{question.id}: {question.measure} {was}{question.after:.4f}: {text}"
    yield from _and_more(len(questions))


def _told_absent(absent: Collection[Absent]) -> Iterator[str]:
    for id_, source, document_id in sorted(absent)[:_TOLD]:
        yield f"{id_} expects {document_id} of {source}, which is not in the index"
    yield from _and_more(len(absent))


def _and_more(count: int) -> Iterator[str]:
    if count > _TOLD:
        yield f"and {count - _TOLD} more"
