"""What every parser keeps: total, linear, sections in order over the whole text."""

from __future__ import annotations

import re
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
from tests.contract.hostile import ANY, CODE, HOSTILE, MORE_CODE

REGISTRY = builtin_parsers()

LANGUAGE: dict[str, str] = {"code": "cpp"}
"""Language that a parser is tried with where it matters to it."""

parser_ids = pytest.mark.parametrize("parser_id", REGISTRY.ids)

MARKUP = [
    *("<h1>", "</h1>", "<h3 a='>'>", "<pre>", "</pre>", "<table>", "<tr><th>", "</tr>", "</table>"),
    *(
        "<script>",
        "</script>",
        "<style>",
        "</style>",
        "<!--",
        "-->",
        "<a href=x>",
        "</a>",
        "<br\n>",
    ),
    *("&amp;", "&#10;", "&#xd800;", "&notit", "<title>", "</title>", "<svg>", "<![CDATA[", "]]>"),
    *("\\section{", "\\section*{a}", "\\begin{tabular}", "\\end{tabular}", "\\\\", "\\hline"),
    *("\\begin{verbatim}", "\\end{verbatim}", "\\href{a}{b}", "\\verb|", "}", "% "),
    *("* a :t:", "** ", "#+BEGIN_SRC", "#+END_SRC", "| a |", "|---|", "[[a][b]]", ": f", ":END:"),
    *("====", "----", "==", "::", ".. code::", ".. c", ".. _a: b", ".. list-table::", "* - a"),
    *("+-+-+", "+=+=+", "== ==", "`a <b>`_", ":doc:`a`", ":header-rows: 1", ":date: 2026-01-01"),
    *("\n", "\n", "\n", "\r\n", "\n\n", " ", "   ", "a", "ä b", "\r", "\x0c", "\u2028", "\ud800"),
]

odd_texts = st.one_of(
    st.text(max_size=200),
    st.text(
        st.sampled_from("#>-=*`~[](){}!<|:^\\ \t\r\n\n\x0c\u2028\x85\ufeff\0aä1."), max_size=300
    ),
    st.lists(st.sampled_from(MARKUP), max_size=60).map("".join),
)

CODE_PARTS = [
    *("def f(a):\n", "    def g(self):\n", "class A:\n", "@d\n", "class A {\n", "function f() {\n"),
    *("func (a *B) c() {\n", "impl A for B {\n", "fn f() {\n", "int A::f(int x) {\n", "#if x\n"),
    *("#else\n", "#endif\n", "namespace a {\n", "  f(a) {\n", "const f = () => (\n", "f() {\n"),
    *("function f\n", "end\n", "CREATE TABLE a (\n", ");\n", ".a { b: c }\n", "{", "}", "}\n"),
    *(
        "(",
        ")",
        ";",
        "'",
        '"',
        '"""',
        "`",
        "${",
        "\\",
        "/",
        "/*",
        "*/",
        "// c\n",
        "# c\n",
        "-- c\n",
    ),
    *(
        "\r",
        "\r\n",
        "\n",
        "\n\n",
        "\x0c",
        "\u2028",
        "\x85",
        "\ufeff",
        "\0",
        "\ud800",
        "e\u0301",
        "\U0001f680",
    ),
    *("  ", "\t", "x" * 250, "= 1\n", "ä = <b>\n"),
]

CODE_LANGUAGES = (
    *("c", "cpp", "css", "fish", "go", "java", "javascript", "python", "rust", "scss", "shell"),
    *("sql", "typescript"),
)

LENGTH_BY_TEXT = {ANY["one long line"]: 4_000_000, ANY["opening brackets"]: 4_000_000}
OTHER_LENGTH = 400_000
"""Characters of the other hostile texts: the work grows with the length, as another test says, so
ten times as many would only take longer."""

LINE_END = re.compile(r"\r*(?:\n|\Z)")

LINK_OPENINGS = "[<`:.\\"
"""What links begin with: brackets and tags, in rst a backquote, a role or the dots of a target,
in TeX a command."""

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
    line, counted_to = 1, 0
    for section in sections:
        assert 0 <= section.start_char < section.end_char <= len(text)
        assert section.start_char == 0 or text[section.start_char - 1] == "\n"
        line += text.count("\n", counted_to, section.start_char)
        first_line = line
        line += text.count("\n", section.start_char, section.end_char - 1)
        last_line, counted_to = line, section.end_char - 1
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
        assert text[link.start_char] in LINK_OPENINGS


def check_blocks(text: str, parsed: ParsedDocument) -> None:
    """In order, nested or disjoint, whole lines, each inside one section."""
    enclosing: list[Block] = []
    before = (-1, 0)
    for block in parsed.blocks:
        assert 0 <= block.start_char <= block.header_end_char <= block.end_char <= len(text)
        assert block.start_char == 0 or text[block.start_char - 1] == "\n"
        for end in (block.end_char, block.header_end_char):
            assert end == block.start_char or LINE_END.match(text, end)
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
def test_millions_of_hostile_characters_are_parsed_and_cut(
    parser_id: str, make: Callable[[int], str]
) -> None:
    text = make(LENGTH_BY_TEXT.get(make, OTHER_LENGTH))
    parsed = REGISTRY.parser(parser_id).parse(text, LANGUAGE.get(parser_id, "x"))
    check(text, parsed)
    assert chunk_document(text, parsed, ChunkConfig())


def calls_of(work: Callable[[], object]) -> int:
    count = 0

    def tally(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tally)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@hostile_texts
def test_the_work_on_hostile_text_grows_with_its_length(
    parser_id: str, make: Callable[[int], str]
) -> None:
    def calls(length: int) -> int:
        """Calls of Python and C functions while parsing: work that no busy machine distorts."""
        text = make(length)
        language = LANGUAGE.get(parser_id, "x")
        return calls_of(lambda: REGISTRY.parser(parser_id).parse(text, language))

    calls(100)  # the first parse builds the rules
    assert calls(40_000) < 3 * calls(20_000) + 1_000


@pytest.mark.req("A-7", "A-10", "A-11")
@pytest.mark.parametrize("language", CODE_LANGUAGES)
def test_hostile_code_of_each_language_is_covered_by_its_sections(language: str) -> None:
    parser = REGISTRY.parser("code")
    for make in (*ANY.values(), *CODE.values(), *MORE_CODE.values()):
        text = make(100_000)
        check(text, parser.parse(text, language))


@pytest.mark.req("A-10", "A-11")
@pytest.mark.parametrize("language", CODE_LANGUAGES)
@settings(deadline=None)
@given(
    text=st.lists(
        st.one_of(st.sampled_from(CODE_PARTS), st.text(max_size=5), st.just("a();\n" * 50)),
        max_size=40,
    ).map("".join)
)
def test_sections_of_odd_code_cover_it(language: str, text: str) -> None:
    check(text, REGISTRY.parser("code").parse(text, language))
