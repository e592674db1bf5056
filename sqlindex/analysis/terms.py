"""Terms of a query, spelled as they stand in the vocabulary of the lexical table."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from sqlindex.analysis.analyser import analyse
from sqlindex.analysis.folding import DIACRITICS, PRIVATE_USE, fold
from sqlindex.analysis.ideographs import UNSPACED, bigrams

MAX_QUERY_CHARS = 65_536
MAX_TERMS = 256
MAX_TERM_CHARS = 256

_NOT_REMOVED = frozenset("\u01e1")
"""What FTS5's table of diacritics lacks: a with dot above and macron."""


def query_terms(query: str) -> list[str]:
    """Terms that FTS5 makes of the analysed query, in its order, each once.

    A run of Han or kana gives its bigrams, a single character itself. No term holds a quote,
    a space or FTS5 syntax. Beyond the bounds a query is cut: `MAX_QUERY_CHARS` characters,
    `MAX_TERMS` terms, `MAX_TERM_CHARS` characters a term (such a term matches nothing whole).

    Returns:
        At most `MAX_TERMS` terms; none for a query without letters and numbers.
    """
    terms: dict[str, None] = {}
    for term in _terms(fold(query[:MAX_QUERY_CHARS])):
        terms[term[:MAX_TERM_CHARS]] = None
        if len(terms) >= MAX_TERMS:
            break
    return list(terms)


def document_terms(text: str) -> set[str]:
    """All terms that the lexical table has of a text, spelled as `query_terms` spells them."""
    return set(_terms(analyse(text)))


def _terms(folded: str) -> Iterator[str]:
    """The terms of a folded text in order; those of a run of Han or kana are its bigrams."""
    if folded.isascii():
        yield from _ascii_term().findall(folded)
        return
    for found in _term().finditer(folded):
        if found["run"]:
            yield from bigrams(found["run"])
        else:
            yield _without_diacritics(found[0])


def _without_diacritics(term: str) -> str:
    """Remove what `remove_diacritics 2` removes: diacritics on the letters a to z."""
    if term.isascii():
        return term
    letters = []
    for letter in term:
        if letter in DIACRITICS:
            continue
        base = unicodedata.normalize("NFD", letter)[0]
        is_removed = base.isascii() and letter not in _NOT_REMOVED
        letters.append(base if is_removed else letter)
    return "".join(letters)


# Compiled on first use: the second takes longer than a whole search.
@cache
def _ascii_term() -> re.Pattern[str]:
    return re.compile("[0-9a-z]+")


@cache
def _term() -> re.Pattern[str]:
    """A term of FTS5's unicode61 begins with a letter, a number or a private-use character and goes
    on with these or with diacritics; all else separates."""
    return re.compile(
        f"(?P<run>[{UNSPACED}]+)"
        f"|(?:[^\\W_{UNSPACED}]|[{PRIVATE_USE}])(?:[^\\W_{UNSPACED}]|[{PRIVATE_USE}{DIACRITICS}])*"
    )
