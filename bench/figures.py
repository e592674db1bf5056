"""Figures: what a benchmark reports, one row each."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Sense = Literal["<=", ">="]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value.

    Attributes:
        figure: name, stable over releases.
        value: measured, in `unit`; None if there is none, with the reason among the details.
        unit: for example `ms`, `files/s`, `ratio`, `violations`.
        limit: what the value is held against, or None if it is only reported.
        sense: `<=` if the value must not exceed the limit, `>=` if it must reach it.
        baseline: the floor or the other side of a ratio, measured in the same run, or None.
        n: size: files, chunks, documents or queries, as the benchmark says.
        repeats: each measurement behind the value; saved, not printed.
        bounds: 95 % bounds of the value, if it has any; saved, not printed.
        details: what explains the value; saved, not printed.
    """

    figure: str
    value: float | None
    unit: str
    n: int
    limit: float | None = None
    sense: Sense | None = None
    baseline: float | None = None
    repeats: tuple[float, ...] = ()
    bounds: tuple[float, float] | None = None
    details: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert (self.limit is None) == (self.sense is None)
        assert self.limit is None or self.value is not None

    @property
    def holds(self) -> bool | None:
        """Whether the value is within its limit; None without a limit."""
        if self.limit is None or self.value is None:
            return None
        return self.value <= self.limit if self.sense == "<=" else self.value >= self.limit

    def to_json(self) -> dict[str, object]:
        """The row that `--json` prints."""
        return {
            "figure": self.figure,
            "value": None if self.value is None else rounded(self.value),
            "unit": self.unit,
            "limit": self.limit,
            "sense": self.sense,
            "holds": self.holds,
            "baseline": None if self.baseline is None else rounded(self.baseline),
            "n": self.n,
        }


def at_most(figure: str, value: float, unit: str, n: int, limit: float) -> Figure:
    """A figure that holds up to its limit."""
    return Figure(figure=figure, value=value, unit=unit, n=n, limit=limit, sense="<=")


def reported(figure: str, value: float, unit: str, n: int) -> Figure:
    """A figure without a limit."""
    return Figure(figure=figure, value=value, unit=unit, n=n)


def median_of(
    figure: str, samples: Sequence[float], unit: str, n: int, *, limit: float | None = None
) -> Figure:
    """The median of repeats, which are kept; it holds up to `limit`, if there is one."""
    return Figure(
        figure=figure,
        value=statistics.median(samples),
        unit=unit,
        n=n,
        limit=limit,
        sense=None if limit is None else "<=",
        repeats=tuple(samples),
    )


def rounded(value: float) -> float:
    """Six significant digits: more would be noise in the results' diffs."""
    return float(f"{value:.6g}")


def render(figures: Sequence[Figure]) -> str:
    """The figures as a table."""
    rows = [("figure", "value", "unit", "limit", "holds", "baseline", "n")]
    for figure in figures:
        limit = "" if figure.limit is None else f"{figure.sense} {figure.limit:g}"
        holds = {None: "", True: "yes", False: "NO"}[figure.holds]
        baseline = "" if figure.baseline is None else f"{figure.baseline:.4g}"
        rows.append(
            (
                figure.figure,
                "" if figure.value is None else f"{figure.value:.4g}",
                figure.unit,
                limit,
                holds,
                baseline,
                str(figure.n),
            )
        )
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines of columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
