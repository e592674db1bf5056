"""What a parser found, in a form that tests can be read by."""

from __future__ import annotations

from sqlindex.model.documents import ParsedDocument


def headings(parsed: ParsedDocument) -> list[tuple[int, int, str]]:
    """(level, line, path) of the sections that have a heading of their own."""
    return [
        (s.level, s.heading_line, " › ".join(s.heading_path))
        for s in parsed.sections
        if s.heading_line
    ]


def blocks(text: str, parsed: ParsedDocument) -> list[tuple[str, str]]:
    """(block, header) of each block, as they stand in the text."""
    return [
        (text[b.start_char : b.end_char], text[b.start_char : b.header_end_char])
        for b in parsed.blocks
    ]
