"""The parts of an HTML report that name queries: comparisons, the extremes, the table of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from sqlindex.evaluation.charts import Bar, Group, bar_chart, waterfall
from sqlindex.evaluation.lettering import escaped
from sqlindex.evaluation.markup import Cell, Number, charts, note, number, table
from sqlindex.evaluation.report import Comparison, EvalReport, QueryDelta, QueryFacts, RunResult

_LISTED = 10
"""Queries in a list of the best or worst; the table of all queries has every one."""


def comparisons(report: EvalReport) -> Iterator[str]:
    """Each two runs: how much they differ, how surely, and at which queries.

    Those with the baseline come first and are open; so are all if there are few.
    """
    if not report.comparisons:
        return
    yield note(
        "Differences are after minus before, with 95 % bounds of the paired bootstrap; p is the two-sided "
        f"randomisation test's ({report.rounds:,} rounds, seed {report.seed}). Many comparisons at once "
        "find some small p by chance."
    )
    few = len(report.comparisons) <= 3
    ordered = sorted(report.comparisons, key=lambda comparison: not comparison.is_baseline)
    for at, comparison in enumerate(ordered):
        state = " open" if few or comparison.is_baseline else ""
        inner = "\n".join(_comparison(report, comparison, at))
        yield f"<details{state}><summary>{_summary(comparison)}</summary>\n{inner}\n</details>"


def extremes(report: EvalReport) -> Iterator[str]:
    """The queries with the lowest and the highest mean of the first measure over all runs."""
    means = _mean_by_query(report)
    if not means:
        return
    yield note(
        f"By the mean {report.measures[0]} of all runs. Each run has its value, and the rank of its first "
        "relevant result."
    )
    ordered = sorted(means, key=lambda query_id: (means[query_id], query_id))
    listed = min(_LISTED, len(ordered) // 2 or 1)
    facts = _facts(report)
    for title, chosen in (("Hardest", ordered[:listed]), ("Easiest", ordered[::-1][:listed])):
        yield f"<h3>{title}</h3>"
        yield _query_table(report, f"{title} queries", [facts[query_id] for query_id in chosen])


def every_query(report: EvalReport) -> str:
    """All queries in the order of their file, sortable and filterable."""
    if not report.queries:
        return ""
    return _query_table(report, "Every query", report.queries, sortable=True)


def _comparison(report: EvalReport, comparison: Comparison, at: int) -> Iterator[str]:
    before, after = comparison.before, comparison.after
    rows: list[list[Cell]] = [
        [
            found.measure,
            number(
                found.difference.mean,
                "+.3f",
                f"{found.difference.low:+.3f} … {found.difference.high:+.3f}",
            ),
            number(found.p, ".4f"),
            number(found.before),
            number(found.after),
            number(found.queries, ",.0f"),
        ]
        for found in comparison.differences
    ]
    head = ["measure", "difference", "p", before, after, "queries"]
    yield table(f"{before} and {after}", head, rows)
    bars = tuple(
        Bar(
            label=found.measure,
            value=found.difference.mean,
            low=found.difference.low,
            high=found.difference.high,
        )
        for found in comparison.differences
    )
    yield charts(
        bar_chart(
            f"difference-{at}",
            f"Difference, {after} minus {before}",
            "Mean difference of each measure with its bounds; a whisker across zero may be chance.",
            [Group("", bars)],
            shown=_signed,
        ),
        waterfall(
            f"queries-{at}",
            f"{report.measures[0]} of each query, {after} minus {before}",
            "One bar for each query, greatest gain first.",
            [delta.difference for delta in comparison.deltas],
            shown=_signed,
        )
        if comparison.deltas
        else "",
    )
    losses = [delta for delta in comparison.deltas if delta.difference < 0][:_LISTED]
    gains = [delta for delta in comparison.deltas[::-1] if delta.difference > 0][:_LISTED]
    for title, deltas in (("Greatest losses", losses), ("Greatest gains", gains)):
        if deltas:
            yield f"<h3>{title}</h3>"
            yield _delta_table(report, title, comparison, deltas)


def _delta_table(
    report: EvalReport, title: str, comparison: Comparison, deltas: Sequence[QueryDelta]
) -> str:
    facts = _facts(report)
    sides = [run for run in report.runs if run.name in (comparison.before, comparison.after)]
    rows: list[list[Cell]] = [
        [
            delta.query_id,
            number(delta.difference, "+.3f"),
            facts[delta.query_id].text,
            number(delta.before),
            number(delta.after),
            *(_rank(run, delta.query_id) for run in sides),
        ]
        for delta in deltas
    ]
    ranks = [f"rank in {run.name}" for run in sides]
    head = ["query", "difference", "text", comparison.before, comparison.after, *ranks]
    return table(f"{title}, {comparison.before} and {comparison.after}", head, rows)


def _query_table(
    report: EvalReport, label: str, queries: Sequence[QueryFacts], *, sortable: bool = False
) -> str:
    classed = any(query.classes for query in queries)
    rows: list[list[Cell]] = []
    for query in queries:
        classes = [", ".join(query.classes)] if classed else []
        values = [_value_and_rank(run, query.id, report.measures[0]) for run in report.runs]
        rows.append([query.id, query.text, *classes, *values])
    head = ["query", "text", *(["class"] if classed else []), *(run.name for run in report.runs)]
    return table(label, head, rows, sortable=sortable)


def _value_and_rank(run: RunResult, query_id: str, measure: str) -> Number:
    if query_id not in run.by_query:
        return number(None)
    rank = run.first_relevant.get(query_id)
    found = "not found" if rank is None else f"rank {rank:,}"
    return number(run.by_query[query_id].get(measure), more=found)


def _rank(run: RunResult, query_id: str) -> Number:
    return number(run.first_relevant.get(query_id), ",.0f")


def _mean_by_query(report: EvalReport) -> dict[str, float]:
    """Of the first measure over the runs that define it."""
    values: dict[str, list[float]] = {}
    for run in report.runs:
        for query_id, measured in run.by_query.items():
            value = measured.get(report.measures[0])
            if value is not None:
                values.setdefault(query_id, []).append(value)
    return {query_id: fmean(found) for query_id, found in values.items()}


def _facts(report: EvalReport) -> Mapping[str, QueryFacts]:
    return {query.id: query for query in report.queries}


def _summary(comparison: Comparison) -> str:
    """The two names, and what the first measure says of them."""
    baseline = " (baseline)" if comparison.is_baseline else ""
    before, after = escaped(comparison.before), escaped(comparison.after)
    told = "".join(
        f" <small>{escaped(first.measure)} {_signed(first.difference.mean)}, p {first.p:.4f}</small>"
        for first in comparison.differences[:1]
    )
    return f"<bdi>{before}</bdi>{baseline} → <bdi>{after}</bdi>{told}"


def _signed(value: float) -> str:
    return f"{value:+.3f}"
