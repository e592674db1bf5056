"""Blocks stay whole where they fit, their headers go along, and a token limit is kept."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.chunking.chunker import chunk_document
from sqlindex.chunking.token_limit import TokenLimit
from sqlindex.config import ChunkConfig
from sqlindex.model.chunks import ChunkSpan, Cut
from sqlindex.model.documents import Block, ParsedDocument, Rendered, Section, SectionKind

CONFIG = ChunkConfig(target_chars=100, min_chars=20, overlap_lines=0)
PROSE = "Die Pumpe läuft ruhig.\n" * 3
HEADER = "| Teil | Druck |\n|------|-------|"


def rows(count: int) -> str:
    return "".join(f"| K{number:03} | {number % 9} bar |\n" for number in range(count))


def cut(
    text: str,
    *blocks: Block,
    config: ChunkConfig = CONFIG,
    sections: tuple[Section, ...] | None = None,
    limit: TokenLimit | None = None,
    rendered: tuple[Rendered, ...] = (),
) -> list[ChunkSpan]:
    sections = sections or (Section(0, len(text)),)
    parsed = ParsedDocument(sections, "x", blocks=blocks, rendered=rendered)
    return chunk_document(text, parsed, config, limit)


def table(before: str, body: str) -> tuple[str, Block]:
    start = len(before)
    text = f"{before}{HEADER}\n{body}"
    return text, Block(start, len(text.rstrip("\n")), start + len(HEADER))


@pytest.mark.req("A-11")
def test_a_table_that_fits_is_not_cut() -> None:
    text, block = table(PROSE, rows(2))
    assert next(text[c.start_char : c.end_char] for c in cut(text)).endswith("|")
    first, second = cut(text, block)
    assert (first.start_char, first.end_char) == (0, len(PROSE) - 1)
    assert first.cut is Cut.BLOCK
    assert (second.start_char, second.end_char) == (block.start_char, block.end_char)
    assert second.context == ""


@pytest.mark.req("A-11")
def test_a_short_piece_before_a_block_takes_it_along() -> None:
    text, block = table("kurzer Satz\n", rows(3) + "| z |\n")
    assert block.end_char - block.start_char <= 100 < block.end_char
    (only,) = cut(text, block)
    assert (only.start_char, only.end_char) == (0, block.end_char)


@pytest.mark.req("A-11", "A-27")
def test_each_part_of_a_long_table_but_the_first_has_its_header_as_context() -> None:
    text, block = table("", rows(20))
    chunks = cut(text, block)
    assert len(chunks) > 3
    assert chunks[0].context == ""
    assert {chunk.context for chunk in chunks[1:]} == {HEADER}
    assert {chunk.cut for chunk in chunks[:-1]} == {Cut.ITEM}


def test_the_header_of_the_innermost_block_counts() -> None:
    outer, inner = "Name;Wert\n", "a|b\n"
    text = outer + "x;1\n" * 10 + inner + "1|2\n" * 60 + "y;2\n" * 30
    inner_start = len(outer) + 40
    inner_end = inner_start + len(inner) + 240 - 1
    blocks = (
        Block(0, len(text) - 1, len(outer) - 1),
        Block(inner_start, inner_end, inner_start + len(inner) - 1),
    )
    for chunk in cut(text, *blocks):
        if chunk.start_char > inner_end:
            assert chunk.context == "Name;Wert"
        elif chunk.start_char > inner_start + len(inner):
            assert chunk.context == "a|b"


def test_a_header_of_a_page_is_no_context() -> None:
    header = "x" * 2_001
    text = header + "\n" + rows(20)
    assert {c.context for c in cut(text, Block(0, len(text) - 1, len(header)))} == {""}


def test_a_context_is_as_it_reads() -> None:
    text = "<b>Teil</b>\n" + rows(20)
    parts = (Rendered(0, 3, ""), Rendered(7, 11, ""))
    chunks = cut(text, Block(0, len(text) - 1, 11), rendered=parts)
    assert {chunk.context for chunk in chunks[1:]} == {"Teil"}
    assert chunks[0].rendered == parts
    assert chunks[1].rendered == ()


def test_what_reads_as_nothing_is_not_embedded() -> None:
    text = "<br>\n"
    (chunk,) = cut(text, rendered=(Rendered(0, 4, ""),))
    assert not chunk.is_embedded


def test_a_raw_section_is_not_embedded_and_knows_no_limit() -> None:
    text = "wort " * 40
    section = Section(0, len(text), kind=SectionKind.RAW)
    (chunk,) = cut(text, sections=(section,), limit=words(3))
    assert not chunk.is_embedded


def words(limit: int) -> TokenLimit:
    def count(texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    return TokenLimit(limit, count, f"words-{limit}")


@pytest.mark.req("A-11", "A-27")
def test_no_chunk_is_over_the_token_limit_unless_one_line_is() -> None:
    lines = ["a " * (1 + number % 7) for number in range(60)]
    lines[30] = "b " * 25
    text = "\n".join(lines)
    config = ChunkConfig(target_chars=400, min_chars=40, overlap_lines=1)
    chunks = cut(text, config=config, limit=words(20))
    for chunk in chunks:
        covered = text[chunk.start_char : chunk.end_char]
        assert len(covered.split()) <= 20 or "\n" not in covered
    assert sum("b" in text[c.start_char : c.end_char] for c in chunks) <= 2
    assert Cut.TOKENS in {chunk.cut for chunk in chunks}
    assert len(cut(text, config=config)) < len(chunks)


def test_the_heading_in_front_counts_against_the_limit() -> None:
    text = "# H\n" + "eins zwei drei\n" * 12
    section = Section(0, len(text), ("ein langer Name der Überschrift",), 1, 1)
    config = ChunkConfig(target_chars=60, min_chars=0, overlap_lines=0)
    for chunk in cut(text, config=config, sections=(section,), limit=words(12)):
        covered = text[chunk.start_char : chunk.end_char]
        heading = 5 if chunk.is_continuation else 0
        assert len(covered.split()) + heading <= 12


@pytest.mark.req("A-11")
@given(
    st.lists(st.sampled_from(["a b c", "x", "", "| r | s |", "wort " * 30]), max_size=50),
    st.integers(1, 40),
    st.integers(0, 3),
)
def test_with_a_limit_no_line_is_lost_and_spans_increase(
    lines: list[str], limit: int, overlap: int
) -> None:
    text = "\n".join(lines)
    config = ChunkConfig(target_chars=80, min_chars=20, overlap_lines=overlap)
    chunks = cut(text, config=config, limit=words(limit)) if text.strip() else []
    covered = {n for c in chunks for n in range(c.start_line, c.end_line + 1)}
    assert {n for n, line in enumerate(lines, 1) if line.strip()} <= covered
    for before, after in itertools.pairwise(chunks):
        assert before.start_char < after.start_char
        assert before.end_char < after.end_char
