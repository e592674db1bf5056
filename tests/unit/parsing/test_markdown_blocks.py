"""Blocks of Markdown: lines that read as one."""

from __future__ import annotations

import pytest

from sqlindex.parsing.markdown import MarkdownParser

pytestmark = pytest.mark.req("A-9")


def blocks(text: str) -> list[tuple[str, str]]:
    """(lines, header) of each block."""
    return [
        (text[b.start_char : b.end_char], text[b.start_char : b.header_end_char])
        for b in MarkdownParser().parse(text, "markdown").blocks
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("source", "found", "header_lines"),
    [
        ("a\n\n| x | y |\n|---|--:|\n| 1 | 2 |\n\nb", "| x | y |\n|---|--:|\n| 1 | 2 |", 2),
        ("a\nx | y\n-|-\n1 | 2\n", "x | y\n-|-\n1 | 2", 2),
        ("```py\n# a\n\nb\n```\nc", "```py\n# a\n\nb\n```", 0),
        ("~~~\n```\nb\n~~~\n", "~~~\n```\nb\n~~~", 0),
        ("```\nnever closed\n\n\n", "```\nnever closed", 0),
        ("> a\n> b\nlazy\n\nc", "> a\n> b\nlazy", 0),
        ("> [!note]- Title\n> b\n", "> [!note]- Title\n> b", 1),
        ("<div>\n<p>\n</div>\n\na", "<div>\n<p>\n</div>", 0),
        ("<!-- a\n\n# b\n-->\nc", "<!-- a\n\n# b\n-->", 0),
        ("- a\n\n  b\n- c\n", "- a\n\n  b", 0),
        ("a[^1]\n\n[^1]: b\n    c\n\nd", "[^1]: b\n    c", 0),
        ("[a]: b\n[c]: d\n  'title'\n\n[e]\n", "[a]: b\n[c]: d\n  'title'", 0),
    ],
)
def test_each_kind_of_block(source: str, found: str, header_lines: int, line_end: str) -> None:
    text, found = source.replace("\n", line_end), found.replace("\n", line_end)
    header = line_end.join(found.split(line_end)[:header_lines])
    assert blocks(text) == [(found, header)]


@pytest.mark.parametrize(
    "text",
    [
        "a\nb\n",
        "- a\n- b\n  - c\n",
        "- a\n\n  - b\n",
        "> a\n",
        "a | b\n--- | --- | ---\n",
        "| a |\n---\n",
        "a\n:-:\n",
        "| a |\n|---|\n===\n",
        "# a | b\n--- | ---\n",
        "[^1]: a\n[^2]: b\n",
    ],
)
def test_what_is_no_block(text: str) -> None:
    assert blocks(text) == []


def test_outer_blocks_come_before_inner_ones() -> None:
    text = "> a\n>\n> 1. b\n>\n>    ```\n>    c\n>    ```\n>\n> d\n"
    assert [found.split("\n")[0] for found, _ in blocks(text)] == ["> a", "> 1. b", ">    ```"]


def test_a_quoted_table_is_one_block_with_its_header() -> None:
    assert blocks("> |a|\n> |-|\n> |b|\n") == [("> |a|\n> |-|\n> |b|", "> |a|\n> |-|")]


def test_a_block_ends_where_a_heading_in_it_begins() -> None:
    assert blocks("> a\n> b\n>\n> # c\n> d\n") == [("> a\n> b\n>", "")]
    assert blocks("> # c\n> d\n") == [("> # c\n> d", "")]


def test_a_heading_in_a_footnote_heads_nothing() -> None:
    text = "# A\n\n[^1]: note\n\n    more\n    ---\n\nb\n"
    parsed = MarkdownParser().parse(text, "markdown")
    assert [section.heading_path for section in parsed.sections] == [("A",)]
