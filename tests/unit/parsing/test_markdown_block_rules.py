"""Our shortcuts find what markdown-it's own block rules find."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlindex.parsing.markdown_blocks import (
    MAX_BLOCK_NESTING,
    InlineBlock,
    RawLinkMarkdown,
    block_structure,
)

PARTS = [
    *("# ", "## x ##", "> ", "- ", "* ", "+ ", "1. ", "2) ", "10. ", "    ", "\t", "  ", " "),
    *("a", "b c", "ü", "\\", "`", "=", "-", "+", "_", "---", "===", "- - -", "```", "~~~", "***"),
    *("<div>", "<!-- x", "-->", "</div>", "[a]: b", "[a]", '"t', "[x](y)", "<http://z>"),
    *("\n", "\n", "\n", "\n", "\n\n", "\n\n"),
]


def plain_blocks(source: str) -> tuple[list[InlineBlock], Any]:
    markdown = RawLinkMarkdown("commonmark", {"maxNesting": MAX_BLOCK_NESTING})
    markdown.disable(["inline", "text_join"])
    env: dict[str, Any] = {}
    blocks, level, heading_end = [], 0, 0
    for token in markdown.parse(source, env):
        if token.type == "heading_open":
            level = int(token.tag[1:])
            heading_end = token.map[1] if token.map else 0
        elif token.type == "heading_close":
            level = 0
        elif token.type == "inline" and token.map is not None:
            end = heading_end if level else token.map[1]
            blocks.append(InlineBlock(token.map[0], end, token.content, level))
    return [block for block in blocks if can_matter(block)], env.get("references")


def can_matter(block: InlineBlock) -> bool:
    return block.level > 0 or "[" in block.content or "<" in block.content


@pytest.mark.req("A-9")
@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=40).map("".join))
def test_headings_and_link_bearing_blocks_are_those_of_commonmark(source: str) -> None:
    structure = block_structure(source)
    found = [block for block in structure.inlines if can_matter(block)]
    assert (found, structure.env.get("references")) == plain_blocks(source)


ROWS = [
    "| a | b |",
    "|a|b|",
    "a | b",
    "| a \\| b | c",
    "|---|---|",
    "--- | :-:",
    "|-|",
    "| [x](y) | `",
]
GROUPS = st.tuples(
    st.sampled_from([("", ""), ("> ", "> "), ("1. > ", "   > ")]),
    st.lists(st.sampled_from([*ROWS, "text"]), min_size=1, max_size=8),
)


def in_container(group: tuple[tuple[str, str], list[str]]) -> str:
    (first, further), lines = group
    return first + f"\n{further}".join(lines)


def plain_tables(source: str) -> list[tuple[int, int]]:
    markdown = RawLinkMarkdown("commonmark").enable("table").disable(["inline", "text_join"])
    return [
        (token.map[0], token.map[1])
        for token in markdown.parse(source)
        if token.type == "table_open" and token.map is not None and token.map[1] > token.map[0] + 1
    ]


@pytest.mark.req("A-9")
@settings(max_examples=500, deadline=None)
@given(st.lists(GROUPS.map(in_container), max_size=4).map("\n\n".join))
def test_tables_are_those_of_markdown_it(source: str) -> None:
    tables = [
        (block.first_line, block.end_line)
        for block in block_structure(source).blocks
        if block.header_lines == 2
    ]
    assert tables == plain_tables(source)
