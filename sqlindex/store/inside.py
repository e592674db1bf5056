"""Reading what an open transaction has written, by way of its own connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from sqlindex.cancellation import CancelToken
from sqlindex.store.driver import Connection


class Readable(Protocol):
    """Where a search reads: an `IndexFile`, or one connection of it."""

    def reading(self, *, cancel: CancelToken | None = None) -> AbstractContextManager[Connection]:
        """A connection whose reads in the block belong to one moment."""

    def holding(self, *generations: int) -> AbstractContextManager[None]:
        """Keep generations from being collected while the block runs."""

    def identity(self) -> tuple[int, int]:
        """(device, inode) of the file."""


class OneConnection:
    """Reads as an `IndexFile` does, but what the writer's connection sees at the moment.

    Only while nothing else is written by it: the writer's lock keeps all other changes away.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextmanager
    def reading(self, *, cancel: CancelToken | None = None) -> Iterator[Connection]:
        """The connection; the transaction's own token stops its statements."""
        yield self._connection

    @contextmanager
    def holding(self, *generations: int) -> Iterator[None]:
        """Nothing is collected beside the writer."""
        yield

    def identity(self) -> tuple[int, int]:
        """No file's: what is read here is not shared."""
        return (0, 0)
