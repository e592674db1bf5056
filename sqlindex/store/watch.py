"""A watch over a connection: ends a statement that works too long, or that nobody waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sqlindex.cancellation import CancelToken
from sqlindex.errors import DeadlineError

if TYPE_CHECKING:
    from sqlindex.store.driver import Connection, Cursor, Parameters

OPERATIONS_PER_LOOK = 20_000
"""Steps of SQLite's machine between two looks: about a millisecond of work."""

_LONGEST_STEP_S = 0.1
"""Time between two looks counts up to this as work: the rest was a pause between statements."""


class Watch:
    """Asked by SQLite between the steps of a connection's statements whether to go on.

    Only time that SQLite works counts, not what its caller does between two statements.
    """

    __slots__ = ("_cancel", "_last", "_left_s", "_timeout_ms")

    def __init__(self) -> None:
        self.start()

    def start(self, *, timeout_ms: int | None = None, cancel: CancelToken | None = None) -> None:
        """Begin anew.

        Args:
            timeout_ms: of work from now on; None for no limit.
            cancel: ends the work when it is cancelled.
        """
        self._timeout_ms = timeout_ms
        self._left_s = float("inf") if timeout_ms is None else timeout_ms / 1_000
        self._cancel = cancel
        self._last = time.monotonic()

    def __call__(self) -> int:
        """Not 0 if the statement must end, as SQLite's progress handler wants it."""
        now = time.monotonic()
        self._left_s -= min(now - self._last, _LONGEST_STEP_S)
        self._last = now
        return self._left_s < 0 or (self._cancel is not None and self._cancel.is_cancelled)

    def check(self) -> None:
        """Say why the statement was ended; return if it was not by this watch.

        Raises:
            CancelledError: the caller cancelled.
            DeadlineError: it worked too long.
        """
        if self._cancel is not None:
            self._cancel.check()
        if self._left_s < 0:
            raise DeadlineError(
                f"a reading of the index took more than {self._timeout_ms} ms",
                hint="narrow the request, raise deadline_ms, or run 'sqlindex check'",
            )


class CheckedConnection:
    """A connection that looks at a token before each statement, for work of many small ones."""

    def __init__(self, inner: Connection, cancel: CancelToken) -> None:
        self._inner = inner
        self._cancel = cancel

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._inner.in_transaction

    def execute(self, sql: str, parameters: Parameters = (), /) -> Cursor:
        """As the connection, unless cancelled.

        Raises:
            CancelledError: the token was cancelled.
        """
        self._cancel.check()
        return self._inner.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Parameters], /) -> Cursor:
        """As the connection, unless cancelled.

        Raises:
            CancelledError: the token was cancelled.
        """
        self._cancel.check()
        return self._inner.executemany(sql, parameters)

    def set_progress_handler(self, handler: Callable[[], int] | None, n: int, /) -> None:
        """As the connection."""
        self._inner.set_progress_handler(handler, n)

    def close(self) -> None:
        """As the connection."""
        self._inner.close()
