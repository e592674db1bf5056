"""INI and CFG files: sections by bracketed header and key."""

from __future__ import annotations

import re

from sqlindex.chunking.lines import without_crs
from sqlindex.model.documents import Block, ParsedDocument
from sqlindex.parsing.key_tree import Entry, heading_name, key_sections, root_entry

INI_VERSION = 1
"""1: sections by header and key, values over several lines as blocks."""

_HEADER = re.compile(r"\[\s*+([^\]\s][^\]\n]*+)\]")
_KEY = re.compile(r"([^\s=:\[;#][^=:\n]*+)[=:]")


class IniParser:
    """Parser of INI and CFG files.

    A line indented deeper than the key above it continues the value of that key, as Python's
    configparser has it; lines with `#` or `;` first are comments. Nothing is checked.
    """

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "ini"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return INI_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Find sections, and values over several lines."""
        root, blocks = _read(text)
        return ParsedDocument(
            sections=key_sections(text, root), language=language, blocks=tuple(blocks)
        )


def _read(text: str) -> tuple[Entry, list[Block]]:
    root = group = root_entry()
    blocks: list[Block] = []
    comment_start: int | None = None
    key_start, key_indent, value_end = 0, -1, 0  # no key yet: nothing can continue it

    def end_value() -> None:
        if value_end > key_start:
            blocks.append(Block(key_start, value_end, key_start))

    line, line_start = 0, 0
    while line_start < len(text):
        line += 1
        after = text.find("\n", line_start) + 1 or len(text) + 1
        end = without_crs(text, line_start, min(after - 1, len(text)))
        content = text[line_start:end].lstrip(" \t")
        indent = end - line_start - len(content)
        if content[:1] in ("#", ";"):
            comment_start = line_start if comment_start is None else comment_start
        elif 0 <= key_indent < indent and content.strip():
            value_end, comment_start = end, None
        elif content.strip():
            end_value()
            start_char = line_start if comment_start is None else comment_start
            comment_start = None
            key_start, key_indent, value_end = line_start, -1, 0
            if header := _HEADER.match(content):
                group = root.add((heading_name(header[1]),), start_char, line_start, line)
            elif key := _KEY.match(content):
                key_indent = indent
                group.add((heading_name(key[1]),), start_char, line_start, line)
        line_start = after
    end_value()
    return root, blocks
