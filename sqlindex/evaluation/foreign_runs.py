"""Runs that do not belong to what they are measured with: other queries, or other names of documents."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from sqlindex.errors import UsageError
from sqlindex.evaluation.runs import Run


def foreignness(
    run: Run, queries: Container[str], is_known: Callable[[str], bool], known_by: str
) -> str:
    """What makes every value of a run 0 by itself, or an empty text.

    Args:
        queries: ids of those that are measured.
        is_known: whether a ranked name is one of those that could be relevant.
        known_by: who knows such names, in words.
    """
    if not any(query_id in queries for query_id in run):
        return "none of its queries is measured" + _example(run)
    names = [name for scores in run.values() for name in scores]
    if not any(map(is_known, names)):
        return f"none of its documents is known to {known_by}" + _example(names)
    return ""


def require_shared_query(name: str, run: Run, queries: Container[str]) -> None:
    """Refuse a run of other queries; an empty one may be a system that finds nothing.

    Args:
        name: of the run, for the error.
        queries: ids of all queries of the collection, measured or not.

    Raises:
        UsageError: it has queries, and the collection none of them.
    """
    if run and not any(query_id in queries for query_id in run):
        raise UsageError(
            f"{name} has no query of the collection{_example(run)}",
            hint="measure a run of the same queries, under the same ids",
        )


def _example(names: Iterable[str]) -> str:
    first = next(iter(names), None)
    return "" if first is None else f", for example {first!r}"
