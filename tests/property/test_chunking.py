"""No line is lost, and every chunk is an exact slice, whatever the text."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlindex.chunking.chunker import chunk_document
from sqlindex.chunking.identity import chunk_id, content_fingerprint, occurrences
from sqlindex.config import ChunkConfig
from sqlindex.model.documents import Block, ParsedDocument, Rendered, Section, SectionKind
from sqlindex.parsing.registry import builtin_parsers

PARTS = [
    *(
        "# A",
        "## B c",
        "###### F",
        "Setext\n===",
        "b\n---",
        "> # q",
        "- item",
        "1. x",
        "#",
        "    code",
    ),
    *("---", "title: x", "tags: [a", "...", "```", "~~~", "}", "};", "def f():", "</div>"),
    *(
        "wort " * 5,
        "e\u0301u\u0308",
        "\U0001f469\u200d\U0001f680",
        "[a](b) [[c]]",
        "\ufeff",
        "漢字かな",
    ),
    *("\r", "\x0c", "\u2028", "\x85", "\x0b", "\t", " ", "  ", "x" * 90),
    *("\n", "\n", "\n", "\r\n", "\n\n", "\r\n\r\n", "\n \n"),
]
texts = st.lists(st.sampled_from(PARTS), max_size=60).map("".join)
configs = st.builds(
    ChunkConfig,
    target_chars=st.integers(40, 200),
    min_chars=st.integers(0, 40),
    overlap_lines=st.integers(0, 4),
)
parser_ids = st.sampled_from(builtin_parsers().ids)
LANGUAGE = {"code": "javascript"}

LARGE = [
    ("markdown", "".join(f"# Heading {n}\n\n" for n in range(300))),
    ("markdown", "".join(f"{'#' * (1 + n % 6)} H{n}\r\ntext\r\n" for n in range(300))),
    (
        "code",
        "".join(f"  call_{n}();{chr(10) + '}' if n % 9 == 0 else ''}\n" for n in range(10_000)),
    ),
    ("text", "kurz\n" + "z" * 350_000 + "\nkurz"),
    ("json", '{"k": "' + "z" * 350_000 + '"}'),
    ("markdown", "---\ntitle: [\n  x: - y\n---\n" + "text\n" * 600),
    ("markdown", "---\n" + "key: value\n" * 9_000 + "---\ntext"),
]


def naive_lines(text: str) -> list[tuple[int, int]]:
    """Spans of the non-blank lines, line endings and CRs before them excluded."""
    spans, start = [], 0
    for line in text.split("\n"):
        if line.strip():
            spans.append((start, start + len(line.rstrip("\r"))))
        start += len(line) + 1
    return spans


def check_chunks(text: str, parser_id: str, config: ChunkConfig) -> None:
    parsed = builtin_parsers().parser(parser_id).parse(text, LANGUAGE.get(parser_id, "x"))
    chunks = chunk_document(text, parsed, config)
    for before, after in pairwise(chunks):
        assert before.start_char < after.start_char
        assert before.end_char < after.end_char
        assert before.section <= after.section
        assert after.is_continuation == (before.section == after.section)
    for chunk in chunks:
        covered = text[chunk.start_char : chunk.end_char]
        assert chunk.start_char == 0 or text[chunk.start_char - 1] == "\n"
        assert covered.split("\n")[0].strip()
        assert covered.split("\n")[-1].strip()
        assert not covered.endswith("\r")
        assert text[chunk.end_char :].lstrip("\r")[:1] in ("", "\n")
        assert chunk.start_line == 1 + text.count("\n", 0, chunk.start_char)
        assert chunk.end_line == 1 + text.count("\n", 0, chunk.end_char)
        section = parsed.sections[chunk.section]
        assert chunk.is_embedded == (section.kind is SectionKind.BODY)
        assert chunk.end_char <= section.end_char
        if chunk.is_continuation:
            assert section.start_char <= chunk.start_char
    # Both lists are in order, so one pass tells whether each line lies in some chunk.
    position = 0
    for start, end in naive_lines(text):
        while chunks[position].end_char < end:
            position += 1
        assert chunks[position].start_char <= start


@pytest.mark.req("A-11", "A-12")
@settings(deadline=None, max_examples=300)
@given(texts, parser_ids, configs)
@example("\ufeff---\n---", "markdown", ChunkConfig())
@example("a\r", "text", ChunkConfig())
def test_every_non_blank_line_lies_in_a_chunk_and_chunks_are_slices(
    text: str, parser_id: str, config: ChunkConfig
) -> None:
    check_chunks(text, parser_id, config)


@pytest.mark.req("A-11")
@pytest.mark.parametrize("config", [ChunkConfig(), ChunkConfig(40, 0, 3), ChunkConfig(300, 300, 0)])
@pytest.mark.parametrize(("parser_id", "text"), LARGE, ids=range(len(LARGE)))
def test_large_and_odd_documents_lose_no_line(
    parser_id: str, text: str, config: ChunkConfig
) -> None:
    check_chunks(text, parser_id, config)


@pytest.mark.req("A-11")
@given(texts, configs)
def test_a_chunk_beyond_the_soft_size_is_one_line_or_took_a_short_rest(
    text: str, config: ChunkConfig
) -> None:
    parsed = builtin_parsers().parser("text").parse(text, "x")
    for chunk in chunk_document(text, parsed, config):
        covered = text[chunk.start_char : chunk.end_char]
        if len(covered) > config.target_chars:
            lines = [len(line) for line in covered.split("\n") if line.strip()]
            rest = len(covered) - config.target_chars
            assert max(lines) > config.target_chars or rest <= config.min_chars + max(lines)


@pytest.mark.req("A-12")
@given(texts, parser_ids)
def test_chunk_ids_are_unique_within_a_document(text: str, parser_id: str) -> None:
    parsed = builtin_parsers().parser(parser_id).parse(text, "x")
    chunks = chunk_document(text, parsed, ChunkConfig(40, 0, 1))
    fingerprints = [content_fingerprint(text[c.start_char : c.end_char]) for c in chunks]
    ids = {
        chunk_id("s", "d", fingerprint, occurrence)
        for fingerprint, occurrence in zip(fingerprints, occurrences(fingerprints), strict=True)
    }
    assert len(ids) == len(chunks)


@pytest.mark.req("A-12")
@given(texts)
def test_an_edit_elsewhere_keeps_the_chunks_of_other_sections(text: str) -> None:
    body = text.replace("\r", " ")
    first = Section(0, len(body), ("A",), 1, 1)
    longer = "added line\n" + body
    moved = Section(11, len(longer), ("A",), 1, 2)
    opening = Section(0, 11)
    spans = _texts(body, (first,))
    assert _texts(longer, (opening, moved))[1:] == spans


def _texts(text: str, sections: tuple[Section, ...]) -> list[str]:
    parsed = ParsedDocument(sections=sections, language="x")
    return [text[c.start_char : c.end_char] for c in chunk_document(text, parsed, ChunkConfig())]


@pytest.mark.req("A-11")
@pytest.mark.parametrize("kind", ["rendered", "blocks"])
def test_the_work_of_cutting_grows_with_the_length(kind: str) -> None:
    """Counted where the parts are: what is visited for each chunk must not grow with the text."""

    class Counted(tuple):  # type: ignore[type-arg]  # of any elements
        visits = 0

        def __getitem__(self, index: Any) -> Any:
            found = super().__getitem__(index)
            Counted.visits += len(found) if isinstance(index, slice) else 1
            return found

    def visits(lines: int) -> int:
        text = "<b>wort</b>\n" * lines
        starts = range(0, len(text), 12)
        sections = tuple(
            Section(at, min(at + 1_200, len(text)), ("H",), 1, at // 12 + 1)
            for at in range(0, len(text), 1_200)
        )
        rendered = Counted(Rendered(at, at + 3, "") for at in starts)
        blocks = Counted(Block(at, at + 11, at) for at in starts)
        parsed = ParsedDocument(
            sections,
            "x",
            rendered=rendered if kind == "rendered" else (),
            blocks=blocks if kind == "blocks" else (),
        )
        Counted.visits = 0
        chunk_document(text, parsed, ChunkConfig(400, 100, 1))
        return Counted.visits

    assert 0 < visits(4_000) < 3 * visits(2_000)
