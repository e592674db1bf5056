"""Ctrl-C and SIGTERM become a cancelled token; a second signal ends the process at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sqlindex.cancellation import CancelToken

_received: list[int] = []


@contextmanager
def cancelled_by_signals() -> Iterator[CancelToken]:
    """A token that SIGINT and SIGTERM cancel while the block runs.

    The work stops at its next check and leaves the last published generation. A second signal does
    not wait for that: the file is safe at every moment, so the process may end at any.
    """
    token = CancelToken()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if _received:
            os._exit(128 + number)
        _received.append(number)
        token.cancel()

    previous = {n: signal.signal(n, on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield token
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def exit_code_of_signal() -> int:
    """128 + the signal that cancelled the work; 130 when none did."""
    return 128 + _received[0] if _received else 130
