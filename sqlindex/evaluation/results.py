"""From answers to results: measures, classes, no-answer queries, distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlindex.evaluation.judgements import JudgedQuery, Judgements, Qrels, is_answered
from sqlindex.evaluation.measures import Measured, mean_of, measure_run
from sqlindex.evaluation.report import (
    ClassResult,
    Distribution,
    NoAnswerResult,
    QueryFacts,
    RunResult,
)
from sqlindex.evaluation.runs import REPEATS_DEPTH, Answer, Latency
from sqlindex.evaluation.significance import Interval, bootstrap_mean
from sqlindex.model.requests import Mode

SEED = 20_070_611
"""Of every draw: the same values give the same bounds."""

ROUNDS = 2_000
"""Of the bootstrap and the randomisation test: p is at least 1 / 2001."""

FALSE_ALARM_COVERAGE = 0.5
"""Share of a no-answer query's terms from which on its first hit looks like an answer."""

ANSWERABLE = "answerable"
"""Name of the answerable queries among the distributions."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What runs are measured with.

    Attributes:
        queries: that are run, in order: answerable ones and no-answer ones.
        qrels: of what is ranked, documents or chunks.
        measures: canonical names.
        document_of: the document of a ranked name.
    """

    queries: tuple[JudgedQuery, ...]
    qrels: Qrels
    measures: tuple[str, ...]
    document_of: Callable[[str], str] = str

    @property
    def answerable(self) -> tuple[JudgedQuery, ...]:
        """The queries that something is relevant to."""
        return tuple(query for query in self.queries if not query.has_no_answer)

    @property
    def facts(self) -> tuple[QueryFacts, ...]:
        """The queries as a report has them."""
        return tuple(
            QueryFacts(query.id, query.text, query.classes, not query.has_no_answer)
            for query in self.queries
        )


def queries_to_run(judgements: Judgements, limit: int | None) -> tuple[JudgedQuery, ...]:
    """Queries with a relevant document or said to have no answer, the first ones of the file."""
    wanted = [
        query
        for query in judgements.queries.values()
        if query.has_no_answer or is_answered(judgements.qrels, query.id)
    ]
    return tuple(wanted[:limit])


def result_of(
    name: str,
    answers: Mapping[str, Answer],
    judged: Judged,
    *,
    configuration: str | None = None,
    mode: Mode | None = None,
    latency: Latency | None = None,
) -> RunResult:
    """Measure the answers of one run; a query without an answer found nothing.

    Raises:
        OptionalDependencyError: ir-measures is missing.
    """
    rankings = {
        query.id: answers[query.id].ranking if query.id in answers else ()
        for query in judged.queries
    }
    measured = _measured(rankings, judged)
    cosines = {
        query_id: answer.top_cosine
        for query_id, answer in answers.items()
        if answer.top_cosine is not None
    }
    return RunResult(
        name=name,
        configuration=configuration,
        mode=mode,
        mean=measured.mean,
        bounds=_bounds(measured, judged.measures),
        by_query=measured.by_query,
        first_relevant={
            query.id: _first_relevant(rankings[query.id], judged.qrels[query.id])
            for query in judged.answerable
        },
        classes=_classes(measured, judged),
        no_answer=_no_answer(rankings, answers, judged),
        top_cosine=cosines,
        cosines=_distributions(cosines, judged),
        repeated=_repeated(answers, judged) if mode is not None else (),
        latency=latency,
    )


def _measured(rankings: Mapping[str, Sequence[str]], judged: Judged) -> Measured:
    run = {
        query_id: {name: float(len(ranking) - at) for at, name in enumerate(ranking)}
        for query_id, ranking in rankings.items()
    }
    return measure_run(
        judged.qrels,
        run,
        [query.id for query in judged.answerable],
        judged.measures,
        sufficient={query.id: query.sufficient for query in judged.queries},
        document_of=judged.document_of,
    )


def _bounds(measured: Measured, measures: Sequence[str]) -> dict[str, Interval]:
    found = {}
    for measure in measures:
        values = {
            query_id: value
            for query_id, row in measured.by_query.items()
            if (value := row[measure]) is not None
        }
        if values:
            found[measure] = bootstrap_mean(values, seed=SEED, rounds=ROUNDS)
    return found


def _first_relevant(ranking: Sequence[str], grades: Mapping[str, int]) -> int | None:
    ranks = (rank for rank, name in enumerate(ranking, start=1) if grades.get(name, 0) > 0)
    return next(ranks, None)


def _by_class(queries: Sequence[JudgedQuery]) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for query in queries:
        for name in query.classes:
            ids.setdefault(name, []).append(query.id)
    return ids


def _classes(measured: Measured, judged: Judged) -> tuple[ClassResult, ...]:
    return tuple(
        ClassResult(name, len(ids), mean_of([measured.by_query[i] for i in ids], judged.measures))
        for name, ids in _by_class(judged.answerable).items()
    )


def _no_answer(
    rankings: Mapping[str, Sequence[str]], answers: Mapping[str, Answer], judged: Judged
) -> tuple[NoAnswerResult, ...]:
    found = []
    queries = [query for query in judged.queries if query.has_no_answer]
    for name, ids in _by_class(queries).items():
        given = [answers[query_id] for query_id in ids if query_id in answers]
        # A saved run has rankings alone: what its first hits hold is not known.
        is_measured = len(given) == len(ids) and not any(
            answer.ranking and answer.coverage is None for answer in given
        )
        alarms = sum((answer.coverage or 0) >= FALSE_ALARM_COVERAGE for answer in given)
        found.append(
            NoAnswerResult(
                name=name,
                queries=len(ids),
                non_empty_rate=sum(bool(rankings[query_id]) for query_id in ids) / len(ids),
                false_alarm_rate=alarms / len(ids) if is_measured else None,
            )
        )
    return tuple(found)


def _distributions(cosines: Mapping[str, float], judged: Judged) -> dict[str, Distribution]:
    groups = {ANSWERABLE: [query.id for query in judged.answerable]}
    groups |= _by_class([query for query in judged.queries if query.has_no_answer])
    found = {}
    for name, ids in groups.items():
        values = sorted(cosines[query_id] for query_id in ids if query_id in cosines)
        if values:
            found[name] = Distribution(tuple(values))
    return found


def _repeated(answers: Mapping[str, Answer], judged: Judged) -> tuple[float, ...]:
    asked = [answers[query.id].repeats for query in judged.answerable]
    return tuple(
        sum(at < len(repeats) and repeats[at] for repeats in asked) / len(asked) if asked else 0.0
        for at in range(REPEATS_DEPTH)
    )
