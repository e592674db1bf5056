"""Markdown: sections by heading, blocks, links, and metadata from front matter."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from sqlindex.chunking.lines import LineTable
from sqlindex.model.documents import Block, Link, ParsedDocument, Section, SectionKind
from sqlindex.parsing.front_matter import FrontMatter, find_front_matter
from sqlindex.parsing.sections import MAX_HEADING_CHARS, Heading, heading_sections

if TYPE_CHECKING:
    from sqlindex.parsing.markdown_blocks import InlineBlock, LineBlock
    from sqlindex.parsing.markdown_links import InlineLink

MARKDOWN_VERSION = 2
"""1: CommonMark headings and links, wiki links, YAML front matter. 2: blocks; links in HTML and,
cell by cell, in tables; footnotes are no links; aliases; images in HTML name their heading."""


class MarkdownParser:
    """Parser of Markdown files."""

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "markdown"

    @property
    def version(self) -> str:
        """Behaviour version, and that of markdown-it, which finds the blocks."""
        return f"{MARKDOWN_VERSION}+markdown-it-{_library_version()}"

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Find sections, blocks, links and front matter.

        Headings count wherever CommonMark sees one, in quotes and list items too. A block is
        a table, a code block, a quote or callout, HTML, a list item of several blocks, a
        footnote or a run of reference definitions, of two lines or more; it ends where a heading
        in it begins. A malformed
        front matter gives no metadata and stays body text, without headings or links. If
        markdown-it fails on a text, that text is one section.
        """
        front_matter = find_front_matter(text)
        body_start = front_matter.end_char if front_matter else 0
        table = LineTable(text)
        try:
            headings, links, blocks = _structure(text, table, body_start)
        except (RuntimeError, LookupError, TypeError, ValueError):
            # A bug of the foreign parser, or a nest too deep for the stack, loses no document.
            headings, links, blocks = [], [], []
        sections = [
            *_opening_sections(text, front_matter),
            *heading_sections(text, body_start, headings),
        ]
        title = front_matter.title if front_matter else None
        return ParsedDocument(
            sections=tuple(sections),
            language=language,
            links=tuple(links),
            blocks=tuple(blocks),
            title=title or next((heading.name for heading in headings if heading.name), None),
            date=front_matter.date if front_matter else None,
            tags=front_matter.tags if front_matter else (),
            aliases=front_matter.aliases if front_matter else (),
            front_matter=front_matter.raw if front_matter and front_matter.is_well_formed else "",
        )


@cache
def _library_version() -> str:
    return metadata.version("markdown-it-py")


def _structure(
    text: str, table: LineTable, body_start: int
) -> tuple[list[Heading], list[Link], list[Block]]:
    from sqlindex.parsing.html_links import html_links
    from sqlindex.parsing.markdown_blocks import block_structure
    from sqlindex.parsing.markdown_links import displayed_text, inline_links

    if body_start == len(text):
        return [], [], []
    first_line = table.line_of(body_start)
    found = block_structure(_lines_at_lf_only(text[body_start:]))
    headings: list[Heading] = []
    links: list[Link] = []
    for inline in found.inlines:
        line = first_line + inline.first_line
        if inline.level:
            name = displayed_text(inline.content[: 4 * MAX_HEADING_CHARS], found.env)
            name = name[:MAX_HEADING_CHARS].strip()
            end = table.end_of(first_line + inline.end_line - 1)
            headings.append(Heading(table.char_of(line), line, inline.level, name, end))
        inline_found = inline_links(inline.content, found.env)
        if inline_found:
            links.extend(_located(text, table, line, inline, inline_found))
    if found.html:
        for start, end in found.html:
            span = table.char_of(first_line + start), table.end_of(first_line + end - 1)
            links.extend(html_links(text, *span))
        links.sort(key=lambda link: link.start_char)
    return headings, links, _blocks(text, table, first_line, found.blocks, headings)


def _blocks(
    text: str,
    table: LineTable,
    first_line: int,
    found: list[LineBlock],
    headings: list[Heading],
) -> list[Block]:
    """Blocks by offset: without blank lines at their end, cut where a heading in them begins.

    Blocks of the same lines become one, with the longest header of them.
    """
    heading_lines = [heading.line for heading in headings]
    last_by_end: dict[int, int] = {}
    header_by_lines: dict[tuple[int, int], int] = {}
    for block in found:
        first = first_line + block.first_line
        end = first_line + block.end_line
        next_heading = bisect_right(heading_lines, first)
        if next_heading < len(heading_lines):
            end = min(end, heading_lines[next_heading])
        if end not in last_by_end:
            last = end - 1
            while last > first and _is_blank(text, table, last):
                last -= 1
            last_by_end[end] = last
        last = last_by_end[end]
        if last > first:
            lines = (first, -last)
            header_by_lines[lines] = max(block.header_lines, header_by_lines.get(lines, 0))
    blocks = []
    for (first, last), header_lines in sorted(header_by_lines.items()):
        start = table.char_of(first)
        header_end = table.end_of(first + header_lines - 1) if header_lines else start
        blocks.append(Block(start, table.end_of(-last), header_end))
    return blocks


def _is_blank(text: str, table: LineTable, line: int) -> bool:
    return not text[table.char_of(line) : table.end_of(line)].strip()


def _lines_at_lf_only(text: str) -> str:
    """The text with the same lines as ours for markdown-it, and the same columns in each line.

    markdown-it ends a line at a lone CR and turns NUL into U+FFFD; a byte-order mark would hide
    a heading.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", " ")
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return " " + text[1:] if text.startswith("\ufeff") else text


def _located(
    text: str, table: LineTable, first_line: int, block: InlineBlock, found: list[InlineLink]
) -> Iterable[Link]:
    """Turn positions in a block's content into offsets in the document.

    A cell says where in its line it stands. Of any other block,
    line i of the content is the tail of the i-th source line, less markers, indentation and
    trailing spaces, so it is found by searching that source line from its end.
    """
    if block.column is not None:
        start = table.char_of(first_line) + block.column
        for link in found:
            yield Link(link.target, link.label, start + link.position, link.is_wiki)
        return
    line, line_start, line_end = first_line - 1, 0, -1
    shift = 0
    for link in found:
        while link.position > line_end:
            line, line_start = line + 1, line_end + 1
            line_end = block.content.find("\n", line_start)
            line_end = len(block.content) if line_end < 0 else line_end
            if link.position <= line_end:
                shift = _shift(text, table, line, block.content[line_start:line_end])
        yield Link(link.target, link.label, link.position - line_start + shift, link.is_wiki)


def _shift(text: str, table: LineTable, line: int, content_line: str) -> int:
    """Offset in the document of the first character of a content line."""
    start = table.char_of(line)
    source_line = _lines_at_lf_only(text[start : table.end_of(line)])
    # Indentation may have been tabs that markdown-it expanded.
    visible = content_line.lstrip(" \t")
    column = source_line.rfind(visible.rstrip(" \t"))
    return start + max(column, 0) - (len(content_line) - len(visible))


def _opening_sections(text: str, front_matter: FrontMatter | None) -> Iterable[Section]:
    if front_matter is None:
        return ()
    kind = SectionKind.FRONT_MATTER if front_matter.is_well_formed else SectionKind.BODY
    return (Section(0, front_matter.end_char, kind=kind),)
