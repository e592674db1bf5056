"""Cursors: the place behind a page of hits, as text that a host can keep.

A cursor is no secret and needs none: whoever makes one up gets a page of a search that he could have
asked for. It is bound to the query, the filters, the weights and the generation, so that all pages
reached by it are parts of one ranking.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

from sqlindex.config import SearchConfig
from sqlindex.errors import StaleCursorError, UsageError
from sqlindex.model.requests import MODES, Filters, Mode, SearchRequest
from sqlindex.store.head import Served

_VERSION = 1
_BYTES = 30
"""Version 1, mode 1, generation 8, chunks 4, offset 4, digest 8, check 4; numbers are big-endian."""

_GREATEST_OFFSET = 2**32 - 1


class Cursor:
    """A place in a ranking of so many chunks: `offset` hits lie before it; `digest` names the search."""

    __slots__ = ("chunks", "digest", "generation", "mode", "offset")

    def __init__(
        self, generation: int, mode: Mode, chunks: int, offset: int, digest: bytes
    ) -> None:
        self.generation = generation
        self.chunks = chunks
        self.mode = mode
        self.offset = offset
        self.digest = digest


def cursor_behind(
    request: SearchRequest, mode: Mode, config: SearchConfig, served: Served
) -> str | None:
    """The cursor for what follows the request's page; None where no ranking reaches."""
    offset = request.offset + request.limit
    if offset > _GREATEST_OFFSET:
        return None
    place = bytes((_VERSION, MODES.index(mode))) + served.generation.to_bytes(8, "big")
    place += served.chunks.to_bytes(4, "big") + offset.to_bytes(4, "big")
    place += search_digest(request, config, served)
    return (place + _check(place)).hex()


def continued(request: SearchRequest) -> tuple[SearchRequest, Cursor]:
    """The request that a request with a cursor means, and the cursor.

    Raises:
        UsageError: the text is no cursor, or the request contradicts it.
    """
    assert request.cursor is not None
    cursor = _parse(request.cursor)
    if request.offset or request.at not in (None, cursor.generation):
        raise UsageError(
            f"the cursor goes on in generation {cursor.generation}, where its page ended",
            hint="leave out at and offset (--at, --offset)",
        )
    if request.mode not in (None, cursor.mode):
        raise UsageError(
            f"the cursor belongs to a {cursor.mode} search, not to a {request.mode} one",
            hint="leave out the mode, or search without the cursor",
        )
    meant = replace(request, mode=cursor.mode, offset=cursor.offset, at=cursor.generation)
    return meant, cursor


def require_same_search(
    cursor: Cursor, request: SearchRequest, config: SearchConfig, served: Served
) -> None:
    """Refuse a cursor of another search.

    Raises:
        UsageError: of another query, other filters, other weights or another index.
        StaleCursorError: a purge or a repair has taken documents out of the generation since.
    """
    if cursor.digest != search_digest(request, config, served):
        raise UsageError(
            "the cursor belongs to another query, other filters, other weights or another index",
            hint="repeat the search as it was, or search without the cursor",
        )
    if cursor.chunks != served.chunks:
        raise stale(cursor)


def stale(cursor: Cursor) -> StaleCursorError:
    """The error for a cursor whose generation no longer answers."""
    return StaleCursorError(
        f"generation {cursor.generation} no longer answers {cursor.mode} searches",
        hint="start again: search without the cursor",
    )


def search_digest(request: SearchRequest, config: SearchConfig, served: Served) -> bytes:
    """Names what makes a ranking, 8 bytes; the page's limit and offset are no part of it."""
    ranked_by = replace(config, busy_timeout_ms=0)
    # The time of publishing: a restored copy can give a number a second time.
    parts = (request.query, _canonical(request.filters), repr(ranked_by), served.published_at)
    return blake2b(repr(parts).encode(), digest_size=8).digest()


def _canonical(filters: Filters) -> tuple[object, ...]:
    return (
        sorted(filters.sources),
        filters.path_prefix,
        filters.path_glob,
        sorted({extension.lower().lstrip(".") for extension in filters.extensions}),
        sorted(filters.languages),
        sorted(filters.tags_any),
        sorted(filters.tags_all),
        filters.date_from,
        filters.date_to,
        sorted(filters.metadata.items()),
    )


def _parse(text: str) -> Cursor:
    try:
        stored = bytes.fromhex(text)
    except (TypeError, ValueError):
        raise _malformed() from None
    place = stored[:-4]
    if len(stored) != _BYTES or stored.hex() != text or stored[-4:] != _check(place):
        raise _malformed()
    version, mode, generation = place[0], place[1], int.from_bytes(place[2:10], "big")
    if version != _VERSION or mode >= len(MODES) or generation >= 2**63:
        raise _malformed()
    chunks, offset = int.from_bytes(place[10:14], "big"), int.from_bytes(place[14:18], "big")
    return Cursor(generation, MODES[mode], chunks, offset, place[18:])


def _malformed() -> UsageError:
    return UsageError(
        "the cursor is none that a search has given", hint="pass it as it was, or search without it"
    )


def _check(place: bytes) -> bytes:
    return blake2b(place, digest_size=4).digest()
