"""HTML parts of a report: tables, facts and the page around them, all text escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from sqlindex.evaluation.canvas import chart_css
from sqlindex.evaluation.lettering import escaped

NOT_DEFINED = "–"
"""Stands where a value is not defined."""

_LONGEST = 300
_SHORT = 24


@dataclass(frozen=True, slots=True)
class Number:
    """A cell with a number.

    Attributes:
        value: rows are sorted by it; None stays last.
        shown: its text.
        more: smaller text after it, such as bounds.
    """

    value: float | None
    shown: str
    more: str = ""


Cell = str | Number
"""A text is shown as it reads, in its own direction, long ones cut."""


def number(value: float | None, form: str = ".3f", more: str = "") -> Number:
    """A number by a format specification; without a value a dash."""
    return Number(value, NOT_DEFINED if value is None else format(value, form), more)


def table(
    label: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], *, sortable: bool = False
) -> str:
    """A table that scrolls sideways by itself where the page is narrow; nothing without rows.

    Args:
        label: says what it is to those who do not see it.
        head: of the columns; the first cell of each row heads the row.
        sortable: the page's script lets readers sort and filter it.
    """
    if not rows:
        return ""
    kinds = ["number" if isinstance(cell, Number) else "" for cell in rows[0]]
    columns = "".join(
        f'<th scope="col" class="{kind}">{_shown(title)}</th>'
        for title, kind in zip(head, kinds, strict=True)
    )
    body = "\n".join(f"<tr>{''.join(_cells(row))}</tr>" for row in rows)
    kind = ' class="sortable"' if sortable else ""
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escaped(label)}">'
        f"<table{kind}><thead><tr>{columns}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and their values."""
    inner = "".join(f"<dt>{escaped(name)}</dt><dd>{_shown(value)}</dd>" for name, value in pairs)
    return f"<dl>{inner}</dl>"


def section(title: str, *parts: str) -> str:
    """Parts under a heading; nothing if all are empty."""
    inner = "\n".join(filter(None, parts))
    return f"<section>\n<h2>{escaped(title)}</h2>\n{inner}\n</section>" if inner else ""


def charts(*drawn: str) -> str:
    """Charts side by side, as many as fit."""
    figures = "".join(f"<figure>{chart}</figure>" for chart in filter(None, drawn))
    return f'<div class="charts">{figures}</div>' if figures else ""


def note(text: str) -> str:
    """A paragraph in small print."""
    return f'<p class="note">{_shown(text)}</p>'


def page(title: str, body: Iterable[str]) -> str:
    """A whole page in one file, which loads nothing.

    Its policy lets the browser use this style and this script alone, each named by its hash, so
    that no text on the page can run or fetch anything.
    """
    style, script = chart_css() + _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = "\n".join(filter(None, body))
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escaped(title)}</title>
<style>{style}</style>
</head>
<body>
<main>
{parts}
</main>
<script>{script}</script>
</body>
</html>
"""


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _cells(row: Sequence[Cell]) -> Iterator[str]:
    for at, cell in enumerate(row):
        tag, scope = ("td", "") if at else ("th", ' scope="row"')
        if isinstance(cell, str):
            kind = ' class="text"' if len(cell) > _SHORT else ""
            yield f"<{tag}{scope}{kind}>{_shown(cell)}</{tag}>"
        else:
            order = "" if cell.value is None else f"{cell.value:.6g}"
            more = f" <small>{escaped(cell.more)}</small>" if cell.more else ""
            shown = f"{escaped(cell.shown)}{more}"
            yield f'<{tag}{scope} class="number" data-order="{order}">{shown}</{tag}>'


def _shown(text: str) -> str:
    """A text of its own direction: what surrounds it keeps its order."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text):,} characters)"
    return f"<bdi>{escaped(text)}</bdi>"
