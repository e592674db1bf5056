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
from sqlindex.model.documents import ParsedDocument
from sqlindex.parsing.registry import builtin_parsers

REGISTRY = builtin_parsers()

parser_ids = pytest.mark.parametrize("parser_id", REGISTRY.ids)

odd_texts = st.one_of(
    st.text(max_size=200),
    st.text(
        st.sampled_from("#>-=*`~[](){}!<|:\\ \t\r\n\n\x0c\u2028\x85\ufeff\0aä1."), max_size=300
    ),
)

HOSTILE: dict[str, Callable[[int], str]] = {
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
}


def check(text: str, parsed: ParsedDocument) -> None:
    sections = parsed.sections
    for section in sections:
        assert 0 <= section.start_char < section.end_char <= len(text)
        assert section.start_char == 0 or text[section.start_char - 1] == "\n"
        if section.heading_line:
            assert 1 <= section.level <= 6
            assert section.heading_line == 1 + text.count("\n", 0, section.start_char)
        else:
            assert (section.level, section.heading_path) == (0, ())
    for before, after in pairwise(sections):
        assert before.end_char <= after.start_char
    position = 0
    for section in sections:
        assert not text[position : section.start_char].strip()
        position = section.end_char
    assert not text[position:].strip()
    starts = [link.start_char for link in parsed.links]
    assert starts == sorted(starts)
    for link in parsed.links:
        assert text[link.start_char] in "[<"


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


@pytest.mark.parametrize(
    ("parser_id", "name"),
    [
        *(("markdown", name) for name in HOSTILE),
        *((parser_id, "one long line") for parser_id in REGISTRY.ids if parser_id != "markdown"),
    ],
)
def test_four_million_hostile_characters_are_parsed_and_cut(parser_id: str, name: str) -> None:
    text = HOSTILE[name](4_000_000)
    parsed = REGISTRY.parser(parser_id).parse(text, "x")
    check(text, parsed)
    assert chunk_document(text, parsed, ChunkConfig())


@pytest.mark.parametrize("name", HOSTILE)
def test_the_work_on_hostile_markdown_grows_with_its_length(name: str) -> None:
    def calls(length: int) -> int:
        """Calls of Python and C functions while parsing: work that no busy machine distorts."""
        count = 0

        def tally(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        text = HOSTILE[name](length)
        sys.setprofile(tally)
        try:
            REGISTRY.parser("markdown").parse(text, "x")
        finally:
            sys.setprofile(None)
        return count

    calls(100)  # the first parse builds the rules
    assert calls(40_000) < 3 * calls(20_000) + 1_000
