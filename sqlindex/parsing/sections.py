"""What parsers of any format need: a text as one section, ends of lines."""

from __future__ import annotations

from sqlindex.model.documents import Section


def whole_text(text: str) -> tuple[Section, ...]:
    """One section over all of `text`, or none if every line is blank."""
    return (Section(0, len(text)),) if text and not text.isspace() else ()


def line_end(text: str, floor: int, end_char: int) -> int:
    """`end_char`, the end of a line or of the text, without the CRs before it down to `floor`."""
    while end_char > floor and text[end_char - 1] == "\r":
        end_char -= 1
    return end_char
