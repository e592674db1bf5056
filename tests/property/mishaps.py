"""What can happen to an operation of a writer, for lives of an index."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from hypothesis import strategies as st

from sqlindex.cancellation import CancelToken
from sqlindex.errors import SqlindexError
from tests.faults import FaultPlan, faulty_writer, killed_at_statement

T = TypeVar("T")

_OPENING_STATEMENTS = 9
"""They open the file, and change nothing."""


@dataclass(frozen=True, slots=True)
class Mishap:
    """What happens at the n-th statement of a writer, or at the n-th check of its token."""

    kind: Literal["error", "rollback", "kill", "cancel"]
    at: int


def mishaps(statements: int, checks: int) -> st.SearchStrategy[Mishap | None]:
    """Something or nothing, for an operation of about so many statements and checks."""
    at_statement = st.integers(_OPENING_STATEMENTS, statements)
    return st.one_of(
        st.none(),
        st.builds(Mishap, st.sampled_from(["error", "rollback", "kill"]), at_statement),
        st.builds(Mishap, st.just("cancel"), st.integers(1, checks)),
    )


class _TokenAtCheck(CancelToken):
    """Cancelled at its n-th check."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._left = at

    def check(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.cancel()
        super().check()


def _wait_for_the_abandoned() -> None:
    """A cancel does not wait for an embedder that is at work; who looks at what it did must."""
    for thread in threading.enumerate():
        if thread.name == "sqlindex worker":
            thread.join(60)
            assert not thread.is_alive()


def run(work: Callable[[CancelToken], T], mishap: Mishap | None) -> tuple[T | None, bool]:
    """Do the work, which a mishap may strike.

    Returns:
        What it returned, None if it was struck or was done by a process of its own; and whether it
        was struck, so that it may be done in part.
    """
    if mishap is None:
        return work(CancelToken()), False
    if mishap.kind == "kill":
        return None, killed_at_statement(FaultPlan(mishap.at), lambda: work(CancelToken()))
    if mishap.kind == "cancel":
        token = _TokenAtCheck(mishap.at)
        try:
            done = work(token)
        except SqlindexError:
            assert token.is_cancelled
            _wait_for_the_abandoned()
            return None, True
        return (None, True) if token.is_cancelled else (done, False)
    with faulty_writer(FaultPlan(mishap.at, mishap.kind)) as plan:
        try:
            done = work(CancelToken())
        except SqlindexError:
            assert plan.has_fired
            return None, True
    return (None, True) if plan.has_fired else (done, False)
