"""Sections and headings of Markdown."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import cmarkgfm
import pytest

from sqlindex.chunking.chunker import chunk_document
from sqlindex.config import ChunkConfig
from sqlindex.model.documents import ParsedDocument, Section, SectionKind
from sqlindex.parsing import markdown_blocks
from sqlindex.parsing.front_matter import find_front_matter
from sqlindex.parsing.markdown import MarkdownParser
from sqlindex.parsing.sections import MAX_HEADING_CHARS

pytestmark = pytest.mark.req("A-9")


def parse(text: str) -> ParsedDocument:
    return MarkdownParser().parse(text, "markdown")


def headings(text: str) -> list[tuple[str, int]]:
    return [
        (" › ".join(section.heading_path), section.heading_line)
        for section in parse(text).sections
        if section.heading_line
    ]


def section_with(text: str, needle: str) -> Section:
    at = text.index(needle)
    (section,) = [s for s in parse(text).sections if s.start_char <= at < s.end_char]
    return section


D02 = "# Kopf\r\n\r\ntext eins\r\n## Zweites\n\nletzte Worte"


@pytest.mark.req("A-10")
@pytest.mark.parametrize("text", [D02, D02.replace("\r\n", "\n")])
def test_d02_headings_and_lines_are_the_same_with_crlf(text: str) -> None:
    assert headings(text) == [("Kopf", 1), ("Kopf › Zweites", 4)]
    parsed = parse(text)
    chunks = chunk_document(text, parsed, ChunkConfig())
    assert [text[c.start_char : c.end_char] for c in chunks] == [
        text[: text.index("eins") + 4],
        text[text.index("##") :],
    ]
    assert [(c.start_line, c.end_line) for c in chunks] == [(1, 3), (4, 6)]


def test_d03_headings_in_fenced_code_are_none() -> None:
    text = (
        "# Setup\n\n```bash\n# install first\npip install demo\n```\n\ntext\n\n"
        "## Run\n\n~~~\n# not a title\n~~~ruby\n~~~\n\nende\n"
    )
    assert [path for path, _ in headings(text)] == ["Setup", "Setup › Run"]
    assert section_with(text, "install first").heading_path == ("Setup",)
    assert section_with(text, "ende").heading_path == ("Setup", "Run")


def test_d04_setext_headings_and_thematic_breaks_are_told_apart() -> None:
    text = "Einleitung\n---\nerster Absatz\n\n---\n\nzweiter Absatz\n\nKapitel\n===\nText\n"
    assert headings(text) == [("Einleitung", 1), ("Kapitel", 9)]
    first, second = parse(text).sections
    assert (first.level, second.level) == (2, 1)
    assert section_with(text, "zweiter").heading_path == ("Einleitung",)
    assert (first.start_char, second.end_char) == (0, len(text))
    assert first.end_char == second.start_char
    chunks = chunk_document(text, parse(text), ChunkConfig())
    # Blank line 8 ends the first section: no chunk ends in it.
    assert [(c.start_line, c.end_line) for c in chunks] == [(1, 7), (9, 11)]


def test_a_heading_closes_deeper_and_equal_ones() -> None:
    text = "# A\n### B\n## C\n## D\n# E\n"
    assert [path for path, _ in headings(text)] == ["A", "A › B", "A › C", "A › D", "E"]


@pytest.mark.parametrize(
    ("source", "displayed"),
    [
        ("# plain", "plain"),
        ("# *em* __strong__ `co*de`", "em strong co*de"),
        ("# [label](target) and <https://x.y>", "label and https://x.y"),
        ("# a &amp; b &#x2192; \\*c\\*", "a & b → *c*"),
        ("# ![alt](i.png) [[page|alias]]", "alt alias"),
        ("# a <b>c</b>", "a c"),
        ("# <b>c</b>", "c"),
        ('# <a href="x"><img src="y" alt="Das &amp; Logo"></a>', "Das & Logo"),
        ('# <img alt="Logo"> Name', "Name"),
        ("# a {#id}", "a {#id}"),
        ("> a\n> b\n> ---", "a b"),
        ("## closed ##  ", "closed"),
        ("two\nlines  \nhere\n===", "two lines here"),
        ("> # quoted", "quoted"),
        ("- item\n\n  ## inner", "inner"),
        ("1. > > nested\n   > > ---", "nested"),
        ("\ufeff# after a byte-order mark", "after a byte-order mark"),
    ],
)
def test_a_heading_is_named_by_what_it_displays(source: str, displayed: str) -> None:
    assert [path for path, _ in headings(source)] == [displayed]


@pytest.mark.parametrize(
    "source",
    [
        "#no space",
        "    # indented",
        "####### seven",
        "\\# escaped",
        "<!--\n# comment\n-->",
        "a\n\n---",
        "- ```\n  # comment\n  ```",
        "> ~~~\n> # comment\n> ~~~",
        "a <!-- b\nc\n-->",
    ],
)
def test_what_commonmark_takes_for_no_heading_is_none(source: str) -> None:
    assert headings(source) == []


@pytest.mark.data
@pytest.mark.parametrize("name", ["docs-large/tree.tar.gz", "docs-history/new.tar.gz"])
def test_headings_of_real_files_are_those_of_another_commonmark_parser(
    data: Path, name: str
) -> None:
    count = 0
    with tarfile.open(data / name) as archive:
        for member in archive:
            if not member.name.endswith(".md"):
                continue
            file = archive.extractfile(member)
            assert file is not None
            text = file.read().decode("utf-8")
            front_matter = find_front_matter(text)
            body = text[front_matter.end_char :] if front_matter else text
            page = cmarkgfm.markdown_to_html(body)
            levels = [int(level) for level in re.findall(r"<h([1-6])>", page)]
            found = [s.level for s in parse(text).sections if s.heading_line]
            assert found == levels, member.name
            count += len(found)
    assert count > 4_000


def test_an_empty_heading_opens_a_section_without_a_name() -> None:
    assert headings("# A\ntext\n##\nmore\n") == [("A", 1), ("A", 3)]


@pytest.mark.req("A-10")
@pytest.mark.parametrize("separator", ["\r", "\x0c", "\u2028", "\x85", "\x0b", "\x1c", "\u2029"])
def test_only_lf_ends_a_line(separator: str) -> None:
    text = f"one{separator}# two\n\n# three{separator}four\r\nfive{separator}\n# six\n"
    assert [line for _, line in headings(text)] == [3, 5]
    for section in parse(text).sections:
        assert section.start_char == 0 or text[section.start_char - 1] == "\n"
        assert not any(name.endswith("\r") for name in section.heading_path)


def test_headings_after_a_deeply_nested_list_are_found() -> None:
    text = "".join("  " * depth + "- item\n" for depth in range(40)) + "\n# After\n"
    assert headings(text) == [("After", 42)]


def test_text_before_the_first_heading_is_a_section_if_it_is_not_blank() -> None:
    assert [s.level for s in parse("intro\n# A\n").sections] == [0, 1]
    assert [s.level for s in parse("\n\n# A\n").sections] == [1]
    assert parse(" \n\n").sections == ()


def test_three_hundred_headings_make_three_hundred_sections() -> None:
    text = "".join(f"{'#' * (1 + n % 6)} Heading {n}\n\ntext {n}\n\n" for n in range(300))
    assert len(headings(text)) == 300
    assert len(chunk_document(text, parse(text), ChunkConfig())) == 300


def test_a_very_long_heading_is_cut_but_its_text_stays() -> None:
    text = "# " + "w" * 5_000 + "\ntext\n"
    (section,) = parse(text).sections
    assert section.heading_path == ("w" * MAX_HEADING_CHARS,)
    assert section.end_char == len(text)


def test_a_failure_of_markdown_it_leaves_one_section(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str) -> None:
        raise RecursionError

    monkeypatch.setattr(markdown_blocks, "block_structure", fail)
    text = "---\ntitle: T\n---\n# A\ntext\n"
    parsed = parse(text)
    assert [s.kind for s in parsed.sections] == [SectionKind.FRONT_MATTER, SectionKind.BODY]
    assert parsed.sections[-1].end_char == len(text)
    assert parsed.title == "T"


@pytest.mark.req("A-13")
def test_the_title_is_the_first_named_heading_without_front_matter() -> None:
    assert parse("text\n\n#\n## Erste *Wahl*\n# Zweite\n").title == "Erste Wahl"
    assert parse("text\n").title is None
