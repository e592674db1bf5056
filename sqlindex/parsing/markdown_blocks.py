"""Block structure of Markdown: markdown-it's rules, with shortcuts for plain paragraphs.

Only headings and the blocks that can hold a link matter here. Most of a text is paragraphs,
and for each of their lines markdown-it asks every rule that may end a paragraph, twice: once
looking for a setext underline, once for the paragraph. The rules below scan once and ask only
if the line's first character can begin a block. What is found is the same: a property test
compares it with markdown-it's own rules.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import mdTrim
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

MAX_BLOCK_NESTING = 100
"""markdown-it's own 20 drops all that follows a list nested ten deep."""

_MAY_END_PARAGRAPH = frozenset("`~>*-_+#<0123456789")
_MAY_BEGIN_BLOCK = _MAY_END_PARAGRAPH | {"["}


@dataclass(frozen=True, slots=True)
class InlineBlock:
    """A heading, or a paragraph in which links can stand.

    Attributes:
        first_line: 0-based line of its first character.
        content: source of its inline text, quote and list markers taken off each line.
        level: 1 to 6 for headings, 0 for paragraphs.
    """

    first_line: int
    content: str
    level: int


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


def inline_blocks(source: str) -> tuple[list[InlineBlock], MutableMapping[str, Any]]:
    """Find headings and link-bearing paragraphs, in order.

    Args:
        source: text whose lines end at LF only, without CRs or NULs.

    Returns:
        The blocks, and markdown-it's environment with the link reference definitions.
    """
    markdown = _block_parser()
    env: MutableMapping[str, Any] = {}
    tokens: list[Token] = []
    markdown.block.parse(source, markdown, env, tokens)
    blocks = []
    level = 0
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1:])
        elif token.type == "heading_close":
            level = 0
        elif token.type == "inline" and token.map is not None:
            blocks.append(InlineBlock(token.map[0], token.content, level))
    return blocks, env


@cache
def _block_parser() -> MarkdownIt:
    markdown = RawLinkMarkdown("commonmark", {"maxNesting": MAX_BLOCK_NESTING})
    ruler = markdown.block.ruler
    ruler.before("code", "plain_text", _plain_text)
    ruler.at("paragraph", _paragraph_or_setext_heading)
    markdown.disable("lheading")
    return markdown


def _plain_text(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Take a block whose first character rules out everything but a paragraph."""
    first = state.src[state.bMarks[start_line] + state.tShift[start_line]]
    if first in _MAY_BEGIN_BLOCK or state.is_code_block(start_line):
        return False
    return _paragraph_or_setext_heading(state, start_line, end_line, silent)


def _paragraph_or_setext_heading(
    state: StateBlock, start_line: int, end_line: int, silent: bool
) -> bool:
    """Read a paragraph up to what ends it, or a setext heading up to its underline."""
    src, indents, indent = state.src, state.sCount, state.blkIndent
    begins, shifts, ends = state.bMarks, state.tShift, state.eMarks
    terminators = state.md.block.ruler.getRules("paragraph")
    # The list rule asks whether it would interrupt a paragraph.
    parent_type, state.parentType = state.parentType, "paragraph"
    level = 0
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
                and first in _MAY_END_PARAGRAPH
                and any(rule(state, next_line, state.lineMax, True) for rule in terminators)
            ):
                break
        next_line += 1
    state.parentType = parent_type
    state.line = next_line + 1 if level else next_line
    if level:
        _push_inline(state, start_line, next_line, f"h{level}")
    elif _can_hold_link(src, begins[start_line], ends[next_line - 1]):
        _push_inline(state, start_line, next_line, "")
    return True


def _can_hold_link(src: str, start: int, end: int) -> bool:
    return src.find("[", start, end) >= 0 or src.find("<", start, end) >= 0


def _push_inline(state: StateBlock, start_line: int, end_line: int, heading_tag: str) -> None:
    content = mdTrim(state.getLines(start_line, end_line, state.blkIndent, False))
    if heading_tag:
        state.push("heading_open", heading_tag, 1)
    token = state.push("inline", "", 0)
    token.content = content
    token.map = [start_line, end_line]
    if heading_tag:
        state.push("heading_close", heading_tag, -1)
