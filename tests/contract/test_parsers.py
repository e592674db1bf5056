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
from sqlindex.chunking.lines import LineTable
from sqlindex.config import ChunkConfig
from sqlindex.model.documents import Block, ParsedDocument
from sqlindex.parsing.registry import builtin_parsers

REGISTRY = builtin_parsers()

LANGUAGE: dict[str, str] = {"code": "cpp"}
"""Language that a parser is tried with where it matters to it."""

parser_ids = pytest.mark.parametrize("parser_id", REGISTRY.ids)

odd_texts = st.one_of(
    st.text(max_size=200),
    st.text(
        st.sampled_from("#>-=*`~[](){}!<|:\\ \t\r\n\n\x0c\u2028\x85\ufeff\0aä1."), max_size=300
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
}

END_OF_LINE = re.compile(r"\r*+(?:\n|\Z)")

ANY: dict[str, Callable[[int], str]] = {
    "one long line": lambda n: "äb " * (n // 3),
    "blank lines": lambda n: "a" + "\n" * n,
    "opening brackets": lambda n: "{[(<" * (n // 4),
    "quotes": lambda n: "\"'`" * (n // 3),
    "short lines": lambda n: "a\n" * (n // 2),
}
"""What every parser is given; `HOSTILE` adds what is hostile to one."""

JSON: dict[str, Callable[[int], str]] = {
    "nested arrays": lambda n: "[" * n,
    "nested objects on lines": lambda n: '{"a":\n' * (n // 6),
    "elements on lines": lambda n: '[\n{"name":' * (n // 10),
    "keys on one line": lambda n: "{" + '"a": 1, ' * (n // 8),
    "keys on lines": lambda n: "{" + '"a": 1,\n' * (n // 8),
    "closing brackets": lambda n: "[{" * 10 + "]" * n,
    "quotes on lines": lambda n: '{"\n' * (n // 3),
    "backslashes": lambda n: '{"a": "' + "\\" * n,
    "escapes": lambda n: '{"a": "' + "\\n\\u00e4" * (n // 8),
    "lone surrogates": lambda n: '{"a": "' + "\\ud83d" * (n // 6),
    "open comments": lambda n: "/*" * (n // 2),
    "comments": lambda n: "/**/" * (n // 4),
    "spaces behind strings": lambda n: ("{" + '"a"' + " " * 97) * (n // 101),
}

YAML: dict[str, Callable[[int], str]] = {
    "dashes": lambda n: "- " * (n // 2),
    "deep mapping": lambda n: "".join(" " * (i % 180) + "a:\n" for i in range(n // 93)),
    "deep list": lambda n: "".join("  " * (i % 90) + "- a:\n" for i in range(n // 95)),
    "keys": lambda n: "a: b\n" * (n // 5),
    "colons": lambda n: "a:" * (n // 2),
    "hashes": lambda n: "a#" * (n // 2),
    "open quotes": lambda n: "a: 'b\n" * (n // 6),
    "open flow": lambda n: "a: [\n" * (n // 5),
    "block scalars": lambda n: "a: |\n b\n" * (n // 8),
    "anchors": lambda n: "- " + "&a " * (n // 3),
    "documents": lambda n: "---\na: 1\n" * (n // 9),
    "comments": lambda n: "# a\n" * (n // 4),
}

TOML: dict[str, Callable[[int], str]] = {
    "tables": lambda n: "[a.b]\n" * (n // 6),
    "elements": lambda n: "[[a]]\nname = 1\n" * (n // 15),
    "long header": lambda n: "[" + "a." * (n // 2),
    "long key": lambda n: "a . " * (n // 4) + "= 1",
    "open strings": lambda n: 'a = """\n' * (n // 8),
    "open literal strings": lambda n: "a = '''b\n" * (n // 9),
    "escaped quotes": lambda n: 'a = """' + '\\"""' * (n // 4),
    "open arrays": lambda n: "a = [\n" * (n // 6),
    "open arrays before tables": lambda n: "a = [\n[b]\n" * (n // 10),
}

INI: dict[str, Callable[[int], str]] = {
    "headers": lambda n: "[a]\n" * (n // 4),
    "open header": lambda n: "[" + " " * (n // 2) + "a" * (n // 2),
    "keys": lambda n: "a = b\n" * (n // 6),
    "continuations": lambda n: "a = b\n" + " c\n" * (n // 3),
}

CSV: dict[str, Callable[[int], str]] = {
    "open fields": lambda n: ',"a\n' * (n // 4),
    "odd runs of quotes": lambda n: '"""\n' * (n // 4),
    "doubled quotes": lambda n: '"' + '""' * (n // 2),
    "long records": lambda n: '"a\nb",c\n' * (n // 8),
    "long fields on one record": lambda n: '"a\n",' * (n // 5),
    "opening quotes far apart": lambda n: (',"' + "a" * 997 + "\n") * (n // 1_000),
}


def _notebook(n: int, cell: str) -> str:
    return '{"cells": [\n' + ",\n".join([cell] * (n // (len(cell) + 2))) + "\n]}"


NOTEBOOK: dict[str, Callable[[int], str]] = {
    "cells": lambda n: _notebook(n, '{"cell_type": "code", "source": ["a\\n"]}'),
    "headings": lambda n: _notebook(n, '{"cell_type": "markdown", "source": "# a\\n## b"}'),
    "one cell of many lines": lambda n: _notebook(
        n, '{"source": [\n' + '"a\\n",\n' * (n // 9 - 10) + '"b"]}'
    ),
    "outputs": lambda n: _notebook(n, '{"outputs": [\n{"text": ["a"]}],\n"source": []}'),
    "nested metadata": lambda n: _notebook(n, '{"a": ' + "[" * 50 + "]" * 50 + "}"),
}

CODE: dict[str, Callable[[int], str]] = {
    "opening braces": lambda n: "{" * n,
    "headers without end": lambda n: "@a\n" * (n // 3) + "class A {}",
    "templates": lambda n: "template <class A = B<" * (n // 22) + "{",
    "colons": lambda n: ("): " * 600 + "{}\n") * (n // 1_803),
    "operators": lambda n: "A::operator = (" * (n // 15) + "{",
    "generic types": lambda n: "a<" * (n // 2) + "{",
    "comments": lambda n: "/*" * (n // 2),
    "comments before one line": lambda n: "/**/" * (n // 4) + "\nvoid f() {}\n" * 9,
    "escapes": lambda n: "'\\\"`${" * (n // 6),
    "triple quotes": lambda n: '"""a' * (n // 4) + "\\",
    "raw strings": lambda n: 'r#"a R"x( $a$ ' * (n // 14),
    "regular expressions": lambda n: "=/[" * (n // 3),
    "conditional lines nested": lambda n: "#if a\n{\n" * (n // 18) + "#else\n#endif\n" * (n // 28),
    "indents": lambda n: "".join(" " * (i % 300) + "def f():\n" for i in range(n // 160)),
}

MORE_CODE: dict[str, Callable[[int], str]] = {
    "closing braces": lambda n: "}" * n,
    "nested definitions": lambda n: "class A { f() {\n" * (n // 16),
    "definitions on one line": lambda n: "function f(a){return b}" * (n // 23),
    "definitions never closed": lambda n: "int f(int a) {\n" * (n // 15),
    "margin again and again": lambda n: "fn f() {\n x(\n" * (n // 13),
    "arrows": lambda n: "const a = (b) => (\n" * (n // 19),
    "comment lines": lambda n: "// a\n# a\n-- a\n" * (n // 15) + "def f():\n  a\n",
    "hashes": lambda n: "r" + "#" * (n // 2) + '"' + '"###' * (n // 8),
    "conditional lines": lambda n: "#if a\n{\n#else\n{\n" * (n // 19),
    "decorators": lambda n: "@a(\n" * (n // 4),
    "statements": lambda n: "CREATE TABLE a (b);\n" * (n // 20),
    "functions": lambda n: "function f\n" * (n // 11),
    "spaces": lambda n: "function f" + " " * n + "(",
    "wide comments before braces": lambda n: ("//" + " a" * 900 + "\n = {\n") * (n // 1_810),
    "blanks before braces": lambda n: ("\n " * 900 + "{ = [ : ") * (n // 1_810),
}
"""Hostile to some language, and tried shorter with each."""

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


HOSTILE: dict[str, dict[str, Callable[[int], str]]] = {
    "code": CODE,
    "markdown": MARKDOWN,
    "json": JSON,
    "yaml": YAML,
    "toml": TOML,
    "ini": INI,
    "csv": CSV,
    "notebook": NOTEBOOK,
}

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
    table = LineTable(text)
    for section in sections:
        assert 0 <= section.start_char < section.end_char <= len(text)
        assert section.start_char == 0 or text[section.start_char - 1] == "\n"
        first_line = table.line_of(section.start_char)
        last_line = table.line_of(section.end_char - 1)
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
    before = (0, -len(text))
    for block in parsed.blocks:
        assert 0 <= block.start_char <= block.header_end_char <= block.end_char <= len(text)
        assert block.start_char == 0 or text[block.start_char - 1] == "\n"
        for end in (block.end_char, block.header_end_char):
            assert end == block.start_char or END_OF_LINE.match(text, end)
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
