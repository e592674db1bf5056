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
    end at spaces where there are any nearby, and leave these out. A line of which heading and context
    alone are over the limit stays whole.

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
    if count <= 1:
        return [(start, end)]
    windows: list[tuple[int, int]] = []
    most = math.ceil((end - start) / count)
    first = _next_visible(text, start, end)
    while first < end:
        rest = end - first
        size = math.ceil(rest / math.ceil(rest / most))
        last = _end_near(text, first, size, end)
        while (times := excess(first, last, is_continuation or bool(windows))) > 1.0:
            if size <= _LEAST_CHARS:
                return [(start, end)]
            most = size = max(_LEAST_CHARS, min(int(size / times * 0.95), size - 1))
            last = _end_near(text, first, size, end)
        windows.append((first, last))
        first = _next_visible(text, last, end)
    return windows


def _end_near(text: str, first: int, size: int, end: int) -> int:
    """Where a window of about `size` characters ends: before a space in its last quarter, or full."""
    full = first + size
    if full >= end:
        return end
    for at in range(full, full - size // 4, -1):
        if text[at].isspace():
            full = at
            break
    return first + len(text[first:full].rstrip())


def _next_visible(text: str, start: int, end: int) -> int:
    while start < end and text[start].isspace():
        start += 1
    return start
