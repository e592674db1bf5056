"""Org: sections by headline, links, blocks, tables and the keywords of the file."""

from __future__ import annotations

import re
from bisect import bisect_right

from sqlindex.model.documents import Block, Link, ParsedDocument
from sqlindex.parsing.front_matter import date_of, tags_of
from sqlindex.parsing.sections import (
    MAX_HEADING_CHARS,
    MAX_HEADINGS,
    Heading,
    blocks_in_sections,
    heading_sections,
)
from sqlindex.parsing.source_lines import SourceLines

ORG_VERSION = 1
"""1: first, with headlines, links, blocks, tables and file keywords."""

DEFAULT_STATES = frozenset(("TODO", "DONE"))
"""States of a headline where the file names none of its own."""

_STATE_KEYWORDS = frozenset(("todo", "seq_todo", "typ_todo"))
_VERBATIM = frozenset(("src", "example", "export", "comment"))
_HEADLINE = re.compile(r"(\*++)[ \t]")
_STATE_NAME = re.compile(r"[^\s(|]++")
_PRIORITY = re.compile(r"\[#[A-Za-z0-9]{1,2}\][ \t]*")
_TAGS = re.compile(r":(?:[\w@#%]++:)++")
_KEYWORD = re.compile(r"[ \t]*+#\+([A-Za-z_]++):[ \t]*+")
_BLOCK_EDGE = re.compile(r"[ \t]*+#\+(begin|end)_([^\s]++)", re.IGNORECASE)
_DATE = re.compile(r"[<\[]?(\d{4}-\d{2}-\d{2})(?:[ \t]++[^\W\d]++\.?+)?(?:[ \t]++(\d{1,2}:\d{2}))?")
_LINK = re.compile(
    r"\[\[([^\[\]\n]++)\](?:\[([^\[\]]++)\])?\]|<([A-Za-z][A-Za-z0-9+.-]*+:[^<>\n]++)>"
)


class OrgParser:
    """Parser of Org files."""

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "org"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return ORG_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Find headlines, links, blocks and the title, date and tags of the file.

        A headline inside a block that is closed is text. Links count everywhere but in
        source and example blocks, fixed-width lines, comments and property drawers.
        """
        outline = _Outline(text)
        outline.read()
        sections = tuple(heading_sections(text, 0, outline.headings))
        first_heading = next((heading.name for heading in outline.headings if heading.name), None)
        return ParsedDocument(
            sections=sections,
            language=language,
            links=tuple(_links(text, outline)),
            blocks=tuple(blocks_in_sections(outline.blocks, sections)),
            title=" ".join(" ".join(outline.titles).split()) or first_heading,
            date=outline.date,
            tags=tags_of(outline.tags),
        )


class _Outline:
    """What the lines of a file say, read in one pass."""

    def __init__(self, text: str) -> None:
        self.lines = SourceLines(text)
        self.has_no_links = bytearray(len(self.lines))
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self.titles: list[str] = []
        self.date: str | None = None
        self.tags: list[str] = []
        self._states: set[str] = set()
        self._end_lines: dict[str, list[int]] = {}
        """Lines that end blocks, by name of the block."""
        self._drawer_ends: list[int] = []
        self._headlines: list[int] = []

    def read(self) -> None:
        """Read all lines."""
        texts = self.lines.texts
        for line, text in enumerate(texts):
            edge = _BLOCK_EDGE.match(text)
            if edge and edge[1].lower() == "end":
                self._end_lines.setdefault(edge[2].lower(), []).append(line)
            elif text.strip().lower() == ":end:":
                self._drawer_ends.append(line)
            elif _HEADLINE.match(text):
                self._headlines.append(line)
            keyword = _KEYWORD.match(text)
            if keyword and keyword[1].lower() in _STATE_KEYWORDS:
                self._states.update(_STATE_NAME.findall(text[keyword.end() :]))
        line = 0
        while line < len(texts):
            line = self._construct(line)

    def _construct(self, line: int) -> int:
        """Read what begins on a line; return the line to read on from."""
        text = self.lines.texts[line]
        headline = _HEADLINE.match(text)
        if headline and len(self.headings) < MAX_HEADINGS:
            name = self._displayed(text[headline.end() :][: 4 * MAX_HEADING_CHARS])
            start = self.lines.starts[line]
            end = start + len(text)
            self.headings.append(Heading(start, line + 1, len(headline[1]), name, end))
            return line + 1
        first = text.lstrip(" \t")[:2]
        if first[:1] == "|":
            return self._table(line)
        if first == "#+":
            return self._keyword_or_block(line)
        if first in (":", ": "):
            return self._fixed_width(line)
        if first[:1] == ":" and text.strip().lower() == ":properties:":
            return self._properties(line)
        if first in ("#", "# "):
            self.has_no_links[line] = 1
        return line + 1

    def _displayed(self, title: str) -> str:
        """Text of a headline without state, priority, comment mark, tags and link targets."""
        title = title.strip()
        state = title.split(None, 1)
        if state and state[0] in (self._states or DEFAULT_STATES):
            title = title[len(state[0]) :].lstrip()
        priority = _PRIORITY.match(title)
        if priority:
            title = title[priority.end() :]
        if title.startswith("COMMENT "):
            title = title[len("COMMENT ") :].lstrip()
        words = title.rsplit(None, 1)
        if words and _TAGS.fullmatch(words[-1]):
            title = title[: -len(words[-1])]
        title = _LINK.sub(lambda link: link[2] or link[1] or link[3], title)
        return " ".join(title.split())[:MAX_HEADING_CHARS].strip()

    def _keyword_or_block(self, line: int) -> int:
        text = self.lines.texts[line]
        edge = _BLOCK_EDGE.match(text)
        if edge:
            name = edge[2].lower()
            end = _next(self._end_lines.get(name, []), line)
            if edge[1].lower() == "end" or end is None:
                return line + 1
            self._add_block(line, end, line)
            if name in _VERBATIM:
                self._leave_out(line, end)
            return end + 1
        keyword = _KEYWORD.match(text)
        if keyword:
            name, value = keyword[1].lower(), text[keyword.end() :].strip()
            if name == "title":
                self.titles.append(value)
            elif name == "date" and self.date is None:
                date = _DATE.match(value)
                self.date = (
                    date_of(" ".join(part for part in date.groups() if part)) if date else None
                )
            elif name == "filetags":
                self.tags += value.replace(":", " ").split()
        return line + 1

    def _properties(self, line: int) -> int:
        """Skip a property drawer; one that does not end before the next headline is text."""
        end = _next(self._drawer_ends, line)
        headline = _next(self._headlines, line)
        if end is None or (headline is not None and headline < end):
            return line + 1
        self._leave_out(line, end)
        return end + 1

    def _fixed_width(self, line: int) -> int:
        end = line
        while end + 1 < len(self.lines) and _is_fixed_width(self.lines.texts[end + 1]):
            end += 1
        self._add_block(line, end, line)
        self._leave_out(line, end)
        return end + 1

    def _table(self, line: int) -> int:
        """A table; its header are the rows above the first rule that has rows above it."""
        end = line
        rule = None
        has_rows = False
        while end < len(self.lines):
            row = self.lines.texts[end].lstrip(" \t")
            if not row.startswith("|"):
                break
            is_rule = row.startswith("|-")
            has_rows |= not is_rule
            if is_rule and has_rows and rule is None:
                rule = end
            end += 1
        is_header = rule is not None and rule < end - 1
        self._add_block(line, end - 1, rule + 1 if is_header and rule is not None else line)
        return end

    def _add_block(self, first: int, last: int, header_stop: int) -> None:
        """Add the lines `first` to `last`; those before `header_stop` are the header."""
        start = self.lines.starts[first]
        header_end = self.lines.end(header_stop - 1) if header_stop > first else start
        self.blocks.append(Block(start, self.lines.end(last), header_end))

    def _leave_out(self, first: int, last: int) -> None:
        self.has_no_links[first : last + 1] = b"\1" * (last + 1 - first)


def _next(lines: list[int], line: int) -> int | None:
    """The first of ascending `lines` behind `line`."""
    at = bisect_right(lines, line)
    return lines[at] if at < len(lines) else None


def _is_fixed_width(text: str) -> bool:
    return text.lstrip(" \t")[:2] in (":", ": ")


def _links(text: str, outline: _Outline) -> list[Link]:
    links = []
    for start, end in outline.lines.paragraphs(outline.has_no_links):
        for found in _LINK.finditer(text, start, end):
            target = found[1] or found[3]
            label = " ".join((found[2] or target).split())
            links.append(Link(target.strip(), label, found.start()))
    return links
