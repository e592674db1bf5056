"""TeX: sections by the sectioning commands of LaTeX, links, tables and verbatim text."""

from __future__ import annotations

import re

from sqlindex.chunking.lines import LineTable
from sqlindex.model.documents import Block, Link, ParsedDocument
from sqlindex.parsing.front_matter import date_of
from sqlindex.parsing.sections import (
    MAX_HEADING_CHARS,
    Heading,
    blocks_in_sections,
    heading_sections,
)
from sqlindex.parsing.tex_text import plain_text

TEX_VERSION = 1
"""1: first, with sectioning commands, links, tables and verbatim environments."""

MAX_ARGUMENT_CHARS = 4 * MAX_HEADING_CHARS
"""A longer argument belongs to no heading, title or link."""

_SECTIONING = (
    *("part", "chapter", "section", "subsection"),
    *("subsubsection", "paragraph", "subparagraph"),
)
_LEVEL = {name: level for level, name in enumerate(_SECTIONING, 1)}
_VERBATIM_NAMES = (
    "verbatim verbatim* Verbatim Verbatim* BVerbatim lstlisting minted filecontents filecontents*"
    " alltt comment"
)
_VERBATIM = frozenset(_VERBATIM_NAMES.split())
_TABLES = frozenset(
    ("tabular", "tabular*", "tabularx", "tabulary", "longtable", "longtblr", "tblr")
)

_COMMAND = re.compile(
    r"%[^\n]*+|\\(?:(?P<edge>begin|end)[ \t]*+\{(?P<environment>[^{}\n]{1,40}+)\}"
    r"|verb\*?(?P<delimiter>[^\w\s*])|lstinline(?P<listing>[^\w\s\[{])"
    rf"|(?P<name>{'|'.join(_SECTIONING)}|title|date|href|url)(?P<star>\*?)(?![a-zA-Z@])"
    r"|[a-zA-Z@]++|.)",
    re.DOTALL,
)
_ARGUMENT_EDGE = re.compile(
    rf"\\(?:{'|'.join(_SECTIONING)}|title|date|begin|end|href)(?![a-zA-Z@])"
    r"|\\.|%[^\n]*+|\n[ \t\r]*\n|[{}\[\]]",
    re.DOTALL,
)
_BLANKS = re.compile(r"(?:[ \t\r]|%[^\n]*+(?:\n|$)|\n(?![ \t\r]*\n))*+")
_URL = re.compile(r"\{([^{}\n]*+)\}")
_URL_ESCAPE = re.compile(r"\\([%#&_~])")
_PARAMETER = re.compile(r"#[1-9]")
_HEADER_RULE = re.compile(r"\\(?:endhead|endfirsthead|midrule|hline|toprule)(?![a-zA-Z])")


class TexParser:
    """Parser of LaTeX files; other TeX gives fewer sections."""

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "tex"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return TEX_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Find sections, links, blocks, title and date.

        A sectioning command begins a section with its line, unless one before it on this line
        has done so. Nothing counts in comments and verbatim text. Levels are 1 for `\\part` to 7
        for `\\subparagraph`. Commands are not expanded.
        """
        reader = _Reader(text)
        reader.read()
        sections = tuple(heading_sections(text, 0, reader.headings))
        first_heading = next((heading.name for heading in reader.headings if heading.name), None)
        return ParsedDocument(
            sections=sections,
            language=language,
            links=tuple(reader.links),
            blocks=tuple(blocks_in_sections(reader.blocks, sections)),
            title=reader.title or first_heading,
            date=reader.date,
        )


class _Reader:
    """What the commands of a text say, read in one pass."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = LineTable(text)
        self.headings: list[Heading] = []
        self.links: list[Link] = []
        self.blocks: list[Block] = []
        self.title: str | None = None
        self.date: str | None = None
        self._open_tables: list[tuple[str, int]] = []
        self._never_ended: set[str] = set()

    def read(self) -> None:
        """Read all commands."""
        position = 0
        while (found := _COMMAND.search(self._text, position)) is not None:
            position = found.end()
            if found["environment"]:
                position = self._environment(found, found["environment"].strip())
            elif found["delimiter"] or found["listing"]:
                position = self._inline_verbatim(position, found["delimiter"] or found["listing"])
            elif found["name"]:
                self._command(found)

    def _command(self, found: re.Match[str]) -> None:
        name, start, end = found["name"], found.start(), found.end()
        if name in ("href", "url"):
            self._link(name, start, end)
            return
        argument = self._argument(end)
        if argument is None or _PARAMETER.search(argument):
            return
        words = plain_text(argument)[:MAX_HEADING_CHARS].strip()
        if name == "title":
            self.title = self.title or words or None
        elif name == "date":
            self.date = self.date or date_of(words)
        else:
            line = self._lines.line_of(start)
            if not self.headings or self.headings[-1].line != line:
                line_start = self._lines.char_of(line)
                behind = self._text.find(argument, end) + len(argument) + 1
                self.headings.append(Heading(line_start, line, _LEVEL[name], words, behind))

    def _argument(self, position: int, *, in_link: bool = False) -> str | None:
        """The argument in braces behind `position`, an optional one skipped; None without one."""
        position = self._skip_blanks(position)
        if self._text.startswith("[", position):
            optional_end = self._closing(position, "[", "]", in_link)
            if optional_end is None:
                return None
            position = self._skip_blanks(optional_end)
        if not self._text.startswith("{", position):
            return None
        end = self._closing(position, "{", "}", in_link)
        return None if end is None else self._text[position + 1 : end - 1]

    def _skip_blanks(self, position: int) -> int:
        blanks = _BLANKS.match(self._text, position, position + MAX_ARGUMENT_CHARS)
        return blanks.end() if blanks else position

    def _closing(self, start: int, opener: str, closer: str, in_link: bool) -> int | None:
        """Offset behind what closes the bracket at `start`, braces balanced.

        None if a blank line, another sectioning command or in a link another one comes first: so
        no part of a text is searched more than a few times.
        """
        depth = braces = 0
        limit = start + MAX_ARGUMENT_CHARS
        for edge in _ARGUMENT_EDGE.finditer(self._text, start, limit):
            mark = edge[0]
            if mark[0] == "\n" or (mark[0] == "\\" and len(mark) > 2):
                if mark == "\\href" and not in_link:
                    continue
                return None
            if mark == opener and not (opener == "[" and braces):
                depth += 1
            elif mark == closer and not (opener == "[" and braces):
                depth -= 1
                if depth <= 0:
                    return edge.end()
            elif mark in "{}":
                braces += 1 if mark == "{" else -1
        return None

    def _link(self, name: str, start: int, end: int) -> None:
        target = _URL.match(self._text, end, end + MAX_ARGUMENT_CHARS)
        if target is None or not target[1].strip():
            return
        url = _URL_ESCAPE.sub(r"\1", target[1]).strip()
        label = self._argument(target.end(), in_link=True) if name == "href" else None
        words = plain_text(label)[:MAX_HEADING_CHARS].strip() if label else ""
        self.links.append(Link(url, words or url, start))

    def _inline_verbatim(self, position: int, delimiter: str) -> int:
        end = self._text.find(delimiter, position, self._line_end(position))
        return position if end < 0 else end + 1

    def _line_end(self, position: int) -> int:
        return self._lines.end_of(self._lines.line_of(position))

    def _environment(self, found: re.Match[str], name: str) -> int:
        """Read `\\begin` or `\\end` of an environment; return the offset to read on from."""
        is_begin = found["edge"] == "begin"
        if name in _TABLES:
            if is_begin:
                self._open_tables.append((name, found.start()))
            elif self._open_tables:
                _, start = self._open_tables.pop()
                if not self._open_tables:
                    self._add_block(start, found.end(), has_header=True)
        elif name in _VERBATIM and is_begin and name not in self._never_ended:
            closing = f"\\end{{{name}}}"
            end = self._text.find(closing, found.end())
            if end >= 0:
                if name != "comment":
                    self._add_block(found.start(), end + len(closing), has_header=False)
                return end + len(closing)
            self._never_ended.add(name)
        return found.end()

    def _add_block(self, start: int, end: int, *, has_header: bool) -> None:
        """Add the lines that an environment stands on, unless another block has some of them."""
        lines = self._lines
        first, last = lines.line_of(start), lines.line_of(end - 1)
        block_start, block_end = lines.char_of(first), lines.end_of(last)
        if self.blocks and block_start < self.blocks[-1].end_char:
            return
        header_end = block_start
        if has_header:
            header_end = self._header_end(start, end, block_start)
        self.blocks.append(Block(block_start, block_end, header_end))

    def _header_end(self, start: int, end: int, block_start: int) -> int:
        """End of the line of the first rule below a row, if rows follow; else `block_start`."""
        row_end = self._text.find("\\\\", start, end)
        rule = _HEADER_RULE.search(self._text, row_end, end) if row_end >= 0 else None
        if rule is None or self._text.find("\\\\", rule.end(), end) < 0:
            return block_start
        return self._lines.end_of(self._lines.line_of(rule.start()))
