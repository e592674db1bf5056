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

REGISTRY = builtin_parsers()

LANGUAGE: dict[str, str] = {}
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
        st.sampled_from("#>-=*`~[](){}!<|:\\ \t\r\n\n\x0c\u2028\x85\ufeff\0aä1."), max_size=300
    ),
    st.lists(st.sampled_from(MARKUP), max_size=60).map("".join),
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
}

ANY: dict[str, Callable[[int], str]] = {
    "one long line": lambda n: "äb " * (n // 3),
    "blank lines": lambda n: "a" + "\n" * n,
    "opening brackets": lambda n: "{[(<" * (n // 4),
    "quotes": lambda n: "\"'`" * (n // 3),
    "short lines": lambda n: "a\n" * (n // 2),
}
"""What every parser is given; `HOSTILE` adds what is hostile to one."""

HTML: dict[str, Callable[[int], str]] = {
    "comments": lambda n: "a <!-- " * (n // 7),
    "declarations": lambda n: "<![" * (n // 3),
    "bogus comments": lambda n: "<!a></ b><?c>" * (n // 13),
    "ampersands": lambda n: "&" * n,
    "references": lambda n: "&amp;&#x41;&copy" * (n // 16),
    "digits of a reference": lambda n: "&#" + "9" * n,
    "unknown references": lambda n: "&aaaaaaaaaaaa" * (n // 13),
    "unclosed quotes": lambda n: "<a b=\"<a b='" * (n // 12),
    "tags without an end": lambda n: "<a b " * (n // 5),
    "attributes": lambda n: "<a " + "b=c " * (n // 4) + ">",
    "equals signs": lambda n: "<a " + "=" * n,
    "slashes": lambda n: "<a" + "/" * n,
    "tags": lambda n: "<b>" * (n // 3),
    "tags over lines": lambda n: "<b\n>" * (n // 4),
    "tables": lambda n: "<table>" * (n // 14) + "</table>" * (n // 16),
    "blocks that cross": lambda n: "<pre><table></pre>" * (n // 18),
    "headings": lambda n: "<h1>a" * (n // 5),
    "headings on lines": lambda n: "<h1>a</h1>\n" * (n // 11),
    "links": lambda n: "<a href=b>" * (n // 10),
    "scripts": lambda n: "<script>a</script>" * (n // 18),
    "scripts on lines": lambda n: "<script>a</script>\n" * (n // 19),
    "scripts never closed": lambda n: "<script><!--" * (n // 12),
    "closing tags": lambda n: "</table></h1></a></pre>" * (n // 23),
    "blanks before blocks": lambda n: " " * (n // 2) + "<pre></pre>" * (n // 22),
    "foreign text": lambda n: "<svg><![CDATA[" * (n // 14),
    "titles": lambda n: "<title>" * (n // 7),
}

RST: dict[str, Callable[[int], str]] = {
    "adornments": lambda n: "=" * n,
    "short adornments": lambda n: "==\n" * (n // 3),
    "titles": lambda n: "a\n=\n" * (n // 4),
    "overlines": lambda n: "====\na\n----\n" * (n // 12),
    "literal blocks": lambda n: "a::\n\n b\n" * (n // 8),
    "comments": lambda n: "..\n b\n" * (n // 6),
    "comments before blank lines": lambda n: ".. a\n\n\n\n" * (n // 8),
    "directives": lambda n: ".. note::\n" * (n // 10),
    "list tables": lambda n: ".. list-table::\n  :header-rows: 9\n\n  * - a\n" * (n // 45),
    "table tops": lambda n: "== ==\na\n" * (n // 8),
    "grid tops": lambda n: "+-+-+\n" * (n // 6),
    "fields": lambda n: ":a: b\n" * (n // 6),
    "colons": lambda n: ":a" * (n // 2),
    "one role": lambda n: ":" + "a:" * (n // 2) + "`",
    "backquotes": lambda n: "`" * n,
    "open links": lambda n: "`a <" * (n // 4),
    "open literals": lambda n: "``a `" * (n // 5),
    "targets": lambda n: ".. _a: b\n" * (n // 9),
    "one target": lambda n: ".. _" + "a:" * (n // 2),
    "one directive": lambda n: ".. " + "a:" * (n // 2),
    "deeper and deeper": lambda n: "".join(" " * (i % 90) + "a\n" for i in range(n // 47)),
}

ORG: dict[str, Callable[[int], str]] = {
    "headlines": lambda n: "* a\n" * (n // 4),
    "stars": lambda n: "*" * n,
    "tags": lambda n: "* a " + ":a" * (n // 2),
    "blocks never ended": lambda n: "#+BEGIN_SRC\n" * (n // 12),
    "blocks of many names": lambda n: "".join(f"#+BEGIN_{i}\n" for i in range(n // 13)),
    "drawers never ended": lambda n: ":PROPERTIES:\n" * (n // 13),
    "drawers ended by headlines": lambda n: ":PROPERTIES:\n" * (n // 13) + "* a\n:END:",
    "fixed width": lambda n: ": a\nb\n" * (n // 6),
    "tables": lambda n: "|a\n|-\n" * (n // 6),
    "open links": lambda n: "[[a" * (n // 3),
    "open labels": lambda n: "[[a][b\n" * (n // 7),
    "angles": lambda n: "<a:" * (n // 3),
    "states": lambda n: "#+TODO: " + "A | " * (n // 4),
}

TEX: dict[str, Callable[[int], str]] = {
    "open sections": lambda n: "\\section{" * (n // 9),
    "open options": lambda n: "\\section[" * (n // 9),
    "open titles and links": lambda n: "\\title{\\href{a}{" * (n // 17),
    "open groups": lambda n: "\\section" + "{" * n,
    "sections": lambda n: "\\section{a}\n" * (n // 12),
    "links": lambda n: "\\href{a}{" * (n // 9),
    "blanks": lambda n: "\\section   " * (n // 11),
    "backslashes": lambda n: "\\" * n,
    "comments": lambda n: "%a\n" * (n // 3),
    "verbatim never ended": lambda n: "\\begin{verbatim}" * (n // 16),
    "tables never ended": lambda n: "\\begin{tabular}" * (n // 15),
    "tables": lambda n: "\\begin{tabular}\\\\\\end{tabular}\n" * (n // 31),
    "inline verbatim": lambda n: "\\verb|" * (n // 6),
}

HOSTILE: dict[str, dict[str, Callable[[int], str]]] = {
    "html": HTML,
    "markdown": MARKDOWN,
    "org": ORG,
    "rst": RST,
    "tex": TEX,
}

HOSTILE_LENGTH = dict.fromkeys(("html", "org", "rst", "tex"), 1_000_000)
"""Characters of the texts where four million would only take longer: many cases are short lines."""

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
    text = make(HOSTILE_LENGTH.get(parser_id, 4_000_000))
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
