"""A report as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from sqlindex.evaluation.measures import MEASURES
from sqlindex.evaluation.report import EvalReport, ModeResult


def render_table(report: EvalReport) -> str:
    """The report as plain text of several lines, without a line ending at the end."""
    queries = f"{report.queries:,} queries"
    if report.queries < report.answerable:
        queries = f"{report.queries:,} of {report.answerable:,} queries"
    head = [
        f"{report.collection}: {report.documents:,} documents, {report.chunks:,} chunks, {queries}"
    ]
    if report.embedder is not None:
        head.append(f"{report.embedded:,} texts embedded, {report.reused:,} chunks reused a vector")
    if report.truncated:
        head.append(f"{report.truncated:,} texts were cut at the embedder's limit")
    if report.refused:
        head.append(f"{report.refused:,} documents were refused and cannot be found")
    if report.unknown_judged:
        head.append(f"{report.unknown_judged:,} relevant documents are not in the corpus")
    titles = ("mode", *MEASURES, "p50 ms", "p95 ms")
    return "\n".join([*head, "", *_aligned([titles, *map(_row, report.modes)])])


def _row(result: ModeResult) -> tuple[str, ...]:
    measures = (f"{result.mean[name]:.4f}" for name in MEASURES)
    times = (f"{ms:.1f}" for ms in (result.latency.p50_ms, result.latency.p95_ms))
    return (result.mode, *measures, *times)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """First column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
