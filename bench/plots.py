"""Plots of saved results, drawn as the evaluation's reports draw theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlindex.evaluation.canvas import standalone
from sqlindex.evaluation.charts import Bar, Group, bar_chart

Figures = Mapping[str, Mapping[str, Any]]
"""The figures of one saved result by name."""

_MODES = ("lexical", "semantic", "hybrid")


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of a result.

    Attributes:
        name: of its file, after that of the result.
        alt: what it shows, for those who do not see it; the table of figures has the numbers.
        svg: the file's text.
    """

    name: str
    alt: str
    svg: str


def plots(result: Mapping[str, Any]) -> list[Plot]:
    """The plots of a saved result; none for a benchmark whose table says it all.

    What the result has no figure for is left out.
    """
    draw = _PLOTS.get(result["benchmark"])
    figures = {figure["figure"]: figure for figure in result["figures"]}
    return list(draw(figures)) if draw is not None else []


def _index(figures: Figures) -> Iterator[Plot]:
    bars = _beside_baseline(figures, "index.first.files_per_s", "sqlindex", "bare markdown-it")
    alt = "Files indexed each second, beside a bare Markdown parser on the same files"
    yield from _plot("throughput", "First refresh", alt, [Group("", bars)], _unit("files/s"))


def _folder(figures: Figures) -> Iterator[Plot]:
    bars = _beside_baseline(figures, "folder.one_path", "its path named", "whole folder")
    alt = "Refresh after one edited file: its path named, beside the whole folder"
    yield from _plot("one-path", "One edited file", alt, [Group("", bars)], _unit("ms"))


def _startup(figures: Figures) -> Iterator[Plot]:
    bars = _beside_baseline(figures, "startup.search", "sqlindex search", "python -c pass")
    alt = "A command-line search as a process of its own, beside bare Python"
    yield from _plot("process", "One search as a process", alt, [Group("", bars)], _unit("ms"))


def _publish(figures: Figures) -> Iterator[Plot]:
    groups = [
        Group(
            title,
            _bars(
                figures, (("small", f"publish.{name}.small"), ("large", f"publish.{name}.large"))
            ),
        )
        for title, name in (("Whole upsert", "one_changed"), ("Its transaction", "transaction"))
    ]
    alt = (
        "Publishing one changed document in a small index, and in one with ten times the documents"
    )
    yield from _plot("scaling", "One changed document", alt, groups, _unit("ms"))
    ratio = figures.get("publish.unsynced.to_copied_membership")
    if ratio is not None:
        bars = (
            Bar(label="sqlindex", value=ratio["value"] * ratio["baseline"]),
            Bar(label="copied table", value=ratio["baseline"]),
        )
        alt = "The transaction of a publish, beside one that copies the table of all documents, neither synced"
        yield from _plot(
            "membership",
            f"Transaction with {ratio['n']:,} documents",
            alt,
            [Group("", bars)],
            _unit("ms"),
        )


def _concurrency(figures: Figures) -> Iterator[Plot]:
    bars = _bars(
        figures,
        (
            ("one reader", "concurrency.one_reader"),
            ("eight and a writer", "concurrency.eight_readers_and_writer"),
        ),
    )
    alt = "Answers each second of one reader, and of eight readers beside a writer"
    yield from _plot("readers", "Readers and a writer", alt, [Group("", bars)], _unit("answers/s"))


def _search(figures: Figures) -> Iterator[Plot]:
    groups = []
    for mode in _MODES:
        bars: list[Bar] = []
        for percentile in ("p50", "p95"):
            name = f"search.{mode}.{percentile}"
            bars += _beside_baseline(figures, name, percentile, f"floor {percentile}")
        groups.append(Group(mode, tuple(bars)))
    alt = "Time of a search in each mode, beside its floor: bare MATCH, bare numpy.vecdot"
    yield from _plot("latency", "Time of a search", alt, groups, _unit("ms"))


def _spans(figures: Figures) -> Iterator[Plot]:
    groups = [
        Group(
            f"{cut}, {place}",
            _bars(figures, [(who, f"spans.{cut}.{who}.{key}") for who in (*_MODES, "oracle")]),
        )
        for key, place in (("first_1", "first hit"), ("first_5", "first five"))
        for cut in ("chunks", "windows")
    ]
    alt = "Share of questions whose answer spans lie in the hits: chunks, windows and an oracle"
    yield from _plot("found", "Answers within the hits", alt, groups, _share, top=1.0)


def _scifact(figures: Figures) -> Iterator[Plot]:
    groups = [
        Group(measure, _bars(figures, [(mode, f"scifact.{mode}.{measure}") for mode in _MODES]))
        for measure in ("nDCG@10", "R@10", "R@100", "MRR")
    ]
    alt = "Quality of each mode on SciFact in four measures"
    yield from _plot("quality", "Quality on SciFact", alt, groups, _share, top=1.0)
    groups = [
        Group(percentile, _bars(figures, [(m, f"scifact.{m}.{percentile}") for m in _MODES]))
        for percentile in ("p50", "p95")
    ]
    alt = "Time of a search for 100 hits in each mode, inference included"
    yield from _plot("latency", "Time of a search on SciFact", alt, groups, _unit("ms"))


_PLOTS: Mapping[str, Callable[[Figures], Iterator[Plot]]] = {
    "index": _index,
    "folder": _folder,
    "startup": _startup,
    "publish": _publish,
    "concurrency": _concurrency,
    "search": _search,
    "spans": _spans,
    "scifact": _scifact,
}


def _plot(
    name: str,
    title: str,
    alt: str,
    groups: Sequence[Group],
    shown: Callable[[float], str],
    top: float | None = None,
) -> Iterator[Plot]:
    filled = [group for group in groups if group.bars]
    if filled:
        chart = bar_chart(name, title, alt, filled, shown=shown, top=top)
        yield Plot(name, alt, standalone(chart))


def _bars(figures: Figures, names: Sequence[tuple[str, str]]) -> tuple[Bar, ...]:
    """A bar for each (label, figure) that was measured."""
    return tuple(_bar(label, figures[name]) for label, name in names if name in figures)


def _beside_baseline(figures: Figures, name: str, label: str, floor: str) -> tuple[Bar, ...]:
    """A figure's bar and that of its baseline, as far as they were measured."""
    figure = figures.get(name)
    if figure is None:
        return ()
    baseline = figure["baseline"]
    floors = () if baseline is None else (Bar(label=floor, value=baseline),)
    return (_bar(label, figure), *floors)


def _bar(label: str, figure: Mapping[str, Any]) -> Bar:
    """With a whisker over the repeats, if there are some, a twentieth at each end left out."""
    repeats = sorted(figure["repeats"])
    if len(repeats) < 3:
        return Bar(label=label, value=figure["value"])
    out = len(repeats) // 20
    return Bar(
        label=label, value=figure["value"], low=repeats[out], high=repeats[len(repeats) - 1 - out]
    )


def _unit(unit: str) -> Callable[[float], str]:
    return lambda value: f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def _share(value: float) -> str:
    return f"{value:.3f}"
