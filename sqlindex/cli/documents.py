"""Documents named on the command line: by id or path within a source, or by a path on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from sqlindex.errors import UnknownDocumentError
from sqlindex.index import Index

T = TypeVar("T")


def of_document(
    index: Index,
    ask: Callable[[str, str | None], T],
    named: str,
    source: str | None,
    *,
    at: str | None = None,
) -> T:
    """What `ask` says of the document that is named.

    An id or path within a source comes first. If there is none, it is the document of the file of
    that name.

    Args:
        at: the generation that `ask` looks into; None for the head.

    Raises:
        UnknownDocumentError: there is none; for a file that is not in, the message says why.
    """
    try:
        return ask(named, source)
    except UnknownDocumentError:
        if not named or "\0" in named:
            raise
        statuses = [s for s in index.file_status(named) if source in (None, s.source)]
        for status in statuses:
            if status.document_id and not os.path.isdir(named):
                if status.is_indexed and at is None:
                    return ask(status.document_id, status.source)
                if at is not None:  # what the head holds says nothing of an earlier generation
                    with suppress(UnknownDocumentError):
                        return ask(status.document_id, status.source)
        for status in statuses:
            if status.refusal is not None and at is None:
                reason = f"{status.refusal.reason.value}: {status.refusal.detail}"
                raise UnknownDocumentError(
                    f"{named} is not in the index: {reason}", hint=status.refusal.hint
                ) from None
        raise
