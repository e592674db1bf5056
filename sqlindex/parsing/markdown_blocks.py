"""Block structure of Markdown: markdown-it's rules, with shortcuts for plain paragraphs.

Headings, the texts that can hold a link, and the lines that read as one are what matters here.
Most of a text is paragraphs, and for each of their lines markdown-it asks every rule that may end
a paragraph, twice: once looking for a setext underline, once for the paragraph. The rules below
scan once and ask only if the line's first character can begin a block. What is found is the same:
a property test compares it with markdown-it's own rules.

Beyond CommonMark there are tables and footnotes, as GitHub has them. Tables are looked for inside
paragraphs, so a setext underline below a table makes a heading of it, as in CommonMark.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import mdTrim
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from sqlindex.parsing.sections import MAX_HEADINGS

MAX_BLOCK_NESTING = 100
"""markdown-it's own 20 drops all that follows a list nested ten deep."""

MAX_CALLOUT_CHARS = 1_000
"""How far into its line a callout's marker is looked for."""

_MAY_END_PARAGRAPH = frozenset("`~>*-_+#<0123456789")
_MAY_BEGIN_BLOCK = _MAY_END_PARAGRAPH | {"["}
_MAY_BEGIN_DELIMITERS = frozenset("|-:")

_FOOTNOTE = re.compile(r"\[\^[^\s\[\]]+\]:[ \t]*")
_DELIMITERS = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_COLUMN_BREAK = re.compile(r"\\.|\|")
_CELL_BREAK = re.compile(r"\\.|\[\[[^\[\]\n]*\]\]|\|")
_CALLOUT = re.compile(r">[ \t]?\[![A-Za-z][\w-]*\][-+]?(?:[ \t]|$)")

_READ_AS_ONE = frozenset(
    ("fence", "code_block", "html_block", "blockquote_open", "footnote_open", "table")
)
_ITEM_PARAGRAPHS = "item_paragraphs"
_HEADINGS = "headings"

_ATX = re.compile(r"(#{1,6})(?=[ \t]|$)")
_ATX_END = re.compile(r"(?:^|(?<=[ \t]))#+[ \t]*$")


@dataclass(frozen=True, slots=True)
class InlineBlock:
    """A heading, or a paragraph or table cell in which links can stand.

    Attributes:
        first_line: 0-based line of its first character.
        end_line: line behind its last one; an underline counts.
        content: source of its inline text, quote and list markers taken off each line.
        level: 1 to 6 for headings, 0 for paragraphs and cells.
        column: of a cell, how many characters stand before it in its line; else None.
    """

    first_line: int
    end_line: int
    content: str
    level: int
    column: int | None = None


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines that read as one: a table, code, a quote, HTML, a list item of several blocks, a
    footnote, a run of reference definitions.

    Attributes:
        first_line: 0-based.
        end_line: the line after the last one; blank lines may stand before it.
        header_lines: how many of its first lines explain the others: two of a table (its names and
            the row that delimits them), one of a callout, none elsewhere.
    """

    first_line: int
    end_line: int
    header_lines: int = 0


@dataclass(frozen=True, slots=True)
class Structure:
    """What the block structure of a text is.

    Attributes:
        inlines: see `InlineBlock`; in order.
        blocks: see `LineBlock`; of two or more lines, in no order, nested or disjoint.
        html: (first line, line after the last) of each HTML block, in order, 0-based.
        env: markdown-it's environment with the link reference definitions.
    """

    inlines: list[InlineBlock]
    blocks: list[LineBlock]
    html: list[tuple[int, int]]
    env: MutableMapping[str, Any]


class RawLinkMarkdown(MarkdownIt):
    """markdown-it that leaves link targets as written and judges none of them."""

    def normalizeLink(self, url: str) -> str:
        """Return the target without percent-encoding it."""
        return url

    def normalizeLinkText(self, link: str) -> str:
        """Return the text of an autolink as written."""
        return link

    def validateLink(self, url: str) -> bool:
        """Accept every scheme: links are recorded here, not followed."""
        return True


def block_structure(source: str) -> Structure:
    """Find headings, texts that can hold links, and lines that read as one.

    Args:
        source: text whose lines end at LF only, without CRs or NULs.
    """
    markdown = _block_parser()
    env: MutableMapping[str, Any] = {_ITEM_PARAGRAPHS: [], _HEADINGS: 0}
    tokens: list[Token] = []
    markdown.block.parse(source, markdown, env, tokens)
    inlines = []
    html = []
    footnotes = 0
    for token in tokens:
        if token.type == "inline" and token.map is not None:
            column = token.meta.get("column")
            # A note is an aside: a heading in it heads nothing of the text around it.
            level = int(token.tag[1:]) if token.tag and not footnotes else 0
            inlines.append(InlineBlock(token.map[0], token.map[1], token.content, level, column))
        elif token.type == "html_block" and token.map is not None:
            html.append((token.map[0], token.map[1]))
        elif token.type == "footnote_open":
            footnotes += 1
        elif token.type == "footnote_close":
            footnotes -= 1
    blocks = [*_single_blocks(source, tokens), *_items(tokens, env), *_definitions(tokens, env)]
    return Structure(inlines, [b for b in blocks if b.end_line - b.first_line > 1], html, env)


def _single_blocks(source: str, tokens: list[Token]) -> Iterator[LineBlock]:
    """The blocks that are one token each."""
    lines = source.split("\n") if "[!" in source else None
    for token in tokens:
        if token.type in _READ_AS_ONE and token.map is not None:
            first_line, end_line = token.map
            header_lines = 2 if token.type == "table" else 0
            if lines is not None and token.type == "blockquote_open":
                is_callout = _CALLOUT.search(lines[first_line], 0, MAX_CALLOUT_CHARS)
                header_lines = 1 if is_callout else 0
            yield LineBlock(first_line, end_line, header_lines)


def _items(tokens: list[Token], env: MutableMapping[str, Any]) -> Iterator[LineBlock]:
    """List items with several blocks of their own that are no lists."""
    lines_by_level: dict[int, list[int]] = defaultdict(list)
    for level, line in env[_ITEM_PARAGRAPHS]:
        lines_by_level[level].append(line)
    for token in tokens:
        if token.type in _READ_AS_ONE and token.map is not None:
            lines_by_level[token.level].append(token.map[0])
    if not lines_by_level:
        return
    for lines in lines_by_level.values():
        lines.sort()
    for token in tokens:
        if token.type == "list_item_open" and token.map is not None:
            first_line, end_line = token.map
            lines = lines_by_level[token.level + 1]
            if bisect_left(lines, end_line) - bisect_left(lines, first_line) > 1:
                yield LineBlock(first_line, end_line)


def _definitions(tokens: list[Token], env: MutableMapping[str, Any]) -> Iterator[LineBlock]:
    """Link reference definitions that follow one another line by line, as one block."""
    if "references" not in env:
        return
    run: list[int] | None = None
    for token in tokens:
        if token.type != "definition" or token.map is None:
            if run is not None:
                yield LineBlock(run[0], run[1])
                run = None
        elif run is not None and run[1] == token.map[0]:
            run[1] = token.map[1]
        else:
            if run is not None:
                yield LineBlock(run[0], run[1])
            run = list(token.map)
    if run is not None:
        yield LineBlock(run[0], run[1])


@cache
def _block_parser() -> MarkdownIt:
    options = {"maxNesting": MAX_BLOCK_NESTING, "inline_definitions": True}
    markdown = RawLinkMarkdown("commonmark", options)
    ruler = markdown.block.ruler
    ruler.before("code", "plain_text", _plain_text)
    ruler.before(
        "reference", "footnote", _footnote, {"alt": ["paragraph", "reference", "blockquote"]}
    )
    ruler.at("paragraph", _paragraph_or_setext_heading)
    ruler.at("heading", _atx_heading, {"alt": ["paragraph", "reference", "blockquote"]})
    markdown.disable("lheading")
    return markdown


def _plain_text(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Take a block whose first character rules out everything but a paragraph."""
    first = state.src[state.bMarks[start_line] + state.tShift[start_line]]
    if first in _MAY_BEGIN_BLOCK or state.is_code_block(start_line):
        return False
    return _paragraph_or_setext_heading(state, start_line, end_line, silent)


def _atx_heading(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Read a heading that begins with one to six `#`."""
    start = state.bMarks[start_line] + state.tShift[start_line]
    found = _ATX.match(state.src, start, state.eMarks[start_line])
    if found is None or state.is_code_block(start_line):
        return False
    if not silent:
        state.line = start_line + 1
        content = _ATX_END.sub("", state.src[found.end() : state.eMarks[start_line]])
        _push_heading(state, start_line, start_line + 1, mdTrim(content), len(found[1]))
    return True


def _footnote(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Read a footnote's definition: `[^1]:`, then blocks, indented from the second line on.

    CommonMark would take one whose text is a single word for a link reference definition.
    """
    start = state.bMarks[start_line] + state.tShift[start_line]
    found = _FOOTNOTE.match(state.src, start, state.eMarks[start_line])
    if found is None or state.is_code_block(start_line):
        return False
    if silent:
        return True
    token = state.push("footnote_open", "", 1)
    begin, shift = state.bMarks[start_line], state.tShift[start_line]
    indent, parent_type = state.sCount[start_line], state.parentType
    state.blkIndent += 4
    state.bMarks[start_line], state.tShift[start_line] = found.end(), 0
    state.sCount[start_line] = state.blkIndent
    state.parentType = "footnote"
    state.md.block.tokenize(state, start_line, end_line)
    state.blkIndent -= 4
    state.bMarks[start_line], state.tShift[start_line] = begin, shift
    state.sCount[start_line], state.parentType = indent, parent_type
    token.map = [start_line, state.line]
    state.push("footnote_close", "", -1)
    return True


def _paragraph_or_setext_heading(
    state: StateBlock, start_line: int, end_line: int, silent: bool
) -> bool:
    """Read a paragraph up to what ends it, with a table in it, or a setext heading up to its
    underline.
    """
    src, indents, indent = state.src, state.sCount, state.blkIndent
    begins, shifts, ends = state.bMarks, state.tShift, state.eMarks
    terminators = state.md.block.ruler.getRules("paragraph")
    # The list rule asks whether it would interrupt a paragraph.
    parent_type, state.parentType = state.parentType, "paragraph"
    level = 0
    table_line = -1
    next_line = start_line + 1
    while next_line < state.lineMax:
        at = begins[next_line] + shifts[next_line]
        if at >= ends[next_line]:
            break
        line_indent = indents[next_line]
        # Deeper than three columns, or negative: a lazy continuation, whatever it holds.
        if line_indent - indent <= 3:
            first = src[at]
            if first in "-=" and next_line < end_line and line_indent >= indent:
                rest = state.skipSpaces(state.skipCharsStr(at, first))
                if rest >= ends[next_line]:
                    level = 1 if first == "=" else 2
                    break
            if (
                line_indent >= 0
                and (first in _MAY_END_PARAGRAPH or (first == "[" and src.startswith("^", at + 1)))
                and any(rule(state, next_line, state.lineMax, True) for rule in terminators)
            ):
                break
            if (
                first in _MAY_BEGIN_DELIMITERS
                and table_line < 0
                and line_indent >= indent
                and _delimits_table(state, next_line, at)
            ):
                table_line = next_line - 1
        next_line += 1
    state.parentType = parent_type
    state.line = next_line + 1 if level else next_line
    if level:
        content = mdTrim(state.getLines(start_line, next_line, indent, False))
        _push_heading(state, start_line, next_line + 1, content, level)
        return True
    if parent_type == "list":
        state.env[_ITEM_PARAGRAPHS].append((state.level, start_line))
    if table_line < 0:
        _push_paragraph(state, start_line, next_line)
        return True
    _push_paragraph(state, start_line, table_line)
    table_end = table_line + 2
    while table_end < next_line and 0 <= indents[table_end] - indent <= 3:
        table_end += 1
    _push_table(state, table_line, table_end)
    _push_paragraph(state, table_end, next_line)
    return True


def _delimits_table(state: StateBlock, line: int, at: int) -> bool:
    """Whether the line is a table's delimiter row, with as many columns as the line above it."""
    src, end = state.src, state.eMarks[line]
    if _DELIMITERS.fullmatch(src, at, end) is None:
        return False
    above = state.bMarks[line - 1] + state.tShift[line - 1]
    above_end = state.eMarks[line - 1]
    if src.find("|", above, above_end) < 0 or not 0 <= state.sCount[line - 1] - state.blkIndent < 4:
        return False
    columns = len(_cells(src, at, end, _COLUMN_BREAK))
    return columns == len(_cells(src, above, above_end, _COLUMN_BREAK))


def _cells(src: str, start: int, end: int, breaks: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where the cells of a table's row lie; the row begins at a visible character."""
    pipes = [found.start() for found in breaks.finditer(src, start, end) if found[0] == "|"]
    if pipes and pipes[0] == start:
        del pipes[0]
        start += 1
    if pipes and not src[pipes[-1] + 1 : end].strip():
        end = pipes.pop()
    return list(zip([start, *(pipe + 1 for pipe in pipes)], [*pipes, end], strict=True))


def _push_table(state: StateBlock, start_line: int, end_line: int) -> None:
    """Push a table, and each of its cells that can hold a link as an inline text of its own."""
    state.push("table", "", 0).map = [start_line, end_line]
    src = state.src
    for line in range(start_line, end_line):
        start, end = state.bMarks[line] + state.tShift[line], state.eMarks[line]
        if not _can_hold_link(src, start, end):
            continue
        line_start = src.rfind("\n", 0, start) + 1
        for cell_start, cell_end in _cells(src, start, end, _CELL_BREAK):
            if _can_hold_link(src, cell_start, cell_end):
                cell = src[cell_start:cell_end]
                token = state.push("inline", "", 0)
                token.content = mdTrim(cell)
                token.map = [line, line + 1]
                indent = len(cell) - len(cell.lstrip(" \t"))
                token.meta = {"column": cell_start - line_start + indent}


def _can_hold_link(src: str, start: int, end: int) -> bool:
    return src.find("[", start, end) >= 0 or src.find("<", start, end) >= 0


def _push_paragraph(state: StateBlock, start_line: int, end_line: int) -> None:
    if start_line < end_line and _can_hold_link(
        state.src, state.bMarks[start_line], state.eMarks[end_line - 1]
    ):
        _push_inline(state, start_line, end_line)


def _push_inline(state: StateBlock, start_line: int, end_line: int) -> None:
    token = state.push("inline", "", 0)
    token.content = mdTrim(state.getLines(start_line, end_line, state.blkIndent, False))
    token.map = [start_line, end_line]


def _push_heading(
    state: StateBlock, start_line: int, end_line: int, content: str, level: int
) -> None:
    if state.env[_HEADINGS] < MAX_HEADINGS:
        state.env[_HEADINGS] += 1
        token = state.push("inline", f"h{level}", 0)
        token.content = content
        token.map = [start_line, end_line]
