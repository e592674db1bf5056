"""Small SVG charts as text: bars with bounds, differences query by query, spreads.

Every bar has its own line with its name and value, so that nothing overlaps at any width and nothing
is told by colour alone. A chart is drawn on a canvas of `WIDTH` units and scales with its container;
at 400 pixels its letters are as tall as the page's small print. Colours are CSS variables: a page
that inlines charts has `chart_css()` in its style, a chart in a file of its own (`standalone`) brings
it along. All text is escaped, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from sqlindex.evaluation.canvas import (
    MARGIN,
    ROW,
    WIDTH,
    Scale,
    axis,
    drawing,
    first_row,
    row_label,
    scale_between,
    text_at,
    whisker,
)
from sqlindex.evaluation.lettering import escaped, fitting

_BAR = 12
_COLOURS = 8


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
    scale = scale_between(
        min(0.0, *reached), max(0.0, top or 0.0, *reached), [bar.label for bar in bars], values
    )
    colours: dict[str, int] = {}
    parts: list[str] = []
    y, at = first_row(title), 0
    for group in groups:
        if group.label:
            parts.append(text_at(MARGIN, y + 14, fitting(group.label, WIDTH - 2 * MARGIN), "group"))
            y += ROW
        for bar in group.bars:
            colour = colours.setdefault(bar.label, len(colours) % _COLOURS)
            parts.append(_bar(bar, values[at], shown, scale, y, colour))
            y, at = y + ROW, at + 1
        y += 6
    return drawing(
        name, title, description, y + ROW, [*axis(scale, shown, first_row(title), y), *parts]
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
    scale = scale_between(
        min(0.0, *ends), max(0.0, *ends), [spread.label for spread in spreads], medians
    )
    top = first_row(title)
    lines = [
        _spread(spread, shown, scale, top + at * ROW, at % _COLOURS)
        for at, spread in enumerate(spreads)
    ]
    bottom = top + len(spreads) * ROW
    return drawing(
        name, title, description, bottom + ROW, [*axis(scale, shown, top, bottom), *lines]
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
    head, height = first_row(title), 120
    zero = head + 26 + height / 2
    left, right = MARGIN + 7 * max(len(shown(reach)), len(shown(-reach))) + 4, WIDTH - MARGIN
    step = (right - left) / max(len(ordered), 1)

    def area(sign: int, colour: int) -> str:
        path = [f"M{left:.1f} {zero:.1f}"]
        for at, difference in enumerate(ordered):
            y = zero - max(sign * difference, 0.0) * sign / reach * height / 2
            path.append(f"V{y:.1f}H{left + (at + 1) * step:.1f}")
        return f'<path class="c{colour}" d="{"".join(path)}V{zero:.1f}Z"/>'

    counted = f"{better:,} better · {len(ordered) - better - worse:,} equal · {worse:,} worse"
    parts = [
        text_at(MARGIN, head + 12, counted, "soft"),
        area(1, 0),
        area(-1, 1),
        f'<path class="grid" d="M{left:.1f} {zero:.1f}H{right:.1f}"/>',
        *(
            text_at(left - 6, y + 4, text, "soft end")
            for y, text in (
                (zero - height / 2, shown(reach)),
                (zero, "0"),
                (zero + height / 2, shown(-reach)),
            )
        ),
        text_at(
            (left + right) / 2, zero + height / 2 + 16, f"{len(ordered):,} queries", "soft middle"
        ),
    ]
    return drawing(name, title, description, zero + height / 2 + ROW, parts)


def _bar(
    bar: Bar, value: str, shown: Callable[[float], str], scale: Scale, y: float, colour: int
) -> str:
    told = f"{bar.label}: {value}"
    drawn = ""
    if bar.value is not None:
        start, end = sorted((scale(0.0), scale(bar.value)))
        drawn = (
            f'<rect class="c{colour}" x="{start:.1f}" y="{y + (ROW - _BAR) / 2:.0f}" '
            f'width="{max(end - start, 0.5):.1f}" height="{_BAR}"/>'
        )
    if bar.low is not None and bar.high is not None:
        told += f", bounds {shown(bar.low)} to {shown(bar.high)}"
        low, high, middle = scale(bar.low), scale(bar.high), y + ROW / 2
        drawn += f'<path class="whisker" d="{whisker(low, high, middle)}"/>'
    return (
        f"<g><title>{escaped(told)}</title>{row_label(bar.label, scale, y)}{drawn}"
        f"{text_at(WIDTH - MARGIN, y + 14, value, 'value')}</g>"
    )


def _spread(
    spread: Spread, shown: Callable[[float], str], scale: Scale, y: float, colour: int
) -> str:
    ends = {
        "lowest": min(spread.values),
        "median": median(spread.values),
        "highest": max(spread.values),
    }
    told = ", ".join(f"{word} {shown(value)}" for word, value in ends.items())
    low, middle, high = map(scale, ends.values())
    centre = y + ROW / 2
    dots = "".join(
        f'<circle class="dot c{colour}" cx="{scale(value):.1f}" cy="{centre:.0f}" r="3"/>'
        for value in spread.values
    )
    return (
        f"<g><title>{escaped(spread.label)}: {escaped(told)}</title>{row_label(spread.label, scale, y)}"
        f'{dots}<path class="whisker" d="{whisker(low, high, centre)}"/>'
        f'<rect class="c{colour}" x="{middle - 2:.1f}" y="{centre - 7:.0f}" width="4" height="14"/>'
        f"{text_at(WIDTH - MARGIN, y + 14, shown(ends['median']), 'value')}</g>"
    )
