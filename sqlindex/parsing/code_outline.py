"""The outline of a source file: its definitions, nested, and its code without strings and comments."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Definition:
    """A function, class or another named part of code.

    Attributes:
        names: its own name, behind those that it states of its owner (`Valve::close`).
        start_char: offset of the first character of its code: decorator, modifier or keyword.
        name_char: offset of a character on the line with its name.
        end_char: offset after its last character.
        members: definitions inside it, in order.
    """

    names: tuple[str, ...]
    start_char: int
    name_char: int
    end_char: int
    members: list[Definition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MaskedCode:
    """Code in which strings and comments are blank, so that what is left is syntax.

    Attributes:
        text: as long as the original. A comment is all spaces; of a string the first character
            stays and the last one is a quote, so that it is seen where it begins and ends.
        comment_starts: offsets of the comments, in order.
        comment_ends: offsets after them.
    """

    text: str
    comment_starts: array[int]
    comment_ends: array[int]

    def comment_ending_in(self, start_char: int, end_char: int) -> int | None:
        """Start of the last comment that ends after `start_char` and not after `end_char`."""
        last = bisect_right(self.comment_ends, end_char) - 1
        if last < 0 or self.comment_ends[last] <= start_char:
            return None
        return self.comment_starts[last]


def mask(text: str, skipped: re.Pattern[str]) -> MaskedCode:
    """Blank what `skipped` matches: comments, strings and the like.

    Its group `comment` tells comments from strings. Of a match with the group `mark` only the
    first character stays.

    Every alternative must match once it began, up to the end of the line or of the text if it is
    not closed: one that gives up after reading on makes the whole quadratic.
    """
    pieces: list[str] = []
    starts, ends = array("q"), array("q")
    position = 0
    for match in skipped.finditer(text):
        start, end = match.span()
        if match.lastgroup == "comment":
            starts.append(start)
            ends.append(end)
            pieces += text[position:start], " " * (end - start)
        elif match.lastgroup == "mark" or end - start < 2:
            pieces += text[position : start + 1], " " * (end - start - 1)
        else:
            pieces += text[position : start + 1], " " * (end - start - 2), '"'
        position = end
    pieces.append(text[position:])
    return MaskedCode("".join(pieces), starts, ends)
