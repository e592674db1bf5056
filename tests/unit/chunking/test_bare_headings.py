"""Which sections hold only their heading."""

from __future__ import annotations

import pytest

from sqlindex.chunking.chunker import chunk_document
from sqlindex.chunking.headings import is_direct_descendant
from sqlindex.config import ChunkConfig
from sqlindex.model.documents import Section, SectionKind
from sqlindex.parsing.registry import builtin_parsers
from sqlindex.parsing.sections import MAX_HEADINGS

pytestmark = pytest.mark.req("A-11")


@pytest.mark.parametrize(
    ("parser_id", "text", "is_bare"),
    [
        ("markdown", "# A", True),
        ("markdown", "A\n===", True),
        ("markdown", "A\nB\n---", True),
        ("markdown", "> A\n> ---", True),
        ("markdown", "- ## A\n\n", True),
        ("markdown", "# A\ntext", False),
        ("markdown", "# A\n---", False),
        ("markdown", "A\n===\ntext", False),
        ("markdown", "A\n===\ntext\n\n---", False),
        ("rst", "A\n~~~\n\n", True),
        ("rst", "===\n A\n===\n", True),
        ("rst", "A\n~~~\ntext", False),
        ("org", "* A :tag:\n", True),
        ("org", "* A\ntext", False),
        ("html", "<h1>A</h1>\n", True),
        ("html", "<h1>A</h1><p>text</p>", False),
        ("html", "<h1>A</h1>\ntext", False),
        ("tex", "\\section*{A}\n", True),
        ("tex", "\\section[a]{A}text", False),
    ],
)
def test_a_section_is_bare_if_nothing_follows_its_heading(
    parser_id: str, text: str, is_bare: bool
) -> None:
    (section,) = builtin_parsers().parser(parser_id).parse(text, parser_id).sections
    assert section.heading_path
    assert section.is_bare is is_bare


def test_a_bare_heading_joins_the_section_right_below_it() -> None:
    text = "Teil\n====\n\nKapitel\n-------\n\nEs läuft.\n"
    parsed = builtin_parsers().parser("rst").parse(text, "rst")
    (chunk,) = chunk_document(text, parsed, ChunkConfig())
    assert (chunk.start_line, chunk.end_line) == (1, 7)
    assert parsed.sections[chunk.section].heading_path == ("Teil", "Kapitel")


def test_only_a_deeper_body_section_is_a_descendant() -> None:
    parent = Section(0, 4, ("A",), 1, 1)
    assert is_direct_descendant(Section(4, 8, ("A", "B"), 2, 2), parent)
    assert is_direct_descendant(Section(4, 8, ("A", "B"), 3, 2), parent)
    assert not is_direct_descendant(Section(4, 8, ("A",), 1, 2), parent)
    assert not is_direct_descendant(Section(4, 8, ("B", "C"), 2, 2), parent)
    front_matter = Section(4, 8, ("A", "B"), 2, 2, SectionKind.FRONT_MATTER)
    assert not is_direct_descendant(front_matter, parent)


@pytest.mark.req("A-9", "A-11")
@pytest.mark.parametrize(
    ("parser_id", "heading"),
    [("markdown", "# a\n"), ("markdown", "a\n=\n"), ("rst", "a\n=\n"), ("org", "* a\n")],
)
def test_headings_beyond_any_real_text_begin_no_section_and_lose_no_line(
    parser_id: str, heading: str
) -> None:
    text = heading * (MAX_HEADINGS + 5_000) + "ende\n"
    parsed = builtin_parsers().parser(parser_id).parse(text, "x")
    assert len(parsed.sections) == MAX_HEADINGS
    chunks = chunk_document(text, parsed, ChunkConfig())
    assert text[chunks[-1].start_char : chunks[-1].end_char].endswith("ende")
    covered = 1
    for chunk in chunks:
        assert chunk.start_line <= covered
        covered = chunk.end_line + 1
