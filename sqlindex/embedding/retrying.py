"""Asking a service again: after which answers, how often, and how long to wait."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from sqlindex.embedding.service_http import Broken, Reply
from sqlindex.embedding.stopping import Stop
from sqlindex.errors import EmbedderError, EmbedderReplyError, EmbedderUnavailableError

FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 8.0
_JITTER = 0.25
MAX_WANTED_WAIT_S = 60.0
"""A service that asks to be left alone for longer is taken as unavailable at once."""
_RETRIED = frozenset({408, 409, 429})
_HINT = "try again later; lexical search needs no embedder"


def is_retried(status: int) -> bool:
    """Whether the same request may be answered otherwise a little later."""
    return status in _RETRIED or status >= 500


def wanted_wait(waits: Mapping[str, str]) -> float | None:
    """Seconds that the service asks to wait, in milliseconds, seconds or until a date; or None."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    try:
        seconds = float(waits["retry-after-ms"]) / 1000
        if 0 <= seconds < float("inf"):
            return seconds
    except (KeyError, ValueError):
        pass
    try:
        return float(Retry().parse_retry_after(waits["retry-after"]))
    except (KeyError, ValueError, OverflowError, InvalidHeader):
        return None


def backoff(attempt: int, first_wait_s: float) -> float:
    """Wait before repetition `attempt`, counted from 0, where the service names none.

    Doubles from `first_wait_s` to 8 s, less up to a quarter at random: those who were refused
    together should not come back together.
    """
    return min(first_wait_s * (1 << attempt), _LONGEST_WAIT_S) * (1 - random.random() * _JITTER)


def with_retries(
    exchange: Callable[[], Reply | Broken],
    *,
    title: str,
    retries: int,
    ends_at: float,
    first_wait_s: float,
    stop: Stop,
) -> Reply:
    """The first answer that is not to be asked for again.

    Args:
        title: of the service, for messages.
        ends_at: on the monotonic clock; no wait goes beyond it.

    Raises:
        EmbedderUnavailableError: there was none in time.
        EmbedderReplyError: the answer has a body that is none of a reply.
        EmbedderError: `stop` was set.
    """
    attempt = 0
    while True:
        outcome = exchange()
        if stop.is_set:
            raise EmbedderError(f"the call of {title} was ended", hint="make it again")
        if isinstance(outcome, Broken) and outcome.is_final:
            raise EmbedderReplyError(f"{title} gave {outcome.why}")
        if isinstance(outcome, Reply) and not is_retried(outcome.status):
            return outcome
        wanted = wanted_wait(outcome.waits) if isinstance(outcome, Reply) else None
        wait = backoff(attempt, first_wait_s) if wanted is None else wanted
        why = outcome.why if isinstance(outcome, Broken) else f"HTTP status {outcome.status}"
        attempt += 1
        if attempt > retries or wait > MAX_WANTED_WAIT_S or time.monotonic() + wait >= ends_at:
            if wanted is not None:
                why += f", to be asked again in {wanted:g} s"
            tries = "once" if attempt == 1 else f"{attempt} times"
            raise EmbedderUnavailableError(f"{title}, asked {tries}: {why}", hint=_HINT)
        if stop.wait(wait):
            raise EmbedderError(f"the call of {title} was ended", hint="make it again")
