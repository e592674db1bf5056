"""FTS5 MATCH expressions from quoted literals only: user text is always inert."""

from __future__ import annotations

from collections.abc import Sequence


def quote(term: str) -> str:
    """A term as an FTS5 string literal."""
    return '"' + term.replace('"', '""') + '"'


def any_of(terms: Sequence[str]) -> str:
    """An expression that matches a chunk holding at least one of the terms.

    Args:
        terms: made by `analysis.terms.query_terms`, at least one.
    """
    assert terms
    return " OR ".join(quote(term) for term in terms)
