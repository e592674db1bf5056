"""The canvas of charts: its units, axis, labels and letters, and the file around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sqlindex.evaluation.lettering import escaped, fitting, text_width, wrapped

WIDTH = 400
"""Units of a chart's canvas; a letter is `EM` units tall."""

ROW = 20
"""Units of one line."""

MARGIN = 8
_GAP = 10
_MAX_LABEL = 150
_MIN_BARS = 80
_STANDALONE_WIDTH = 520
_TITLE = (WIDTH - 2 * MARGIN) / 1.15  # its letters are larger and bold


@dataclass(frozen=True, slots=True)
class Scale:
    """Values onto the canvas, with a column of labels before them.

    Attributes:
        low, high: the values at the ends.
        left, right: where the ends are.
        label: how wide a label may be.
    """

    low: float
    high: float
    left: float
    right: float
    label: float

    def __call__(self, value: float) -> float:
        width = (self.high - self.low) or 1.0
        return self.left + (value - self.low) / width * (self.right - self.left)


@cache
def chart_css() -> str:
    """The style of charts: colours for light and dark, letters, lines."""
    return files(__package__).joinpath("charts.css").read_text(encoding="utf-8")


def drawing(name: str, title: str, description: str, height: float, parts: Sequence[str]) -> str:
    """A whole chart of this height: its title above its parts, named and described for all readers."""
    assert re.fullmatch(r"[a-z0-9-]+", name), name
    heading = "".join(
        text_at(MARGIN, 18 + 16 * at, line, "name")
        for at, line in enumerate(wrapped(title, _TITLE))
    )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height + 4:.0f}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escaped(title)}</title>'
        f'<desc id="{name}-desc">{escaped(description)}</desc>\n'
        + "\n".join([heading, *parts])
        + "</svg>"
    )


def standalone(chart: str) -> str:
    """A chart as a file of its own, with its colours for light and dark and a background."""
    (height,) = re.findall(rf'^<svg class="chart" viewBox="0 0 {WIDTH} (\d+)"', chart)
    size = f'width="{_STANDALONE_WIDTH}" height="{int(height) * _STANDALONE_WIDTH / WIDTH:.0f}"'
    opening, rest = chart.split(">", 1)
    named, drawn = rest.split("</desc>", 1)
    return (
        f'{opening} xmlns="http://www.w3.org/2000/svg" {size}>{named}</desc>\n'
        f'<style>\n{chart_css()}</style>\n<rect class="paper" width="100%" height="100%"/>{drawn}\n'
    )


def scale_between(low: float, high: float, labels: Sequence[str], values: Sequence[str]) -> Scale:
    """Between the columns of labels and of values; where room is short, labels are cut."""
    right = WIDTH - MARGIN - max(map(text_width, values), default=0.0) - _GAP
    room = min(_MAX_LABEL, right - _MIN_BARS - MARGIN - _GAP)
    label = min(max(map(text_width, labels), default=0.0), room)
    return Scale(low, high, MARGIN + label + _GAP, right, label)


def axis(scale: Scale, shown: Callable[[float], str], top: float, bottom: float) -> list[str]:
    """Zero and the ends of the axis, each a line; below it its value, where it does not overlap."""
    drawn: list[str] = []
    taken: list[tuple[float, float]] = []
    for value, anchor, shift in (
        (0.0, "middle", 0.5),
        (scale.high, "end", 1.0),
        (scale.low, "start", 0.0),
    ):
        told = "0" if value == 0 else shown(value)
        start = scale(value) - shift * text_width(told)
        end = start + text_width(told)
        drawn.append(f'<path class="grid" d="M{scale(value):.1f} {top:.0f}V{bottom:.0f}"/>')
        if all(end + 4 <= left or right + 4 <= start for left, right in taken):
            taken.append((start, end))
            drawn.append(text_at(scale(value), bottom + 14, told, f"soft {anchor}"))
    return drawn


def row_label(label: str, scale: Scale, y: float) -> str:
    """A label at the start of the line at `y`, cut to its column."""
    return text_at(MARGIN, y + 14, fitting(label, scale.label), "")


def text_at(x: float, y: float, text: str, kind: str) -> str:
    """A text whose letters stand on `y`; `kind` is one or more classes of `charts.css`."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.0f}">{escaped(text)}</text>'


def whisker(low: float, high: float, y: float) -> str:
    """The path of a line with ends, from `low` to `high` on the canvas."""
    return f"M{low:.1f} {y - 4:.0f}v8m0 -4H{high:.1f}m0 -4v8"


def first_row(title: str) -> float:
    """Where the lines below a title begin."""
    return 12 + 16 * len(wrapped(title, _TITLE))
