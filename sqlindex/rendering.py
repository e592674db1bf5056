"""What a text reads as: parts that read as something else put in their place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

from sqlindex.model.rendered import Rendered


def rendered_text(text: str, parts: Iterable[Rendered]) -> str:
    """`text` as it reads.

    Args:
        text: any part of a document.
        parts: with offsets into `text`, in order and not overlapping.
    """
    pieces = []
    end = 0
    for part in parts:
        pieces.append(text[end : part.start_char])
        pieces.append(part.text)
        end = part.end_char
    return "".join((*pieces, text[end:])) if end else text


def rendered_within(
    parts: Sequence[Rendered], start_char: int, end_char: int
) -> tuple[Rendered, ...]:
    """The parts of a span of the document, with offsets from its start.

    A part that reaches over the span's start or end is cut there; what it reads as stays with its
    start.
    """
    if not parts:
        return ()
    first = bisect_right(parts, start_char, key=attrgetter("end_char"))
    found = []
    for at in range(first, len(parts)):
        part = parts[at]
        if part.start_char >= end_char:
            break
        is_cut = part.start_char < start_char
        found.append(
            Rendered(
                max(part.start_char, start_char) - start_char,
                min(part.end_char, end_char) - start_char,
                "" if is_cut else part.text,
            )
        )
    return tuple(found)
