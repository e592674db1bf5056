"""reStructuredText: sections by title, links, literal blocks, tables and the fields at the top."""

from __future__ import annotations

import re
from bisect import bisect_right

from sqlindex.model.documents import Block, Link, ParsedDocument
from sqlindex.parsing.front_matter import date_of, tags_of
from sqlindex.parsing.rst_inline import column_width, displayed_text, paragraph_links
from sqlindex.parsing.sections import (
    MAX_HEADING_CHARS,
    MAX_HEADINGS,
    Heading,
    blocks_in_sections,
    heading_sections,
)
from sqlindex.parsing.source_lines import SourceLines

RST_VERSION = 1
"""1: first, with titles, links, literal blocks, tables and the field list at the top."""

MIN_ADORNMENT = 4
"""A shorter line of punctuation is a title's only if the title is no longer (docutils)."""

_PUNCTUATION = "[!-/:-@\\[-`{-~]"
_ADORNMENT = re.compile(rf"({_PUNCTUATION})\1*+$")
_BULLET = re.compile(r"[-+*\u2022\u2023\u2043](?: +|$)")
_ENUMERATOR = re.compile(r"\(?(?:[0-9]+|#|[a-zA-Z]|[ivxlcdmIVXLCDM]+)[.)](?: +|$)")
_FIELD = re.compile(r":(?![: ])((?:[^:\\]|\\.|:(?![ `]|$))++):(?: +|$)")
_EXPLICIT = re.compile(r"(?:\.\.|__)(?: +|$)")
_DIRECTIVE = re.compile(r"(?:\|[^|]++\| +)?([a-zA-Z][\w.+:-]*?) ?::(?: |$)")
_TARGET = re.compile(r"_(?![ _])(?:`([^`]++)`|((?:[^:\\]|\\.|:(?! |$))++)):(?: +(.*))?$")
_GRID_TOP = re.compile(r"\+-[-+]++$")
_SIMPLE_BORDER = re.compile(r"=[= ]*+$")
_HEADER_ROWS = re.compile(r":header-rows: *([0-9]{1,4})$")

_CODE_DIRECTIVE_NAMES = (
    "code code-block sourcecode highlight math raw parsed-literal productionlist prompt testcode"
    " testoutput doctest testsetup testcleanup graphviz digraph ipython plot mermaid uml"
)
_CODE_DIRECTIVES = frozenset(_CODE_DIRECTIVE_NAMES.split())


class RstParser:
    """Parser of reStructuredText files."""

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "rst"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return RST_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Find titles, links, blocks and metadata by the rules of docutils; execute nothing.

        A title is one line at the margin, underlined or between two equal lines, outside of
        literal blocks, comments, lists and tables. Its level is the place of its adornment among
        those of the text; one that skips a level counts as it stands, where docutils refuses it.

        Source:
            docutils 0.21, parsers/rst/states.py.
        """
        reader = _Reader(text)
        reader.read()
        sections = tuple(heading_sections(text, 0, reader.headings))
        first_heading = next((heading.name for heading in reader.headings if heading.name), None)
        return ParsedDocument(
            sections=sections,
            language=language,
            links=tuple(_links(text, reader)),
            blocks=tuple(blocks_in_sections(reader.blocks, sections)),
            title=reader.fields.get("title") or first_heading,
            date=date_of(reader.fields.get("date")),
            tags=tags_of(reader.fields.get("tags") or reader.fields.get("keywords")),
        )


def _links(text: str, reader: _Reader) -> list[Link]:
    links = list(reader.targets)
    for start, end in reader.lines.paragraphs(reader.has_no_links):
        links += paragraph_links(text, start, end)
    return sorted(links, key=lambda link: link.start_char)


class _Reader:
    """The states of docutils' parser, as far as they tell titles and literal text apart.

    Lines indented below a construct need no state: nothing indented is a title. What literal
    text is indented, comments and code hide is left out of the search for links.
    """

    def __init__(self, text: str) -> None:
        self.lines = SourceLines(text)
        self._texts = [line.rstrip() for line in self.lines.texts]
        self._indents = [_indent(line) for line in self._texts]
        self.has_no_links = bytearray(len(self.lines))
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self.targets: list[Link] = []
        self.fields: dict[str, str] = {}
        self._styles: list[str] = []
        self._borders = [
            number
            for number, line in enumerate(self._texts)
            if "=" in line and _SIMPLE_BORDER.match(line.strip())
        ]

    def read(self) -> None:
        """Read all lines."""
        line = 0
        may_hold_fields = True
        while line < len(self._texts):
            text = self._texts[line].lstrip()
            if not text:
                line += 1
                continue
            if may_hold_fields and not self._indents[line] and _FIELD.match(text):
                line = self._field(line)
                continue
            # Fields stand at the top, behind comments and the title.
            before = len(self.headings)
            is_explicit = text.startswith("..")
            following = self._construct(line, text)
            if not is_explicit and (before or len(self.headings) == before):
                may_hold_fields = False
            line = following

    def _construct(self, line: int, text: str) -> int:
        """Read what begins on a line; return the line to read on from."""
        indent = self._indents[line]
        if _EXPLICIT.match(text):
            return self._explicit(line, text)
        if text.startswith("+-") and _GRID_TOP.match(text):
            return self._grid_table(line)
        if text.startswith("=") and " " in text and _SIMPLE_BORDER.match(text):
            return self._simple_table(line)
        if text.startswith(">>> "):
            return self._doctest(line)
        if indent or _is_list_item(text) or _FIELD.match(text):
            return self._after_text(line, line + 1, _text_column(text) + indent)
        if _ADORNMENT.match(text):
            following = self._overlined_title(line, text)
            if following is not None:
                return following
        return self._underlined_title(line, text) or self._paragraph(line)

    def _text_at(self, line: int) -> str:
        return self._texts[line] if line < len(self._texts) else ""

    def _overlined_title(self, line: int, overline: str) -> int | None:
        """Read what a line of punctuation begins; None if it is ordinary text."""
        title, underline = self._text_at(line + 1), self._text_at(line + 2)
        is_short = len(overline) < MIN_ADORNMENT
        if not title:
            return None if is_short else line + 1
        if not title[0].isspace() and _ADORNMENT.match(title):
            return None if is_short else line + 2
        if underline != overline or (is_short and column_width(title) > len(overline)):
            return None if is_short else line + 3
        self._add_heading(line, line + 1, line + 2, overline[0] * 2)
        return line + 3

    def _underlined_title(self, line: int, title: str) -> int | None:
        underline = self._text_at(line + 1)
        if not underline or not _ADORNMENT.match(underline):
            return None
        if len(underline) < MIN_ADORNMENT and column_width(title) > len(underline):
            return None
        self._add_heading(line, line, line + 1, underline[0])
        return line + 2

    def _add_heading(self, first_line: int, title_line: int, last_line: int, style: str) -> None:
        if len(self.headings) == MAX_HEADINGS:
            return
        if style not in self._styles:
            self._styles.append(style)
        name = displayed_text(self._texts[title_line].strip()[: 4 * MAX_HEADING_CHARS])
        level = self._styles.index(style) + 1
        start, end = self.lines.starts[first_line], self.lines.starts[last_line]
        end += len(self.lines.texts[last_line])
        self.headings.append(
            Heading(start, title_line + 1, level, name[:MAX_HEADING_CHARS].strip(), end)
        )

    def _paragraph(self, line: int) -> int:
        """Skip a paragraph at the margin: its later lines are never titles."""
        end = line + 1
        while end < len(self._texts) and self._texts[end] and not self._indents[end]:
            end += 1
        return self._after_text(end - 1, end, 0)

    def _after_text(self, last_line: int, line: int, column: int) -> int:
        """Read the literal block that `::` at the end of a paragraph's last line announces."""
        if not self._texts[last_line].endswith("::") or self._text_at(line):
            return line
        first = self._next_visible(line)
        if first is None:
            return line
        if self._indents[first] > column:
            return self._literal(first, self._indented_end(first, column))
        # Not indented, but quoted: each line begins with the same punctuation character.
        quote = self._texts[first].lstrip()[:1]
        if self._indents[first] < column or not re.match(_PUNCTUATION, quote):
            return line
        end = first
        while self._text_at(end).lstrip().startswith(quote) and self._indents[end] == column:
            end += 1
        return self._literal(first, end)

    def _explicit(self, line: int, text: str) -> int:
        """Read a directive, target, footnote, substitution or comment."""
        indent = self._indents[line]
        body = text[2:].lstrip()
        directive = _DIRECTIVE.match(body)
        if directive:
            return self._directive(line, directive[1].lower(), indent)
        target = _TARGET.match(body) if body.startswith("_") else None
        if target:
            url = (target[3] or "").strip()
            if url and not url.endswith("_"):
                name = (target[1] or target[2]).replace("\\", "")
                start = self.lines.starts[line] + self._leading(line)
                self.targets.append(Link(url, " ".join(name.split()), start))
            return line + 1
        if text.startswith("__") or (body.startswith("[") and "]" in body):
            return line + 1
        # A comment; one without text on its first line and the next is empty.
        if not body and not self._text_at(line + 1):
            return line + 1
        end = self._indented_end(line + 1, indent)
        self._leave_out(line, end)
        return end

    def _directive(self, line: int, name: str, indent: int) -> int:
        if name not in _CODE_DIRECTIVES and name not in ("list-table", "csv-table"):
            return line + 1
        end = self._indented_end(line + 1, indent)
        if name in _CODE_DIRECTIVES:
            self._leave_out(line, end)
            self._add_block(line, end, line)
        else:
            self._add_block(line, end, self._header_stop(line, end))
        return end

    def _header_stop(self, line: int, end: int) -> int:
        """The line below the header rows of a list or CSV table; `line` for none."""
        at = line + 1
        row_count = 0
        while at < end and self._texts[at].lstrip().startswith(":"):
            option = _HEADER_ROWS.match(self._texts[at].lstrip())
            row_count = int(option[1]) if option else row_count
            at += 1
        if not row_count:
            return line
        is_list = any(self._texts[number].lstrip().startswith("* -") for number in range(at, end))
        while at < end:
            text = self._texts[at].lstrip()
            if text and (not is_list or text.startswith("* ")):
                row_count -= 1
                if row_count < 0:
                    break
            at += 1
        while not self._texts[at - 1]:
            at -= 1
        return at

    def _grid_table(self, line: int) -> int:
        """A grid table; its header ends at the rule of `=`."""
        end = line
        header_stop = line
        while end < len(self._texts) and self._indents[end] == self._indents[line]:
            text = self._texts[end].lstrip()
            if not text.startswith(("+", "|")):
                break
            if text.startswith("+=") and header_stop == line:
                header_stop = end + 1
            end += 1
        self._add_block(line, end, header_stop if header_stop < end else line)
        return end

    def _simple_table(self, line: int) -> int:
        """A simple table: up to the border before a blank line, or the second one behind the top."""
        borders = self._borders
        at = bisect_right(borders, line)
        header_stop = line
        for border in borders[at : at + 2]:
            if self._text_at(border + 1) and header_stop == line and border != borders[-1]:
                header_stop = border + 1
                continue
            self._add_block(line, border + 1, header_stop)
            return border + 1
        return line + 1

    def _doctest(self, line: int) -> int:
        end = line
        while self._text_at(end):
            end += 1
        return self._literal(line, end)

    def _field(self, line: int) -> int:
        """Read a field at the top with its indented lines."""
        field = _FIELD.match(self._texts[line])
        assert field is not None
        end = self._indented_end(line + 1, 0)
        body = " ".join((self._texts[line][field.end() :], *self._texts[line + 1 : end]))
        self.fields.setdefault(field[1].lower(), " ".join(body.split()))
        return end

    def _literal(self, first: int, end: int) -> int:
        self._leave_out(first, end)
        self._add_block(first, end, first)
        return end

    def _indented_end(self, line: int, indent: int) -> int:
        """The line behind those from `line` on that are indented deeper; blank ones at the end
        excluded."""
        end = line
        while line < len(self._texts):
            if self._texts[line]:
                if self._indents[line] <= indent:
                    break
                end = line + 1
            line += 1
        return end

    def _next_visible(self, line: int) -> int | None:
        while line < len(self._texts):
            if self._texts[line]:
                return line
            line += 1
        return None

    def _leading(self, line: int) -> int:
        return len(self._texts[line]) - len(self._texts[line].lstrip())

    def _leave_out(self, first: int, end: int) -> None:
        self.has_no_links[first:end] = b"\1" * (end - first)

    def _add_block(self, first: int, end: int, header_stop: int) -> None:
        """Add the lines from `first` to before `end`; those before `header_stop` are the header."""
        start = self.lines.starts[first]
        header_end = self.lines.end(header_stop - 1) if header_stop > first else start
        self.blocks.append(Block(start, self.lines.end(end - 1), header_end))


def _indent(line: str) -> int:
    """Columns before a line's first visible character; tabs reach to multiples of eight."""
    leading = line[: len(line) - len(line.lstrip())]
    return len(leading.expandtabs(8)) if "\t" in leading else len(leading)


def _is_list_item(text: str) -> bool:
    """Whether a line can be nothing but an item; enumerated ones may be titles as well."""
    return _BULLET.match(text) is not None or text.startswith("| ") or text == "|"


def _text_column(text: str) -> int:
    """Column, within a line without indentation, at which the text of a list item begins."""
    item = _BULLET.match(text) or _ENUMERATOR.match(text)
    return item.end() if item else 0
