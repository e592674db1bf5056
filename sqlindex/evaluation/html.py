"""A report as one HTML file: tables and charts, no network, no other file, readable without script."""

from __future__ import annotations

from collections.abc import Iterator

from sqlindex.evaluation.charts import Bar, Group, Spread, bar_chart, spread_chart
from sqlindex.evaluation.html_queries import comparisons, every_query, extremes
from sqlindex.evaluation.lettering import escaped
from sqlindex.evaluation.markup import (
    Cell,
    Number,
    charts,
    facts,
    note,
    number,
    page,
    section,
    table,
)
from sqlindex.evaluation.report import EvalReport, RunResult


def render_html(report: EvalReport) -> str:
    """The report as a page of its own.

    It loads nothing, and its content security policy forbids it: queries are text that nobody
    vouches for. Values that are not defined are dashes, not zeros. Every table is complete without
    script; the script sorts and filters the one of all queries.
    """
    title = f"Evaluation of {report.collection}"
    return page(
        title,
        [
            *_head(report, title),
            _quality(report),
            _classes(report),
            _no_answer(report),
            section("Comparisons", *comparisons(report)),
            section("Hardest and easiest queries", *extremes(report)),
            _repeated(report),
            _times(report),
            _origin(report),
            section("Every query", every_query(report)),
        ],
    )


def _head(report: EvalReport, title: str) -> Iterator[str]:
    yield f"<h1>{escaped(title)}</h1>"
    answerable = sum(query.is_answerable for query in report.queries)
    pairs = [
        ("Queries", _of(answerable, report.answerable, "answerable")),
        ("Ranked", f"{report.level}s, {_depth(report.depth)}"),
    ]
    for index in report.indexes:
        name = "Index" if len(report.indexes) == 1 else f"Index {index.configuration}"
        counts = f"{index.documents:,} documents, {index.chunks:,} chunks"
        pairs.append((name, f"{counts}, generation {index.generation}"))
    if report.no_answer:
        unanswerable = len(report.queries) - answerable
        pairs.append(("No answer", _of(unanswerable, report.no_answer, "no-answer")))
    if report.unjudged:
        pairs.append(("Unjudged", f"{report.unjudged:,}, not run"))
    if report.unknown_judged:
        pairs.append(
            (
                "Missing",
                f"{report.unknown_judged:,} of the relevant documents; nobody can find them",
            )
        )
    yield facts(pairs)


def _quality(report: EvalReport) -> str:
    rows: list[list[Cell]] = [
        [run.name, *(_bounded(run, measure) for measure in report.measures)] for run in report.runs
    ]
    return section(
        "Quality",
        note(
            "Means over the answerable queries, each counting the same; below them 95 % bootstrap "
            f"bounds ({report.rounds:,} rounds, seed {report.seed})."
        ),
        table("Quality of each run", ["run", *report.measures], rows),
        charts(
            *(
                bar_chart(
                    f"quality-{at}",
                    measure,
                    f"{measure} of each run with its bounds; the numbers are in the table above.",
                    [Group("", tuple(_bar(run, measure) for run in report.runs))],
                    shown=_three,
                    top=1.0,
                )
                for at, measure in enumerate(report.measures)
                if any(run.mean.get(measure) is not None for run in report.runs)
            )
        ),
    )


def _classes(report: EvalReport) -> str:
    if not any(run.classes for run in report.runs):
        return ""
    main = report.measures[0]
    sizes = {result.name: result.queries for run in report.runs for result in run.classes}
    found = {(run.name, result.name): result for run in report.runs for result in run.classes}
    rows: list[list[Cell]] = []
    groups: list[Group] = []
    for name, queries in sizes.items():
        results = [
            (run.name, found[run.name, name]) for run in report.runs if (run.name, name) in found
        ]
        for run_name, result in results:
            values = [number(result.mean.get(measure)) for measure in report.measures]
            rows.append([name, run_name, number(queries, ",.0f"), *values])
        bars = tuple(
            Bar(label=run_name, value=result.mean.get(main)) for run_name, result in results
        )
        groups.append(Group(f"{name} ({queries:,})", bars))
    return section(
        "Classes",
        note("Answerable queries by class; a query of several classes counts in each."),
        charts(
            *(
                bar_chart(
                    f"classes-{at}",
                    f"{main} by class",
                    f"{main} of each run in each class, queries of the class in brackets.",
                    groups[at : at + _GROUPS],
                    shown=_three,
                    top=1.0,
                )
                for at in range(0, len(groups), _GROUPS)
            )
        ),
        table("Quality by class", ["class", "run", "queries", *report.measures], rows),
    )


def _no_answer(report: EvalReport) -> str:
    kinds = dict.fromkeys(result.name for run in report.runs for result in run.no_answer)
    rows: list[list[Cell]] = [
        [
            kind,
            run.name,
            number(result.queries, ",.0f"),
            number(result.non_empty_rate),
            number(result.false_alarm_rate),
        ]
        for kind in kinds
        for run in report.runs
        for result in run.no_answer
        if result.name == kind
    ]
    if not rows and not any(run.cosines for run in report.runs):
        return ""
    head = ["class", "run", "queries", "non-empty", "false alarms"]
    cosines: list[list[Cell]] = [
        [run.name, name, *map(number, (spread.min, spread.median, spread.max))]
        for run in report.runs
        for name, spread in run.cosines.items()
    ]
    return section(
        "Queries without an answer" if rows else "Cosines of the best hits",
        note(
            "The right answer is to find nothing. Non-empty: the share for which something was found. "
            "False alarms: the share whose first hit holds at least half of the query's words."
        )
        if rows
        else "",
        table("Queries without an answer", head, rows),
        charts(
            *(
                spread_chart(
                    f"cosines-{at}",
                    f"Best cosine of a query, {run.name}",
                    "Where answerable and no-answer queries overlap, no threshold parts them.",
                    [Spread(name, spread.values) for name, spread in run.cosines.items()],
                    shown=_three,
                )
                for at, run in enumerate(report.runs)
                if run.cosines
            )
        ),
        table("Best cosines", ["run", "queries", "lowest", "median", "highest"], cosines),
    )


def _repeated(report: EvalReport) -> str:
    runs = [run for run in report.runs if any(run.repeated)]
    if not runs:
        return ""
    ranks = range(max(len(run.repeated) for run in runs))
    rows: list[list[Cell]] = [
        [run.name, *(number(share, ".2f") for share in run.repeated)] for run in runs
    ]
    return section(
        "Repeated documents",
        note("Share of the answerable queries at which a document stands again at a chunk's rank."),
        table(
            "Repeated documents by rank",
            ["run", *(str(rank + 1) for rank in ranks)],
            rows,
        ),
    )


def _times(report: EvalReport) -> str:
    searched = [(run.name, run.latency) for run in report.runs if run.latency is not None]
    pairs = [
        (
            f"Index {index.configuration}",
            f"{index.index_s:,.1f} s; {_inference(index.embedded, index.reused)}",
        )
        for index in report.indexes
        if index.index_s is not None
    ]
    embedding = report.query_embedding
    if embedding is not None:
        pairs.append(
            (
                "Query embedding",
                f"{embedding.total_s:,.1f} s for {embedding.embedded:,} queries "
                f"(p50 {embedding.p50_ms:.1f} ms, p95 {embedding.p95_ms:.1f} ms), "
                f"{embedding.reused:,} searches used one again",
            )
        )
    if not searched:
        return section("Times", facts(pairs)) if pairs else ""
    rows: list[list[Cell]] = [
        [name, *(number(ms, ",.1f") for ms in (latency.p50_ms, latency.p95_ms, latency.first_ms))]
        for name, latency in searched
    ]
    groups = [
        Group("p50", tuple(Bar(label=name, value=latency.p50_ms) for name, latency in searched)),
        Group("p95", tuple(Bar(label=name, value=latency.p95_ms) for name, latency in searched)),
    ]
    return section(
        "Times",
        facts(pairs) if pairs else "",
        table("Times of the searches", ["run", "p50 ms", "p95 ms", "first ms"], rows),
        charts(
            bar_chart(
                "times",
                "Time of a search",
                "Half of the searches take at most p50, 95 in 100 at most p95.",
                groups,
                shown=lambda ms: f"{ms:,.1f} ms",
            )
        ),
    )


def _origin(report: EvalReport) -> str:
    pairs = [
        (f"{name} SHA-256", digest)
        for name, digest in (
            ("Corpus", report.corpus_sha256),
            ("Queries", report.queries_sha256),
            ("Qrels", report.qrels_sha256),
        )
        if digest is not None
    ]
    for index in report.indexes:
        settings = ", ".join(f"{key} = {value}" for key, value in index.settings.items())
        parts = [index.path, index.embedder or "no vectors", *([settings] if settings else [])]
        if index.refused:
            parts.append(f"{index.refused:,} documents refused")
        if index.truncated:
            parts.append(f"{index.truncated:,} texts cut at the embedder's limit")
        pairs.append((f"Index {index.configuration}", "; ".join(parts)))
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return section("Origin", facts([*pairs, ("Versions", versions)]))


_GROUPS = 8
"""Classes in one chart: more would be taller than a screen."""


def _bounded(run: RunResult, measure: str) -> Number:
    bounds = run.bounds.get(measure)
    more = "" if bounds is None else f"{bounds.low:.3f} … {bounds.high:.3f}"
    return number(run.mean.get(measure), more=more)


def _bar(run: RunResult, measure: str) -> Bar:
    bounds = run.bounds.get(measure)
    ends = (None, None) if bounds is None else (bounds.low, bounds.high)
    return Bar(label=run.name, value=run.mean.get(measure), low=ends[0], high=ends[1])


def _three(value: float) -> str:
    return f"{value:.3f}"


def _of(run: int, known: int, kind: str) -> str:
    return f"{run:,}" if run == known else f"{run:,} of {known:,} {kind} ones"


def _depth(depth: int | None) -> str:
    return "rankings as deep as they are" if depth is None else f"{depth:,} deep"


def _inference(embedded: int, reused: int) -> str:
    return f"{embedded:,} texts embedded, {reused:,} chunks reused a vector"
