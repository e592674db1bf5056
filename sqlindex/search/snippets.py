"""A part of a chunk for display."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from sqlindex.analysis.terms import query_terms

SNIPPET_CHARS = 240
_ELLIPSIS = "…"
_MAX_SCANNED_CHARS = 20_000


def snippet(text: str, terms: Sequence[str], *, max_chars: int = SNIPPET_CHARS) -> str:
    """The lines around the one that holds most of the terms, cut to `max_chars`.

    Line breaks become spaces. Without a matching line, the chunk's beginning.
    """
    wanted = set(terms)
    words_of = _ascii_words if all(term.isascii() for term in terms) else query_terms
    lines = [" ".join(line.split()) for line in text[:_MAX_SCANNED_CHARS].split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        return ""
    best = 0
    if wanted:
        counts = [len(wanted.intersection(words_of(line))) for line in lines]
        best = max(range(len(lines)), key=lambda i: (counts[i], -i))
    shown = _around_term(lines[best], wanted, words_of, max_chars)
    if shown is None:
        joined = " ".join(lines[best:])
        shown = joined if len(joined) <= max_chars else _cut(joined, 0, max_chars)
    return shown


def _ascii_words(text: str) -> list[str]:
    """Words as far as ASCII terms can match them: cheaper than `query_terms`, which is exact for all
    scripts, and enough to choose what to show."""
    folded = text if text.isascii() else unicodedata.normalize("NFKD", text.casefold())
    return re.findall("[0-9a-z]+", folded.encode("ascii", "ignore").decode().lower())


def _around_term(
    line: str, wanted: set[str], words_of: Callable[[str], list[str]], max_chars: int
) -> str | None:
    """For a line longer than the snippet: the part with its first matching word."""
    if len(line) <= max_chars:
        return None
    position = 0
    for word in line.split(" "):
        if wanted.intersection(words_of(word)):
            return _cut(line, max(0, position - max_chars // 3), max_chars)
        position += len(word) + 1
    return _cut(line, 0, max_chars)


def _cut(text: str, start: int, max_chars: int) -> str:
    if start > 0:
        space = text.find(" ", start, start + 40)
        start = space + 1 if space >= 0 else start
        while start < len(text) and _joins_previous(text[start]):
            start += 1
    end = min(len(text), start + max_chars)
    if end < len(text):
        space = text.rfind(" ", end - 40, end)
        end = space if space > start else end
        while end > start and _joins_previous(text[end]):
            end -= 1
    prefix = _ELLIPSIS if start > 0 else ""
    suffix = _ELLIPSIS if end < len(text) else ""
    return prefix + text[start:end] + suffix


def _joins_previous(character: str) -> bool:
    """Whether cutting before this character would split what is drawn as one."""
    return bool(unicodedata.combining(character)) or character in "\u200d\ufe0e\ufe0f"
