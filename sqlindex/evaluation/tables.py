"""The tables of a report, for people: the same on a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlindex.evaluation.report import Comparison, Difference, EvalReport, IndexFacts

SHOWN_DELTAS = 5
"""Queries shown on either side of a comparison: the worst, then the best."""

_QUERY_CHARS = 60


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text; numbers are written out.

    Attributes:
        title: what it shows.
        columns: heads; the first column is to the left, others to the right.
        rows: as many cells each as there are heads.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def head_lines(report: EvalReport) -> list[str]:
    """What was evaluated, one fact a line."""
    queries = f"{len(report.queries):,} queries"
    all_queries = report.answerable + report.no_answer
    if len(report.queries) < all_queries:
        queries = f"{len(report.queries):,} of {all_queries:,} queries"
    lines = [
        _index_line(report.collection, index, queries, is_only=len(report.indexes) == 1)
        for index in report.indexes
    ] or [f"{report.collection}: {queries}"]
    no_answer = sum(not query.is_answerable for query in report.queries)
    if no_answer:
        lines.append(f"{no_answer:,} of these queries have no answer and are reported apart")
    if report.unjudged:
        lines.append(f"{report.unjudged:,} queries have no relevant document and are not run")
    for index in report.indexes:
        lines += _index_facts(index, is_only=len(report.indexes) == 1)
    if report.unknown_judged:
        lines.append(f"{report.unknown_judged:,} relevant documents are not in the index")
    if report.level == "chunk":
        lines.append("ranked are chunks; each chunk of a relevant document is relevant")
    return lines


def tables(report: EvalReport, *, is_brief: bool = False) -> Iterator[Table]:
    """The tables of a report, in order; those without rows are left out.

    Args:
        is_brief: compare runs with each other by the first measure only, not by single queries.
    """
    for table in (_measures(report), _times(report)):
        if table.rows:
            yield table
    yield from _classes(report)
    for table in (_no_answer(report), _cosines(report), _repeated(report)):
        if table.rows:
            yield table
    if is_brief:
        table = _overview(report)
        if table.rows:
            yield table
    for comparison in report.comparisons:
        if is_brief and not comparison.is_baseline:
            continue
        yield _differences(comparison)
        yield from _deltas(report, comparison)


def number(value: float | None, digits: int = 4) -> str:
    """A value as it is written; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def _index_line(collection: str, index: IndexFacts, queries: str, *, is_only: bool) -> str:
    name = collection if is_only else f"{collection} ({index.configuration})"
    return (
        f"{name}: {index.documents:,} documents, {index.chunks:,} chunks, {queries}, "
        f"generation {index.generation}"
    )


def _index_facts(index: IndexFacts, *, is_only: bool) -> list[str]:
    of = "" if is_only else f"{index.configuration}: "
    lines = []
    if index.embedder is not None and index.index_s is not None:
        lines.append(
            f"{of}{index.embedded:,} texts embedded, {index.reused:,} chunks reused a vector"
        )
    if index.truncated:
        lines.append(f"{of}{index.truncated:,} texts were cut at the embedder's limit")
    if index.refused:
        lines.append(f"{of}{index.refused:,} documents were refused and cannot be found")
    return lines


def _measures(report: EvalReport) -> Table:
    return Table(
        "Means over the answerable queries",
        ("run", *report.measures),
        tuple(
            (run.name, *(number(run.mean[name]) for name in report.measures)) for run in report.runs
        ),
    )


def _times(report: EvalReport) -> Table:
    rows = [
        (f"search {run.name}", *_ms(run.latency.p50_ms, run.latency.p95_ms))
        for run in report.runs
        if run.latency is not None
    ]
    embedding = report.query_embedding
    if embedding is not None:
        rows.append(("embed a query", *_ms(embedding.p50_ms, embedding.p95_ms)))
    return Table("Times", ("stage", "p50 ms", "p95 ms"), tuple(rows))


def _ms(p50: float, p95: float) -> tuple[str, str]:
    return number(p50, 1), number(p95, 1)


def _classes(report: EvalReport) -> Iterator[Table]:
    names = dict.fromkeys(found.name for run in report.runs for found in run.classes)
    if not names:
        return
    for measure in report.measures[:1]:
        rows = []
        for name in names:
            of_runs = [next(c for c in run.classes if c.name == name) for run in report.runs]
            values = (number(found.mean[measure]) for found in of_runs)
            rows.append((name, f"{of_runs[0].queries:,}", *values))
        columns = ("class", "queries", *(run.name for run in report.runs))
        yield Table(f"{measure} by class", columns, tuple(rows))


def _no_answer(report: EvalReport) -> Table:
    return Table(
        "Queries without an answer",
        ("run", "class", "queries", "non-empty", "false alarms"),
        tuple(
            (
                run.name,
                found.name,
                f"{found.queries:,}",
                number(found.non_empty_rate, 2),
                number(found.false_alarm_rate, 2),
            )
            for run in report.runs
            for found in run.no_answer
        ),
    )


def _cosines(report: EvalReport) -> Table:
    if not report.no_answer:
        return Table("", (), ())
    return Table(
        "Top cosine",
        ("run", "queries", "min", "median", "max"),
        tuple(
            (run.name, name, *(number(v, 3) for v in (found.min, found.median, found.max)))
            for run in report.runs
            for name, found in run.cosines.items()
        ),
    )


def _repeated(report: EvalReport) -> Table:
    runs = [run for run in report.runs if any(run.repeated)]
    return Table(
        "Share of queries at whose rank a document stands again (chunks)",
        ("run", *map(str, range(1, 11))),
        tuple((run.name, *(number(share, 2) for share in run.repeated)) for run in runs),
    )


_DIFFERENCE = ("queries", "before", "after", "difference", "95 % bounds", "p")


def _overview(report: EvalReport) -> Table:
    """Runs of the report against each other by its first measure."""
    return Table(
        f"Differences of {report.measures[0]}",
        ("runs", *_DIFFERENCE),
        tuple(
            (f"{comparison.before} → {comparison.after}", *_difference(found))
            for comparison in report.comparisons
            for found in comparison.differences
            if found.measure == report.measures[0] and not comparison.is_baseline
        ),
    )


def _differences(comparison: Comparison) -> Table:
    return Table(
        f"{comparison.before} → {comparison.after}",
        ("measure", *_DIFFERENCE),
        tuple((found.measure, *_difference(found)) for found in comparison.differences),
    )


def _difference(found: Difference) -> tuple[str, ...]:
    return (
        f"{found.queries:,}",
        number(found.before),
        number(found.after),
        f"{found.difference.mean:+.4f}",
        f"{found.difference.low:+.4f} … {found.difference.high:+.4f}",
        number(found.p),
    )


def _deltas(report: EvalReport, comparison: Comparison) -> Iterator[Table]:
    text_by_id = {query.id: query.text for query in report.queries}
    worst = [delta for delta in comparison.deltas if delta.difference < 0][:SHOWN_DELTAS]
    best = [delta for delta in comparison.deltas if delta.difference > 0][-SHOWN_DELTAS:]
    if worst or best:
        yield Table(
            f"{report.measures[0]}, {comparison.before} → {comparison.after}: worst and best queries",
            ("query", "before", "after", "difference", "text"),
            tuple(
                (
                    delta.query_id,
                    number(delta.before),
                    number(delta.after),
                    f"{delta.difference:+.4f}",
                    _short(text_by_id[delta.query_id]),
                )
                for delta in (*worst, *best)
            ),
        )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _QUERY_CHARS else line[: _QUERY_CHARS - 1] + "…"


def blocks(table: Table, width: int) -> Sequence[Table]:
    """A table as several that are at most `width` characters wide, the first column in each."""
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
    parts: list[list[int]] = [[]]
    for at in range(1, len(table.columns)):
        used = widths[0] + sum(widths[other] + 2 for other in [*parts[-1], at])
        if used > width and parts[-1]:
            parts.append([])
        parts[-1].append(at)
    return [
        Table(
            table.title,
            tuple(table.columns[at] for at in [0, *part]),
            tuple(tuple(row[at] for at in [0, *part]) for row in table.rows),
        )
        for part in parts
    ]
