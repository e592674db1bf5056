"""HTML: sections by heading, what the page reads as, links, tables and metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlindex.chunking.lines import LineTable
from sqlindex.model.documents import Block, Link, ParsedDocument, Rendered
from sqlindex.parsing.front_matter import date_of, tags_of
from sqlindex.parsing.html_tokens import Token, TokenKind, attribute_text, tokens
from sqlindex.parsing.sections import (
    MAX_HEADING_CHARS,
    Heading,
    blocks_in_sections,
    heading_sections,
)

HTML_VERSION = 1
"""1: first, with headings, rendered text, links, tables and preformatted blocks."""

MAX_NAME_SOURCE_CHARS = 8 * MAX_HEADING_CHARS
"""A heading or a link label is read from no more of the source than this."""

_HEADING_LEVEL = {f"h{level}": level for level in range(1, 7)}
_BLOCK_LEVEL_NAMES = (
    "address article aside blockquote body br caption center col colgroup dd details dialog dir div"
    " dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header"
    " hgroup hr html legend li main menu nav ol optgroup option p pre search section select summary"
    " table tbody td textarea tfoot th thead title tr ul"
)
_BLOCK_LEVEL = frozenset(_BLOCK_LEVEL_NAMES.split())
_DATE_NAMES = frozenset(("date", "dc.date", "dcterms.date", "article:published_time"))
_BLANK = re.compile(r"[ \t\r\f]*+")


class HtmlParser:
    """Parser of HTML files, of XHTML too."""

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "html"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return HTML_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Find sections, what the markup reads as, links, blocks and metadata.

        Every h1 to h6 begins a section with the line it stands on, wherever it is nested, unless
        a heading before it on this line has done so. A script or style sheet on lines of its own
        is a raw section. Broken markup never fails; markup that the text ends in reads as it
        stands.
        """
        page = _Page(text)
        for token in tokens(text):
            page.take(token)
        page.end()
        sections = tuple(heading_sections(text, 0, page.headings, page.raw_spans))
        blocks = sorted(page.blocks, key=lambda block: (block.start_char, -block.end_char))
        first_heading = next((heading.name for heading in page.headings if heading.name), None)
        return ParsedDocument(
            sections=sections,
            language=language,
            links=tuple(page.links),
            blocks=tuple(blocks_in_sections(blocks, sections)),
            rendered=tuple(page.rendered),
            title=page.title or first_heading,
            date=page.date,
            tags=page.tags,
        )


@dataclass(slots=True)
class _Name:
    """A heading, title or link whose text is being read.

    Attributes:
        tag: its start tag.
        first_part: how many rendered parts stood before its text.
        text_end: where its text ends if no end tag comes, or None.
    """

    tag: Token
    first_part: int
    text_end: int | None = None


@dataclass(slots=True)
class _OpenBlock:
    """A `<pre>` or `<table>` without its end tag as yet; `header_end` is 0 for none."""

    tag: Token
    row_count: int = 0
    has_header_cell: bool = False
    header_end: int = 0


class _Page:
    """What has been read of a page: takes its tokens one by one, in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = LineTable(text)
        self.headings: list[Heading] = []
        self.raw_spans: list[tuple[int, int]] = []
        self.links: list[Link] = []
        self.blocks: list[Block] = []
        self.rendered: list[Rendered] = []
        self.title: str | None = None
        self.date: str | None = None
        self.tags: tuple[str, ...] = ()
        # Adjacent tags become one rendered part: its span, whether it separates words,
        # and whether a tag that does holds a line break.
        self._run_start = self._run_end = 0
        self._run_breaks = self._run_separates = False
        self._heading: _Name | None = None
        self._link: _Name | None = None
        self._title: _Name | None = None
        self._open_blocks: list[_OpenBlock] = []
        self._open_counts = {"pre": 0, "table": 0}
        self._script: Token | None = None
        self._script_tag: Token | None = None
        self._line = 0
        self._line_visible = 0

    def take(self, token: Token) -> None:
        """Take the next token."""
        if self._script is not None:
            self._end_script(token.end)
        if token.kind is TokenKind.REFERENCE:
            self._reference(token)
        elif token.kind is TokenKind.RAW:
            self._script = token
        elif token.kind is TokenKind.START:
            self._start_tag(token)
        elif token.kind is TokenKind.END:
            self._end_tag(token)
        else:
            self._hide(token.start, token.end)

    def end(self) -> None:
        """Close what the text leaves open."""
        end = len(self._text)
        if self._script is not None:
            self._end_script(end)
        self._end_run()
        self._end_heading(end, is_closed=False)
        self._end_link(end)

    def _hide(self, start: int, end: int, *, separates: bool = False) -> None:
        """Let a span of markup read as nothing, or if it separates words as a break or a space."""
        if start != self._run_end:
            self._end_run()
            self._run_start = start
        self._run_end = end
        if separates:
            self._run_separates = True
            self._run_breaks = self._run_breaks or self._text.find("\n", start, end) >= 0

    def _end_run(self) -> None:
        if self._run_end > self._run_start:
            reads_as = "\n" if self._run_breaks else " " if self._run_separates else ""
            self.rendered.append(Rendered(self._run_start, self._run_end, reads_as))
        self._run_start = self._run_end
        self._run_breaks = self._run_separates = False

    def _reference(self, token: Token) -> None:
        # A line break of a reference is no line break of the file.
        value = token.value.replace("\n", " ").replace("\r", " ")
        if value != self._text[token.start : token.end]:
            self._read_as(token, value)

    def _read_as(self, token: Token, value: str) -> None:
        self._end_run()
        self.rendered.append(Rendered(token.start, token.end, value))
        self._run_start = self._run_end = token.end

    def _start_tag(self, token: Token) -> None:
        name = token.name
        level = _HEADING_LEVEL.get(name)
        if level:
            self._end_run()
            self._end_heading(token.start, is_closed=False)
        if name == "a":
            self._end_run()
            self._end_link(token.start)
        is_block_level = name in _BLOCK_LEVEL
        alternative = " ".join(token.attributes.get("alt", "").split()) if name == "img" else ""
        if alternative:
            self._read_as(token, f" {alternative} ")
        else:
            self._hide(token.start, token.end, separates=is_block_level)
        if level:
            self._heading = self._name(token)
        elif is_block_level and self._heading is not None and self._heading.text_end is None:
            self._heading.text_end = token.start
        if name == "a" and token.attributes.get("href", "").strip():
            self._link = self._name(token)
        elif name == "title" and self.title is None and not token.is_foreign:
            self._title = self._name(token)
        elif name == "meta":
            self._meta(token)
        elif name in ("pre", "table"):
            self._open_blocks.append(_OpenBlock(token))
            self._open_counts[name] += 1
        elif name in ("tr", "th") and self._open_blocks:
            self._row_or_header_cell(token, self._open_blocks[-1])
        elif name in ("script", "style"):
            self._script_tag = token

    def _end_tag(self, token: Token) -> None:
        name = token.name
        self._hide(token.start, token.end, separates=name in _BLOCK_LEVEL)
        if name in _HEADING_LEVEL:
            self._end_run()
            self._end_heading(token.start, is_closed=True)
        elif name == "a":
            self._end_run()
            self._end_link(token.start)
        elif name == "title" and self._title is not None:
            self._end_run()
            self.title = self._reading(self._title, token.start) or None
            self._title = None
        elif name in ("pre", "table"):
            self._end_block(token)
        elif name in ("tr", "thead") and self._open_blocks:
            table = self._open_blocks[-1]
            is_header_row = table.row_count == 1 and table.has_header_cell
            if (name == "thead" and table.row_count) or (is_header_row and not table.header_end):
                table.header_end = token.end

    def _name(self, tag: Token) -> _Name:
        self._end_run()
        return _Name(tag, len(self.rendered))

    def _reading(self, name: _Name, end: int) -> str:
        """What the source from the end of a name's tag reads as, on one line."""
        position = name.tag.end
        end = min(end, position + MAX_NAME_SOURCE_CHARS)
        pieces: list[str] = []
        for at in range(name.first_part, len(self.rendered)):
            part = self.rendered[at]
            if part.start_char >= end:
                break
            pieces += (self._text[position : part.start_char], part.text)
            position = part.end_char
        pieces.append(self._text[position:end])
        return " ".join("".join(pieces).split())[:MAX_HEADING_CHARS].strip()

    def _end_heading(self, end: int, *, is_closed: bool) -> None:
        """Begin a section with the open heading, unless its line began one already.

        The text of a heading that is never closed ends at the next block-level tag.
        """
        heading, self._heading = self._heading, None
        if heading is None:
            return
        line = self._lines.line_of(heading.tag.start)
        if self.headings and self.headings[-1].line == line:
            return
        text_end = end if is_closed or heading.text_end is None else heading.text_end
        name = self._reading(heading, text_end).rstrip("¶ ")  # the sign of a link to itself
        level = _HEADING_LEVEL[heading.tag.name]
        behind = self._text.find(">", text_end) + 1 if is_closed else text_end
        self.headings.append(Heading(self._lines.char_of(line), line, level, name, behind))

    def _end_link(self, end: int) -> None:
        link, self._link = self._link, None
        if link is not None:
            target = attribute_text(link.tag.attributes["href"]).strip()
            label = self._reading(link, end)
            self.links.append(Link(target, label, link.tag.start))

    def _meta(self, token: Token) -> None:
        attributes = token.attributes
        name = (attributes.get("name") or attributes.get("property") or "").strip().lower()
        content = attribute_text(attributes.get("content", ""))
        if name == "keywords":
            self.tags = tuple(dict.fromkeys((*self.tags, *tags_of(content.split(",")))))
        elif name in _DATE_NAMES and self.date is None:
            self.date = date_of(content)

    def _row_or_header_cell(self, token: Token, table: _OpenBlock) -> None:
        if token.name == "th":
            table.has_header_cell |= table.row_count == 1
            return
        if table.row_count == 1 and table.has_header_cell and not table.header_end:
            table.header_end = token.start  # its first row had no end tag
        table.row_count += 1

    def _end_block(self, token: Token) -> None:
        """Close the innermost block of the tag's name, and forget those left open within it."""
        if not self._open_counts[token.name]:
            return
        while True:
            opened = self._open_blocks.pop()
            self._open_counts[opened.tag.name] -= 1
            if opened.tag.name == token.name:
                break
        if not (self._begins_line(opened.tag.start) and self._ends_line(token.end)):
            return
        lines = self._lines
        start = lines.char_of(lines.line_of(opened.tag.start))
        end = lines.end_of(lines.line_of(token.end - 1))
        header_end = start
        if opened.header_end:
            header_end = lines.end_of(lines.line_of(opened.header_end - 1))
        self.blocks.append(Block(start, end, header_end))

    def _end_script(self, end: int) -> None:
        """Make a script on lines of its own a raw section, or let it read as nothing.

        `end` is where its end tag ends.
        """
        script, tag, self._script = self._script, self._script_tag, None
        assert script is not None
        if (
            script.name in ("script", "style")
            and tag is not None
            and self._begins_line(tag.start)
            and self._ends_line(end)
            and not self._text[script.start : script.end].isspace()
        ):
            start = self._lines.char_of(self._lines.line_of(tag.start))
            line_end = self._text.find("\n", end)
            self.raw_spans.append((start, len(self._text) if line_end < 0 else line_end + 1))
        else:
            self._hide(script.start, script.end)

    def _begins_line(self, start: int) -> bool:
        """Whether nothing but blanks stands before `start` on its line."""
        line = self._lines.line_of(start)
        if line != self._line:
            self._line = line
            blank = _BLANK.match(self._text, self._lines.char_of(line))
            self._line_visible = blank.end() if blank else 0
        return start <= self._line_visible

    def _ends_line(self, end: int) -> bool:
        """Whether nothing but blanks stands from `end` to the end of its line."""
        blank = _BLANK.match(self._text, end)
        return blank is not None and self._text[blank.end() : blank.end() + 1] in ("", "\n")
