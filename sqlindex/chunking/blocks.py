"""Blocks seen from the chunker: where a cut would tear one, and which header explains a line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from sqlindex.model.documents import Block

MAX_CONTEXT_CHARS = 2_000
"""A longer header is no context: it would be repeated for each chunk of its block."""


def fitting_spans(
    blocks: Sequence[Block], start_char: int, end_char: int, target_chars: int
) -> list[tuple[int, int]]:
    """(start, end) of the blocks within a span that fit into a chunk, outermost only, in order."""
    first = bisect_left(blocks, start_char, key=lambda block: block.start_char)
    spans: list[tuple[int, int]] = []
    for at in range(first, len(blocks)):
        block = blocks[at]
        if block.start_char >= end_char:
            break
        is_inside = bool(spans) and block.start_char < spans[-1][1]
        if not is_inside and block.end_char - block.start_char <= target_chars:
            spans.append((block.start_char, block.end_char))
    return spans


def block_ends(
    spans: Sequence[tuple[int, int]], starts: Sequence[int], ends: Sequence[int]
) -> list[int]:
    """For each line, the last line of the fitting block that goes on behind it, or -1.

    Args:
        spans: from `fitting_spans`.
        starts, ends: offsets of the lines.
    """
    found = [-1] * len(starts)
    for start, end in spans:
        last = bisect_right(ends, end) - 1
        for line in range(bisect_left(starts, start), last):
            found[line] = last
    return found


class HeaderFinder:
    """Finds the header above a position; positions are asked in ascending order.

    Args:
        blocks: of the whole document, in order, nested or disjoint.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._coming: Iterator[Block] = iter(
            [b for b in blocks if 0 < b.header_end_char - b.start_char <= MAX_CONTEXT_CHARS]
        )
        self._next = next(self._coming, None)
        self._open: list[Block] = []

    def header(self, start_char: int) -> tuple[int, int] | None:
        """Span of the header of the innermost block that began and told it before `start_char`."""
        while self._next is not None and self._next.start_char < start_char:
            while self._open and self._open[-1].end_char <= self._next.start_char:
                self._open.pop()
            self._open.append(self._next)
            self._next = next(self._coming, None)
        while self._open and self._open[-1].end_char <= start_char:
            self._open.pop()
        for block in reversed(self._open):
            if block.header_end_char < start_char:
                return block.start_char, block.header_end_char
        return None
