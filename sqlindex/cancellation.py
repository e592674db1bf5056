"""Cooperative cancellation: a token that long work checks between its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from sqlindex.errors import CancelledError

_T = TypeVar("_T")


class CancelToken:
    """Set once by the caller, checked between documents, batches and blocks by the work.

    Safe to set from another thread or from a signal handler: it is one attribute.
    """

    def __init__(self) -> None:
        self._cancelled = False

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Ask the work to stop at its next check."""
        self._cancelled = True

    def check(self) -> None:
        """Return at once, or stop the work.

        Raises:
            CancelledError: `cancel` was called.
        """
        if self._cancelled:
            raise CancelledError("cancelled", hint="the last published generation is unchanged")

    def checked(self, steps: Iterable[_T]) -> Iterator[_T]:
        """The same steps with a check before each."""
        for step in steps:
            self.check()
            yield step
