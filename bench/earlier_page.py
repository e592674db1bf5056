"""`docs/reference/earlier-systems.md`, from the saved result of `python -m bench earlier --save`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_HEAD = """\
# Earlier systems beside sqlindex

Three systems that its makers built before published these figures, each on its own collection. The
collections were not published. Ours have the same shape and are ours
([`fixtures/corpora`](../../fixtures/corpora/README.md)): other texts, other questions, other judges. So the
two columns show where each stands on its own ground; they cannot be subtracted.

Generated from [`bench/results/earlier.json`](../../bench/results/earlier.json).
"""
_ABOUT = {
    "A-33": (
        "Questions on a company's documents",
        "64 documents, 72 chunks, 50 questions in ten classes, MiniLM, which is made for English: a third of "
        "our documents is German. No-answer questions get hits in every mode, there as here, and no cosine "
        "parts them from the others.",
    ),
    "A-34": (
        "Searches that every document matches",
        "384-d hashed vectors, one process, ten hits, warm; median of seven.",
    ),
    "B-14": (
        "Rules of a customer service",
        "20,000 rules, 300 of them written and judged by hand, the others filler that answers nothing; "
        "lexical search; the held-out half of the queries. The earlier system stems, splits compounds, "
        "corrects typos and knows synonyms and validity; sqlindex does not yet.",
    ),
    "C-18": (
        "Passages in Chinese and English",
        "28 passages, 23 questions, a third of them in the other language. The earlier system used a "
        "multilingual model; this is MiniLM.",
    ),
}


def earlier_page(result: Mapping[str, Any]) -> str:
    """The page for a saved result."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    yield _HEAD
    size = "" if result["size"] is None else f" --n {result['size']}"
    machine = result["machine"]
    yield f"`python -m bench earlier{size}` on {result['date']}, commit {str(result['commit'])[:12]};"
    yield f"{machine['cores']} cores, {machine['cpu']}, load {machine['load_before']:.1f}."
    for part, (title, about) in _ABOUT.items():
        rows = [figure for figure in result["figures"] if figure["figure"].split(".")[1] == part]
        if not rows:
            continue
        yield from ("", f"## {title} ({part})", "", about, "")
        yield from ("| | earlier | sqlindex | unit | n |", "|---|---|---|---|---|")
        for figure in rows:
            name = figure["figure"].removeprefix(f"earlier.{part}.").replace(".", ", ")
            earlier = figure["details"]["earlier"]
            yield (
                f"| {name} | {_number(earlier)} | {_number(figure['value'])} | {figure['unit']} "
                f"| {figure['n']:,} |"
            )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
