"""Rows that an answer is made of, verified before it is given."""

from __future__ import annotations

from sqlindex.errors import CorruptIndexError
from sqlindex.store.documents import is_whole_version
from sqlindex.store.driver import Connection
from sqlindex.store.parses import is_whole_parse

MAX_CHUNKS = 2_000
"""The rows of a larger document are verified by `check` alone: it would take longer than the search."""

_REMEMBERED = 10_000


class VerifiedRows:
    """Verifies versions and parses by their checksums; a parse once, and remembers which.

    Safe for threads.
    """

    def __init__(self) -> None:
        self._parses: set[int] = set()

    def verify(self, connection: Connection, version_id: int, parse_id: int, chunks: int) -> None:
        """Make sure that a version and its parse say what was indexed.

        Raises:
            CorruptIndexError: a row no longer gives its checksum; the message names it.
        """
        if not is_whole_version(connection, version_id):
            raise damaged_row(f"document version {version_id}")
        if parse_id in self._parses or chunks > MAX_CHUNKS:
            return
        if not is_whole_parse(connection, parse_id):
            raise damaged_row(f"parse {parse_id}")
        if len(self._parses) >= _REMEMBERED:
            self._parses = set()
        self._parses.add(parse_id)


def damaged_row(what: str) -> CorruptIndexError:
    """The error for a row that is not what was stored."""
    return CorruptIndexError(f"{what} is damaged", hint="run 'sqlindex repair', then refresh")
