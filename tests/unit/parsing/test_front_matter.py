"""Front matter of Markdown."""

from __future__ import annotations

import pytest

from sqlindex.chunking.chunker import chunk_document
from sqlindex.config import ChunkConfig
from sqlindex.model.documents import ParsedDocument, SectionKind
from sqlindex.parsing.front_matter import MAX_FRONT_MATTER_CHARS, find_front_matter
from sqlindex.parsing.markdown import MarkdownParser

pytestmark = pytest.mark.req("A-9")


def parse(text: str) -> ParsedDocument:
    return MarkdownParser().parse(text, "markdown")


def with_front_matter(yaml: str) -> ParsedDocument:
    return parse(f"---\n{yaml}\n---\n# Body\n")


def test_metadata_is_read_and_the_raw_text_kept() -> None:
    raw = 'title: "Die  Pumpe"\ndate: 2024-01-05\ntags: [on, "#wartung", 2024, on]\n'
    parsed = parse(f"---\n{raw}---\n# Body\n")
    assert parsed.title == "Die Pumpe"
    assert parsed.date == "2024-01-05"
    assert parsed.tags == ("on", "wartung", "2024")
    assert parsed.front_matter == raw


@pytest.mark.parametrize("closing", ["---", "...", "---  "])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_front_matter_is_outside_of_body_chunks(closing: str, line_end: str) -> None:
    text = line_end.join(["---", "title: x", closing, "body", ""])
    parsed = parse(text)
    front, body = chunk_document(text, parsed, ChunkConfig())
    assert parsed.sections[front.section].kind is SectionKind.FRONT_MATTER
    assert (front.start_line, front.end_line, front.is_embedded) == (1, 3, False)
    assert text[body.start_char : body.end_char] == "body"
    assert body.is_embedded


@pytest.mark.parametrize(
    ("yaml", "tags"),
    [
        ("tags: a,#b, c d", ("a", "b", "c d")),
        ('tags: "a, #b, c d"', ("a", "b", "c d")),
        ("tags: eins zwei eins", ("eins", "zwei")),
        ("tags:\n  - '#x/y'\n  - z", ("x/y", "z")),
        ("tags: [[nested], {a: b}, ok, '', ~]", ("ok",)),
        ("tags:", ()),
        ("tags: {a: b}", ()),
        ("Tags: großgeschrieben", ("großgeschrieben",)),
    ],
)
def test_tags_are_a_list_or_a_string(yaml: str, tags: tuple[str, ...]) -> None:
    assert with_front_matter(yaml).tags == tags


@pytest.mark.parametrize(
    ("date", "iso"),
    [
        ("2024-01-05", "2024-01-05"),
        ("2024-1-5", "2024-01-05"),
        ("2024-01-05T10:30:00Z", "2024-01-05T10:30:00+00:00"),
        ("2015-11-17 16:16:01 -0600", "2015-11-17T16:16:01-06:00"),
        ("2024-01-05 25:00:00", "2024-01-05"),
        ("2024-02-30", None),
        ("5. Januar 2024", None),
        ("[2024-01-05]", None),
    ],
)
def test_a_date_becomes_iso_8601(date: str, iso: str | None) -> None:
    assert with_front_matter(f"date: {date}").date == iso


@pytest.mark.parametrize("title", ["~", "null", "", "[a, b]", "{a: b}", "'  '"])
def test_a_title_that_is_no_text_gives_way_to_the_first_heading(title: str) -> None:
    assert with_front_matter(f"title: {title}").title == "Body"


@pytest.mark.req("A-11")
@pytest.mark.parametrize(
    "yaml",
    [
        "title: [",
        "title: x\n  date: y\n z",
        "title: \t- a: b: c",
        "title: x\x01",
        "title: &a [x]\n" + "".join(f"k{n}: &k{n} [*a, *a]\n" for n in range(30)),
        "title: " + "[" * 200 + "]" * 200,
        "title: " + "[" * 60_000,
        "a: x\n? [b]\n: y",
    ],
)
def test_malformed_front_matter_is_body_text_without_metadata(yaml: str) -> None:
    text = f"---\n{yaml}\ntags: x\n---\n# Body\ntext\n"
    parsed = parse(text)
    assert (parsed.title, parsed.tags, parsed.front_matter) == ("Body", (), "")
    assert [(s.kind, s.level) for s in parsed.sections] == [
        (SectionKind.BODY, 0),
        (SectionKind.BODY, 1),
    ]
    chunks = chunk_document(text, parsed, ChunkConfig())
    assert chunks[0].start_char == 0
    assert all(chunk.is_embedded for chunk in chunks)


@pytest.mark.parametrize(
    "text",
    [
        "---\n\ntext\n",
        "---\ntitle: x\n",
        " ---\ntitle: x\n---\n",
        "text\n---\ntitle: x\n---\n",
        "--- x\ntitle: x\n---\n",
        "---\ntitle: " + "x" * MAX_FRONT_MATTER_CHARS + "\n---\n",
        "---\n\nProse between breaks\n\n---\n\nmore\n",
    ],
)
def test_what_is_no_front_matter(text: str) -> None:
    assert find_front_matter(text) is None
    assert parse(text).front_matter == ""
    assert all(s.kind is SectionKind.BODY for s in parse(text).sections)


@pytest.mark.parametrize(
    "text", ["---\n---\n", "---\n# comment\n---", "\ufeff---\ntitle: x\n---\n"]
)
def test_empty_front_matter_and_a_byte_order_mark_are_fine(text: str) -> None:
    (section,) = parse(text).sections
    assert section.kind is SectionKind.FRONT_MATTER
    assert section.end_char == len(text)


def test_line_numbers_after_front_matter_count_from_the_top() -> None:
    parsed = parse("---\ntitle: x\n---\n\n# A\n")
    assert parsed.sections[-1].heading_line == 5


@pytest.mark.req("A-9")
@pytest.mark.parametrize(
    ("lines", "aliases"),
    [
        ("aliases: [Alte  Seite, 'B, C', Alte Seite, null]", ("Alte Seite", "B, C")),
        ("Aliases:\n  - eins\n  - 2", ("eins", "2")),
        ("ALIAS: eins, zwei drei", ("eins", "zwei drei")),
        ("aliases: {a: b}", ()),
        ("aliases:", ()),
    ],
)
def test_aliases_are_a_list_or_a_text(lines: str, aliases: tuple[str, ...]) -> None:
    found = find_front_matter(f"---\n{lines}\n---\n")
    assert found is not None
    assert found.aliases == aliases
