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

_SETS = 6
"""Judged sets in one plot: more would be taller than a screen."""


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
    ratio = figures.get("publish.transaction.to_copied_membership")
    if ratio is not None and "publish.transaction.large" in figures:
        bars = (
            *_bars(figures, (("sqlindex", "publish.transaction.large"),)),
            Bar(label="copied table", value=ratio["baseline"]),
        )
        alt = "The transaction of a publish, beside one that copies the table of all documents"
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


def _quality(figures: Figures) -> Iterator[Plot]:
    sets = list(dict.fromkeys(name.split(".")[1] for name in figures))
    alt = "nDCG@10 of each mode on judged sets, with 95 % bounds"
    for at in range(0, len(sets), _SETS):
        groups = [
            Group(
                name, _bars(figures, [(mode, f"quality.{name}.{mode}.nDCG@10") for mode in _MODES])
            )
            for name in sets[at : at + _SETS]
        ]
        yield from _plot(f"sets-{at // _SETS + 1}", "nDCG@10", alt, groups, _share, top=1.0)


def _peers(figures: Figures) -> Iterator[Plot]:
    peers = list(dict.fromkeys(name.split(".")[1] for name in figures))
    labels = [peer.replace("_", "-") for peer in peers]

    def group(title: str, figure: str) -> Group:
        """All peers in one order, so that each keeps its colour; those without a value are told."""
        measured = [figures.get(f"peers.{peer}.{figure}") for peer in peers]
        bars = tuple(
            Bar(label=label, value=None) if found is None else _bar(label, found)
            for label, found in zip(labels, measured, strict=True)
        )
        return Group(title, bars if any(measured) else ())

    modes = ("lexical", "vector", "hybrid")
    alt = "nDCG@10 of sqlindex and its peers in each mode, on the same texts, vectors and questions"
    quality = [group(mode, f"{mode}.ndcg") for mode in modes]
    yield from _plot("quality", "nDCG@10", alt, quality, _share, top=1.0)
    alt = "Time of half of the searches of sqlindex and its peers in each mode"
    latency = [group(mode, f"{mode}.p50") for mode in modes]
    yield from _plot("latency", "Time of a search, p50", alt, latency, _unit("ms"))
    alt = "Time that sqlindex and its peers take to build from the same texts and vectors"
    yield from _plot("build", "Build", alt, [group("", "build")], _unit("s"))
    alt = "Time until a changed text is found, for sqlindex and its peers"
    yield from _plot("change", "Text changed → found", alt, [group("", "replace")], _unit("ms"))


_PLOTS: Mapping[str, Callable[[Figures], Iterator[Plot]]] = {
    "index": _index,
    "folder": _folder,
    "startup": _startup,
    "publish": _publish,
    "concurrency": _concurrency,
    "search": _search,
    "spans": _spans,
    "scifact": _scifact,
    "quality": _quality,
    "peers": _peers,
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
    """With a whisker over its bounds or else its repeats, a twentieth of them left out at each end."""
    value, repeats = figure["value"], sorted(figure["repeats"])
    low, high = figure.get("bounds") or (None, None)
    if low is None and len(repeats) > 2:
        out = len(repeats) // 20
        low, high = repeats[out], repeats[len(repeats) - 1 - out]
    return Bar(label=label, value=value, low=low, high=high)


def _unit(unit: str) -> Callable[[float], str]:
    return lambda value: f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def _share(value: float) -> str:
    return f"{value:.3f}"
