"""Lines that are over an embedder's limit by themselves, cut into windows that are not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from sqlindex.chunking.token_limit import Excess
from sqlindex.model.chunks import Cut

_LEAST_CHARS = 16
"""A window is not made smaller: what is still over the limit then is heading and context."""


def line_windows(
    text: str, pieces: Iterable[tuple[int, int, Cut]], excess: Excess
) -> Iterator[tuple[int, int, Cut]]:
    """The same pieces, with each that is one line over the limit cut into windows.

    Windows of a line are about equally long, so that no short rest is left at its end; they begin and
    end at spaces where there are any nearby. A line of which heading and context alone are over the
    limit stays whole.

    Args:
        text: the document.
        pieces: (start, end, why it ends there), in order.
    """
    is_continuation = False
    for start, end, cut in pieces:
        windows = [(start, end)]
        if "\n" not in text[start:end]:
            windows = _windows(text, start, end, excess, is_continuation)
        for window in windows[:-1]:
            yield *window, Cut.TOKENS
        yield *windows[-1], cut
        is_continuation = True


def _windows(
    text: str, start: int, end: int, excess: Excess, is_continuation: bool
) -> list[tuple[int, int]]:
    count = math.ceil(excess(start, end, is_continuation))
    while 1 < count <= (end - start) // _LEAST_CHARS:
        windows = _equal(text, start, end, count)
        if all(
            excess(*window, is_continuation or at > 0) <= 1.0 for at, window in enumerate(windows)
        ):
            return windows
        count += max(1, count // 4)
    return [(start, end)]


def _equal(text: str, start: int, end: int, count: int) -> list[tuple[int, int]]:
    """About `count` windows of the same length, without the white space between them."""
    windows: list[tuple[int, int]] = []
    first = start
    for number in range(1, count + 1):
        last = end if number == count else _space_near(text, start, end, number, count)
        part = text[first:last]
        body = part.strip() if windows else part.rstrip()
        if body:
            at = first + part.index(body)
            windows.append((at, at + len(body) if number < count else last))
            first = last
    return windows


def _space_near(text: str, start: int, end: int, number: int, count: int) -> int:
    """Where window `number` ends: behind a space in the second half of it, or where it is full."""
    size = (end - start) / count
    full = start + round(number * size)
    space = max(
        text.rfind(" ", full - int(size / 4), full), text.rfind("\t", full - int(size / 4), full)
    )
    return full if space < 0 else space + 1
