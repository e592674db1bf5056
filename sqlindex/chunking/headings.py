"""Sections that hold nothing but their heading, and what such a heading may join."""

from __future__ import annotations

import re

from sqlindex.model.documents import Section, SectionKind

_MARKERS = r"(?:\s|>|[-*+]\s|\d{1,9}[.)]\s)*"
_ATX = re.compile(_MARKERS + r"#{1,6}(?:\s|$)")
_UNDERLINE = re.compile(r"[\s>]*(?:=+|-+)\s*$")


def is_heading_only(text: str, start_char: int, end_char: int, section: Section) -> bool:
    """Whether the trimmed span of a section holds its heading and no text below it.

    A heading is one line, or the lines down to its underline of `=` or `-`.
    """
    if not section.heading_line:
        return False
    first_end = text.find("\n", start_char, end_char)
    if first_end < 0:
        return True
    if _ATX.match(text, start_char, first_end):
        return False
    # Only the last line can be the underline, and no line before it may look like one.
    last_start = text.rfind("\n", start_char, end_char) + 1
    if not _UNDERLINE.match(text, last_start, end_char):
        return False
    lines = text[start_char : last_start - 1].split("\n")
    return not any(not line.strip() or _UNDERLINE.match(line) for line in lines)


def is_direct_descendant(section: Section, parent: Section) -> bool:
    """Whether `section`, the next one after `parent`, lies under the heading of `parent`."""
    depth = len(parent.heading_path)
    return (
        section.kind is SectionKind.BODY
        and len(section.heading_path) > depth
        and section.heading_path[:depth] == parent.heading_path
    )
