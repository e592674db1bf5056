"""What a part of a text reads as; apart from `documents`, because a search needs nothing else of it."""

from __future__ import annotations

from typing import NamedTuple


class Rendered(NamedTuple):
    """What a part of a text reads as where that differs from its characters.

    Markup reads as nothing or a space, an entity or an escape as its character. Matching and
    embedding see the rendered text; stored text and offsets stay those of the file. In order, not
    overlapping; `text` holds no line break that the part does not hold.

    Attributes:
        start_char: offset of the first character.
        end_char: offset after the last one; more than `start_char`.
        text: what a reader sees in its place, often nothing.
    """

    start_char: int
    end_char: int
    text: str
