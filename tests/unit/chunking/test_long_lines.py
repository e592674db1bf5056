"""A line over the token limit becomes windows, where the embedder's policy is `window`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.chunking.chunker import chunk_document
from sqlindex.chunking.embedding_text import embedding_text, lost_heading
from sqlindex.chunking.token_limit import TokenLimit
from sqlindex.config import ChunkConfig
from sqlindex.model.chunks import ChunkSpan, Cut
from sqlindex.model.documents import ParsedDocument, Section

CONFIG = ChunkConfig(target_chars=80, min_chars=20, overlap_lines=1)


def limit_of(tokens: int, *, cuts_lines: bool = True) -> TokenLimit:
    """A token is two bytes."""

    def count(texts: Sequence[str]) -> list[int]:
        return [-(-len(text.encode()) // 2) for text in texts]

    return TokenLimit(tokens, count, "two bytes", cuts_lines)


def cut(text: str, limit: TokenLimit, section: Section | None = None) -> list[ChunkSpan]:
    return chunk_document(
        text, ParsedDocument((section or Section(0, len(text)),), "x"), CONFIG, limit
    )


def bodies(text: str, chunks: Sequence[ChunkSpan]) -> list[str]:
    return [text[chunk.start_char : chunk.end_char] for chunk in chunks]


@pytest.mark.req("A-27")
def test_a_long_line_is_cut_at_spaces_into_windows_of_like_length() -> None:
    line = " ".join(f"word{number}" for number in range(100))
    text = f"before\n\n{line}\n\nafter"
    chunks = cut(text, limit_of(100))
    windows = [body for body in bodies(text, chunks) if body.startswith("word")]
    assert " ".join(windows).split()[:100] == line.split()
    assert all(len(window) <= 200 for window in windows)
    assert min(map(len, windows[:-1])) > 100
    assert len(windows[-1]) > 60
    assert {chunk.cut for chunk in chunks if chunk.start_line == chunk.end_line == 3} >= {
        Cut.TOKENS
    }
    assert all(chunk.is_continuation for chunk in chunks[1:])


@pytest.mark.req("A-27")
def test_without_the_policy_the_line_stays_whole() -> None:
    text = "wort " * 400 + "ende"
    assert bodies(text, cut(text, limit_of(100, cuts_lines=False))) == [text]


@pytest.mark.req("A-27")
def test_a_line_without_spaces_is_cut_where_it_is_full() -> None:
    text = "語" * 1_000
    chunks = cut(text, limit_of(100))
    assert "".join(bodies(text, chunks)) == text
    assert all(len(body.encode()) <= 200 for body in bodies(text, chunks))


@pytest.mark.req("A-27")
def test_the_heading_counts_and_one_that_leaves_no_room_keeps_the_line_whole() -> None:
    text = "wort " * 100 + "ende"
    for words, is_cut in ((4, True), (40, False)):
        heading = "lang " * words
        section = Section(0, len(text), (heading.strip(),), 1, 0)
        chunks = cut(text, limit_of(60), section)
        assert (len(chunks) > 1) is is_cut
        for chunk, body in zip(chunks, bodies(text, chunks), strict=True):
            lost = lost_heading(section.heading_path, 0, chunk.is_continuation)
            assert lost
            assert not is_cut or len(embedding_text(body, heading=lost)) <= 120


@pytest.mark.req("A-11", "A-27")
@given(
    st.lists(
        st.sampled_from(
            ["a b c", "", "x" * 90, "wort " * 30, "\t \u3000" * 40 + "ä" * 50, "é😀 " * 40]
        ),
        max_size=20,
    ),
    st.integers(24, 80),
)
def test_no_word_is_lost_no_window_is_over_the_limit_and_spans_increase(
    lines: list[str], tokens: int
) -> None:
    text = "\n".join(lines)
    limit = limit_of(tokens)
    chunks = cut(text, limit) if text.strip() else []
    covered: set[int] = set()
    for chunk, body in zip(chunks, bodies(text, chunks), strict=True):
        covered.update(range(chunk.start_char, chunk.end_char))
        assert body.strip()
        assert limit.excess(embedding_text(body)) <= 1 or len(body) < 32
        assert text.count("\n", 0, chunk.start_char) + 1 == chunk.start_line
        assert text.count("\n", 0, chunk.end_char - 1) + 1 == chunk.end_line
    assert {at for at, character in enumerate(text) if not character.isspace()} <= covered
    for before, after in itertools.pairwise(chunks):
        assert before.start_char < after.start_char
        assert before.end_char < after.end_char
