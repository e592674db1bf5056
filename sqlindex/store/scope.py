"""Parts of a source: documents by id, and all that lies below a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlindex.store.driver import Value

Scope = tuple[str, ...]
"""Ids of files and folders, none below another; the empty id stands for the whole source."""

EVERYTHING: Scope = ("",)
NOTHING: Scope = ()


def scope_of(ids: Iterable[str]) -> Scope:
    """The smallest scope that covers all of these ids."""
    kept: list[str] = []
    for document_id in sorted(set(ids), key=lambda id_: id_ + "/" if id_ else ""):
        if not (kept and (kept[-1] == "" or document_id.startswith(kept[-1] + "/"))):
            kept.append(document_id)
    return tuple(kept)


def scope_conditions(scope: Scope, column: str) -> Iterator[tuple[str, dict[str, Value]]]:
    """For each part of a scope a condition on the id in `column`, with its parameters.

    Ranges of ids, so that an index over them answers without looking at the rest.
    """
    for document_id in scope:
        if document_id == "":
            yield "", {}
            continue
        yield f" AND {column} = :only", {"only": document_id}
        # '0' follows '/' in the order of bytes.
        span: dict[str, Value] = {"first": document_id + "/", "behind": document_id + "0"}
        yield f" AND {column} >= :first AND {column} < :behind", span
