"""Small SVG charts as text: bars with bounds, differences query by query, spreads.

Every bar has its own line with its name and value, so that nothing overlaps at any width and nothing
is told by colour alone. A chart is drawn on a canvas of `WIDTH` units and scales with its container;
at 400 pixels its letters are as tall as the page's small print. Colours are CSS variables: a page
that inlines charts has `chart_css()` in its style, a chart in a file of its own (`standalone`) brings
it along. All text is escaped, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import median

from sqlindex.evaluation.lettering import escaped, fitting, text_width, wrapped

WIDTH = 400
"""Units of a chart's canvas; a letter is `EM` units tall."""

_ROW = 20
_BAR = 12
_MARGIN = 8
_COLOURS = 6
_MAX_LABEL = 150
_STANDALONE_WIDTH = 520
_TITLE = (WIDTH - 2 * _MARGIN) / 1.15  # its letters are larger and bold


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar.

    Attributes:
        label: to its left; bars of one label have one colour throughout a chart.
        value: its length, or None for a value that is not defined; it is named so, not drawn as 0.
        low, high: bounds of the value, drawn as a whisker, or None.
    """

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Bars under one heading; the heading may be empty."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """Values on one line: a dot each, a line from the lowest to the highest, a mark at the median.

    Attributes:
        label: to its left.
        values: at least one.
    """

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Values onto the canvas, from `left` to `right`."""

    low: float
    high: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        width = (self.high - self.low) or 1.0
        return self.left + (value - self.low) / width * (self.right - self.left)


@cache
def chart_css() -> str:
    """The style of charts: colours for light and dark, letters, lines."""
    return files(__package__).joinpath("charts.css").read_text(encoding="utf-8")


def bar_chart(
    name: str,
    title: str,
    description: str,
    groups: Sequence[Group],
    *,
    shown: Callable[[float], str],
    top: float | None = None,
) -> str:
    """Horizontal bars in groups, one line each, from zero; negative ones go to the left.

    Args:
        name: letters, digits and hyphens; unique in its page.
        title: above the chart.
        description: what the chart tells, for those who do not see it.
        shown: a value as text.
        top: the axis ends here or at the longest bar, whichever is more.
    """
    bars = [bar for group in groups for bar in group.bars]
    reached = [
        end for bar in bars for end in (bar.value, bar.low, bar.high) if end is not None
    ] or [0.0]
    values = ["–" if bar.value is None else shown(bar.value) for bar in bars]
    scale = _scale(
        min(0.0, *reached), max(0.0, top or 0.0, *reached), [bar.label for bar in bars], values
    )
    colours: dict[str, int] = {}
    parts: list[str] = []
    y, at = _first_row(title), 0
    for group in groups:
        if group.label:
            parts.append(_text(_MARGIN, y + 14, fitting(group.label, WIDTH - 2 * _MARGIN), "group"))
            y += _ROW
        for bar in group.bars:
            colour = colours.setdefault(bar.label, len(colours) % _COLOURS)
            parts.append(_bar(bar, values[at], shown, scale, y, colour))
            y, at = y + _ROW, at + 1
        y += 6
    return _svg(
        name, title, description, y + _ROW, [*_axis(scale, shown, _first_row(title), y), *parts]
    )


def spread_chart(
    name: str,
    title: str,
    description: str,
    spreads: Sequence[Spread],
    *,
    shown: Callable[[float], str],
) -> str:
    """One line for each spread, all on one axis from zero; beside each its median."""
    ends = [end for spread in spreads for end in spread.values] or [0.0]
    medians = [shown(median(spread.values)) for spread in spreads]
    scale = _scale(min(0.0, *ends), max(0.0, *ends), [spread.label for spread in spreads], medians)
    top = _first_row(title)
    lines = [
        _spread(spread, shown, scale, top + at * _ROW, at % _COLOURS)
        for at, spread in enumerate(spreads)
    ]
    bottom = top + len(spreads) * _ROW
    return _svg(
        name, title, description, bottom + _ROW, [*_axis(scale, shown, top, bottom), *lines]
    )


def waterfall(
    name: str,
    title: str,
    description: str,
    differences: Sequence[float],
    *,
    shown: Callable[[float], str],
) -> str:
    """The difference of each query, best first: what rose above the line, what fell below it."""
    ordered = sorted(differences, reverse=True)
    better = sum(difference > 0 for difference in ordered)
    worse = sum(difference < 0 for difference in ordered)
    reach = max(map(abs, ordered), default=0.0) or 1.0
    head, height = _first_row(title), 120
    zero = head + 26 + height / 2
    left, right = _MARGIN + 7 * max(len(shown(reach)), len(shown(-reach))) + 4, WIDTH - _MARGIN
    step = (right - left) / max(len(ordered), 1)

    def area(sign: int, colour: int) -> str:
        path = [f"M{left:.1f} {zero:.1f}"]
        for at, difference in enumerate(ordered):
            y = zero - max(sign * difference, 0.0) * sign / reach * height / 2
            path.append(f"V{y:.1f}H{left + (at + 1) * step:.1f}")
        return f'<path class="c{colour}" d="{"".join(path)}V{zero:.1f}Z"/>'

    counted = f"{better:,} better · {len(ordered) - better - worse:,} equal · {worse:,} worse"
    parts = [
        _text(_MARGIN, head + 12, counted, "soft"),
        area(1, 0),
        area(-1, 1),
        f'<path class="grid" d="M{left:.1f} {zero:.1f}H{right:.1f}"/>',
        *(
            _text(left - 6, y + 4, text, "soft end")
            for y, text in (
                (zero - height / 2, shown(reach)),
                (zero, "0"),
                (zero + height / 2, shown(-reach)),
            )
        ),
        _text(
            (left + right) / 2, zero + height / 2 + 16, f"{len(ordered):,} queries", "soft middle"
        ),
    ]
    return _svg(name, title, description, zero + height / 2 + _ROW, parts)


def standalone(chart: str) -> str:
    """A chart as a file of its own, with its colours for light and dark and a background."""
    opening, rest = chart.split(">", 1)
    height = float(opening.split('viewBox="0 0 ')[1].split('"')[0].split()[1])
    size = f'width="{_STANDALONE_WIDTH}" height="{height * _STANDALONE_WIDTH / WIDTH:.0f}"'
    paper = '<rect class="paper" width="100%" height="100%"/>'
    title_end = rest.index("</desc>") + len("</desc>")
    return (
        f'{opening} xmlns="http://www.w3.org/2000/svg" {size}>{rest[:title_end]}\n'
        f"<style>\n{chart_css()}</style>\n{paper}{rest[title_end:]}\n"
    )


def _svg(name: str, title: str, description: str, height: float, parts: Sequence[str]) -> str:
    assert re.fullmatch(r"[a-z0-9-]+", name), name
    heading = "".join(
        _text(_MARGIN, 18 + 16 * at, line, "name") for at, line in enumerate(wrapped(title, _TITLE))
    )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height + 4:.0f}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escaped(title)}</title>'
        f'<desc id="{name}-desc">{escaped(description)}</desc>\n'
        + "\n".join([heading, *parts])
        + "</svg>"
    )


def _bar(
    bar: Bar, value: str, shown: Callable[[float], str], scale: _Scale, y: float, colour: int
) -> str:
    told = f"{bar.label}: {value}"
    drawn = ""
    if bar.value is not None:
        start, end = sorted((scale(0.0), scale(bar.value)))
        drawn = (
            f'<rect class="c{colour}" x="{start:.1f}" y="{y + (_ROW - _BAR) / 2:.0f}" '
            f'width="{max(end - start, 0.5):.1f}" height="{_BAR}"/>'
        )
    if bar.low is not None and bar.high is not None:
        told += f", bounds {shown(bar.low)} to {shown(bar.high)}"
        low, high, middle = scale(bar.low), scale(bar.high), y + _ROW / 2
        drawn += f'<path class="whisker" d="{_whisker(low, high, middle)}"/>'
    return (
        f"<g><title>{escaped(told)}</title>{_label(bar.label, y)}{drawn}"
        f"{_text(WIDTH - _MARGIN, y + 14, value, 'value')}</g>"
    )


def _spread(
    spread: Spread, shown: Callable[[float], str], scale: _Scale, y: float, colour: int
) -> str:
    ends = {
        "lowest": min(spread.values),
        "median": median(spread.values),
        "highest": max(spread.values),
    }
    told = ", ".join(f"{word} {shown(value)}" for word, value in ends.items())
    low, middle, high = map(scale, ends.values())
    centre = y + _ROW / 2
    dots = "".join(
        f'<circle class="dot c{colour}" cx="{scale(value):.1f}" cy="{centre:.0f}" r="3"/>'
        for value in spread.values
    )
    return (
        f"<g><title>{escaped(spread.label)}: {escaped(told)}</title>{_label(spread.label, y)}"
        f'{dots}<path class="whisker" d="{_whisker(low, high, centre)}"/>'
        f'<rect class="c{colour}" x="{middle - 2:.1f}" y="{centre - 7:.0f}" width="4" height="14"/>'
        f"{_text(WIDTH - _MARGIN, y + 14, shown(ends['median']), 'value')}</g>"
    )


def _whisker(low: float, high: float, y: float) -> str:
    return f"M{low:.1f} {y - 4:.0f}v8m0 -4H{high:.1f}m0 -4v8"


def _scale(low: float, high: float, labels: Sequence[str], values: Sequence[str]) -> _Scale:
    """Between the column of labels and the column of values."""
    label = min(max(map(text_width, labels), default=0.0), _MAX_LABEL)
    value = max(map(text_width, values), default=0.0)
    return _Scale(low, high, _MARGIN + label + 10, WIDTH - _MARGIN - value - 10)


def _axis(scale: _Scale, shown: Callable[[float], str], top: float, bottom: float) -> list[str]:
    """The ends of the axis, and zero if it is neither; each a line and its value below it."""
    ends = [(scale.low, "start"), (scale.high, "end")]
    if scale.low < 0 < scale.high and (
        min(scale(0.0) - scale.left, scale.right - scale(0.0)) > 8 + text_width(shown(scale.low))
    ):
        ends.append((0.0, "middle"))
    return [
        f'<path class="grid" d="M{scale(value):.1f} {top:.0f}V{bottom:.0f}"/>'
        + _text(scale(value), bottom + 14, "0" if value == 0 else shown(value), f"soft {anchor}")
        for value, anchor in ends
    ]


def _label(label: str, y: float) -> str:
    return _text(_MARGIN, y + 14, fitting(label, _MAX_LABEL), "")


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.0f}">{escaped(text)}</text>'


def _first_row(title: str) -> float:
    return 12 + 16 * len(wrapped(title, _TITLE))
