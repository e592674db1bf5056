"""What every parser keeps: total, linear, sections in order over the whole text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlindex.chunking.chunker import chunk_document
from sqlindex.config import ChunkConfig
from sqlindex.model.documents import Block, ParsedDocument
from sqlindex.parsing.registry import builtin_parsers

REGISTRY = builtin_parsers()

LANGUAGE: dict[str, str] = {}
"""Language that a parser is tried with where it matters to it."""

parser_ids = pytest.mark.parametrize("parser_id", REGISTRY.ids)

odd_texts = st.one_of(
    st.text(max_size=200),
    st.text(
        st.sampled_from("#>-=*`~[](){}!<|:^\\ \t\r\n\n\x0c\u2028\x85\ufeff\0aä1."), max_size=300
    ),
)

MARKDOWN: dict[str, Callable[[int], str]] = {
    "quotes": lambda n: ">" * n,
    "brackets": lambda n: "[" * n,
    "backticks": lambda n: "`" * n,
    "backtick runs": lambda n: "".join("`" * (1 + i % 99) + "a" for i in range(n // 51)),
    "image openers": lambda n: "![" * (n // 2),
    "emphasis": lambda n: "# " + "*a_" * (n // 3),
    "nested quotes": lambda n: (">" * 120 + "a\n") * (n // 122),
    "nested lists": lambda n: "- " * (n // 2),
    "deep list": lambda n: "".join("  " * (i % 90) + "- a\n" for i in range(n // 94)),
    "comments": lambda n: "a <!-- " * (n // 7),
    "fences": lambda n: ("```\n" + "a" * 20 + "\n") * (n // 25),
    "front matter flow": lambda n: "---\n" + "[" * (n // 2) + "\n---\n" + "a" * (n // 2),
    "underline far away": lambda n: "a" * (n // 2) + "\n" + "b\n" * (n // 8) + "===",
    "blank lines": lambda n: "a" + "\n" * n,
    "one long line": lambda n: "äb " * (n // 3),
    "bars": lambda n: "|" * n,
    "lines of bars": lambda n: "|\n" * (n // 2),
    "wide table": lambda n: "|a" * (n // 6) + "\n" + "|-" * (n // 6) + "\n" + "|b" * (n // 6),
    "wide delimiter row": lambda n: "a\n" + "|:-:" * (n // 4) + "|x",
    "delimiter rows that fit nothing": lambda n: "a|b\n-|-|-\n" * (n // 10),
    "tables": lambda n: "|a|\n|-|\n|[b](c)|\n\n" * (n // 20),
    "wiki links in a row": lambda n: "|a|\n|-|\n|" + "[[a\\|b]]|" * (n // 9),
    "open wiki links": lambda n: "[[a|" * (n // 4),
    "footnotes": lambda n: "[^1]: a\n" * (n // 8),
    "nested footnotes": lambda n: ("[^1]: " * 99 + "a\n\n") * (n // 600),
    "long footnote": lambda n: "[^1]:\n" + "    a\n\n" * (n // 7),
    "footnote references": lambda n: "[^1]" * (n // 4),
    "definitions": lambda n: "[a]: b\n" * (n // 7),
    "callouts": lambda n: "> [!NOTE] a\n> b\n\n" * (n // 17),
    "nested callouts": lambda n: (">" * 90 + " [!NOTE]\n") * (n // 99),
    "items of paragraphs": lambda n: "- a\n\n  b\n\n" * (n // 11),
    "headings in quotes": lambda n: "> a\n> # b\n" * (n // 10),
    "HTML links": lambda n: "<div>\n" + "<a href=b>" * (n // 10),
    "open HTML tags": lambda n: "<div>\n" + "<a href='" * (n // 9),
    "open HTML comments": lambda n: "<div>\n" + "<!-- <a " * (n // 8),
    "HTML links in a line": lambda n: "a " + "<a href='b'>" * (n // 12),
}

ANY: dict[str, Callable[[int], str]] = {
    "one long line": lambda n: "äb " * (n // 3),
    "blank lines": lambda n: "a" + "\n" * n,
    "opening brackets": lambda n: "{[(<" * (n // 4),
    "quotes": lambda n: "\"'`" * (n // 3),
    "short lines": lambda n: "a\n" * (n // 2),
}
"""What every parser is given; `HOSTILE` adds what is hostile to one."""

HOSTILE: dict[str, dict[str, Callable[[int], str]]] = {"markdown": MARKDOWN}

hostile_texts = pytest.mark.parametrize(
    ("parser_id", "make"),
    [
        pytest.param(parser_id, make, id=f"{parser_id}: {name}")
        for parser_id in REGISTRY.ids
        for name, make in {**ANY, **HOSTILE.get(parser_id, {})}.items()
    ],
)


def check(text: str, parsed: ParsedDocument) -> None:
    sections = parsed.sections
    for section in sections:
        assert 0 <= section.start_char < section.end_char <= len(text)
        assert section.start_char == 0 or text[section.start_char - 1] == "\n"
        first_line = 1 + text.count("\n", 0, section.start_char)
        last_line = 1 + text.count("\n", 0, section.end_char - 1)
        if section.heading_line:
            assert section.level >= 1
            assert first_line <= section.heading_line <= last_line
        else:
            assert (section.level == 0) == (section.heading_path == ())
        assert all(0 < len(name) <= 1_000 for name in section.heading_path)
    for before, after in pairwise(sections):
        assert before.end_char <= after.start_char
    position = 0
    for section in sections:
        assert not text[position : section.start_char].strip()
        position = section.end_char
    assert not text[position:].strip()
    check_blocks(text, parsed)
    end = 0
    for part in parsed.rendered:
        assert end <= part.start_char < part.end_char <= len(text)
        assert "\n" not in part.text or "\n" in text[part.start_char : part.end_char]
        end = part.end_char
    starts = [link.start_char for link in parsed.links]
    assert starts == sorted(starts)
    for link in parsed.links:
        assert text[link.start_char] in "[<"


def check_blocks(text: str, parsed: ParsedDocument) -> None:
    """In order, nested or disjoint, whole lines, each inside one section."""
    enclosing: list[Block] = []
    before = (-1, 0)
    for block in parsed.blocks:
        assert 0 <= block.start_char <= block.header_end_char <= block.end_char <= len(text)
        assert block.start_char == 0 or text[block.start_char - 1] == "\n"
        for end in (block.end_char, block.header_end_char):
            assert end == block.start_char or text[end:].lstrip("\r")[:1] in ("", "\n")
        assert before <= (block.start_char, -block.end_char)
        before = (block.start_char, -block.end_char)
        while enclosing and enclosing[-1].end_char <= block.start_char:
            enclosing.pop()
        assert not enclosing or block.end_char <= enclosing[-1].end_char
        enclosing.append(block)
    section_at = 0
    for block in parsed.blocks:
        while parsed.sections[section_at].end_char <= block.start_char:
            section_at += 1
        section = parsed.sections[section_at]
        assert section.start_char <= block.start_char
        assert block.end_char <= section.end_char


@parser_ids
@pytest.mark.req("A-9", "A-10", "A-11")
@settings(deadline=None)
@given(text=odd_texts)
def test_sections_cover_every_non_blank_line_in_order(parser_id: str, text: str) -> None:
    parsed = REGISTRY.parser(parser_id).parse(text, "lang")
    check(text, parsed)
    assert parsed.language == "lang"


@parser_ids
@pytest.mark.req("A-10")
def test_an_empty_and_a_blank_text_have_no_sections(parser_id: str) -> None:
    assert REGISTRY.parser(parser_id).parse("", "x").sections == ()
    assert REGISTRY.parser(parser_id).parse(" \r\n\x0c\n", "x").sections == ()


@parser_ids
@pytest.mark.req("A-10")
def test_parsing_twice_gives_the_same(parser_id: str) -> None:
    text = "---\ntags: [b, a]\n---\n# A\n[x](y)\n\nB\n===\n"
    parser = REGISTRY.parser(parser_id)
    assert parser.parse(text, "x") == parser.parse(text, "x")


@hostile_texts
@pytest.mark.req("A-7", "A-10")
def test_four_million_hostile_characters_are_parsed_and_cut(
    parser_id: str, make: Callable[[int], str]
) -> None:
    text = make(4_000_000)
    parsed = REGISTRY.parser(parser_id).parse(text, LANGUAGE.get(parser_id, "x"))
    check(text, parsed)
    assert chunk_document(text, parsed, ChunkConfig())


@hostile_texts
def test_the_work_on_hostile_text_grows_with_its_length(
    parser_id: str, make: Callable[[int], str]
) -> None:
    def calls(length: int) -> int:
        """Calls of Python and C functions while parsing: work that no busy machine distorts."""
        count = 0

        def tally(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        text = make(length)
        sys.setprofile(tally)
        try:
            REGISTRY.parser(parser_id).parse(text, LANGUAGE.get(parser_id, "x"))
        finally:
            sys.setprofile(None)
        return count

    calls(100)  # the first parse builds the rules
    assert calls(40_000) < 3 * calls(20_000) + 1_000
