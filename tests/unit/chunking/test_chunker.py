"""How documents are cut into chunks."""

from __future__ import annotations

import pytest

from sqlindex.chunking.chunker import chunk_document
from sqlindex.config import ChunkConfig
from sqlindex.model.chunks import ChunkSpan
from sqlindex.model.documents import ParsedDocument, Section, SectionKind

SMALL = ChunkConfig(target_chars=40, min_chars=10, overlap_lines=1)


def chunks_of(
    text: str, config: ChunkConfig = SMALL, sections: tuple[Section, ...] | None = None
) -> list[ChunkSpan]:
    sections = (Section(0, len(text)),) if sections is None else sections
    return chunk_document(text, ParsedDocument(sections=sections, language="text"), config)


def texts_of(text: str, config: ChunkConfig = SMALL) -> list[str]:
    return [text[chunk.start_char : chunk.end_char] for chunk in chunks_of(text, config)]


@pytest.mark.req("A-12")
def test_d01_repeated_lines_keep_exact_and_distinct_spans() -> None:
    text = "pump pressure low\n" * 40 + "valve K7 replaced\n" + "pump pressure low\n" * 40
    config = ChunkConfig(target_chars=40, min_chars=0, overlap_lines=1)
    chunks = chunks_of(text, config)
    lines = text.split("\n")
    for chunk in chunks:
        covered = text[chunk.start_char : chunk.end_char]
        assert covered == "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
    starts = [chunk.start_char for chunk in chunks]
    assert starts == sorted(set(starts))
    assert any(chunk.start_line <= 41 <= chunk.end_line for chunk in chunks)
    hits = [chunk for chunk in chunks if "K7" in text[chunk.start_char : chunk.end_char]]
    assert hits
    assert all(chunk.start_line <= 41 <= chunk.end_line for chunk in hits)


@pytest.mark.req("A-11")
def test_a_short_text_is_one_chunk_trimmed_to_its_non_blank_lines() -> None:
    text = "\n \n  eins\nzwei  \n\t\n"
    assert chunks_of(text) == [ChunkSpan(3, 16, 3, 4, 0, False)]
    assert texts_of(text) == ["  eins\nzwei  "]


def test_a_blank_text_has_no_chunk() -> None:
    assert chunks_of(" \n\n\x0c\n\u2028") == []


@pytest.mark.req("A-10")
def test_line_endings_inside_stay_and_the_one_at_the_end_goes() -> None:
    assert texts_of("eins\r\nzwei\r\n") == ["eins\r\nzwei"]
    assert texts_of("alt\rmac\r") == ["alt\rmac"]


@pytest.mark.req("A-11")
def test_a_continuation_repeats_the_overlap_lines() -> None:
    text = "\n".join(f"line {n:02} xxxx" for n in range(1, 8))
    chunks = chunks_of(text)
    assert [(c.start_line, c.end_line) for c in chunks] == [(1, 3), (3, 5), (5, 7)]
    assert [c.is_continuation for c in chunks] == [False, True, True]


@pytest.mark.req("A-11")
def test_without_overlap_the_pieces_meet() -> None:
    text = "\n".join(f"line {n:02} xxxx" for n in range(1, 7))
    chunks = chunks_of(text, ChunkConfig(target_chars=40, min_chars=10, overlap_lines=0))
    assert [(c.start_line, c.end_line) for c in chunks] == [(1, 3), (4, 6)]


@pytest.mark.req("A-11")
def test_large_overlap_still_makes_progress() -> None:
    text = "ab\n" * 60
    chunks = chunks_of(text, ChunkConfig(target_chars=40, min_chars=0, overlap_lines=50))
    starts = [c.start_char for c in chunks]
    ends = [c.end_char for c in chunks]
    assert starts == sorted(set(starts))
    assert ends == sorted(set(ends))
    assert ends[-1] == len(text) - 1


@pytest.mark.req("A-11")
def test_a_cut_falls_after_a_blank_line_rather_than_at_the_size() -> None:
    text = "eins eins eins\nzwei zwei\n\ndrei\nvier vier vier vier\nfünf fünf fünf"
    assert texts_of(text)[0] == "eins eins eins\nzwei zwei"


@pytest.mark.req("A-11")
def test_a_cut_falls_after_a_closing_brace_at_the_margin() -> None:
    text = "fn a() {\n  one();\n  two();\n}\nlet b = 1;\nlet c = 2;\nlet d = 3;\nlet e = 4;"
    assert texts_of(text)[0] == "fn a() {\n  one();\n  two();\n}"


@pytest.mark.req("A-11")
def test_a_long_line_stays_one_chunk_of_its_own() -> None:
    long_line = "x" * 350_000
    text = f"kurz kurz kurz\n{long_line}\nnoch eine Zeile\n"
    assert texts_of(text) == ["kurz kurz kurz", long_line, "noch eine Zeile"]


@pytest.mark.req("A-11")
def test_a_short_last_piece_joins_the_one_before() -> None:
    text = "zwanzig Zeichen hier\nund noch einmal so\nkurz"
    assert texts_of(text) == [text]


@pytest.mark.req("A-11")
def test_a_chunk_stays_within_its_section() -> None:
    text = "# A\neins\n# B\nzwei\n"
    sections = (Section(0, 9, ("A",), 1, 1), Section(9, 18, ("B",), 1, 3))
    chunks = chunks_of(text, ChunkConfig(), sections)
    assert [(c.section, c.start_line, c.end_line) for c in chunks] == [(0, 1, 2), (1, 3, 4)]


@pytest.mark.req("A-11")
def test_bare_headings_join_the_section_below_them() -> None:
    text = "# A\n\n## B\n\n### C\ntext\n"
    sections = (
        Section(0, 5, ("A",), 1, 1, is_bare=True),
        Section(5, 11, ("A", "B"), 2, 3, is_bare=True),
        Section(11, len(text), ("A", "B", "C"), 3, 5),
    )
    (chunk,) = chunks_of(text, ChunkConfig(), sections)
    assert (chunk.section, chunk.start_line, chunk.end_line) == (2, 1, 6)
    assert not chunk.is_continuation


@pytest.mark.req("A-11")
def test_a_bare_heading_before_a_sibling_is_a_chunk() -> None:
    text = "# A\n# B\ntext\n"
    sections = (Section(0, 4, ("A",), 1, 1, is_bare=True), Section(4, 13, ("B",), 1, 2))
    assert [c.section for c in chunks_of(text, ChunkConfig(), sections)] == [0, 1]


@pytest.mark.req("A-9")
def test_front_matter_is_a_chunk_without_a_vector() -> None:
    text = "---\ntags: x\n---\ntext\n"
    sections = (Section(0, 16, kind=SectionKind.FRONT_MATTER), Section(16, len(text)))
    chunks = chunks_of(text, ChunkConfig(), sections)
    assert [(c.start_line, c.end_line, c.is_embedded) for c in chunks] == [
        (1, 3, False),
        (4, 4, True),
    ]


@pytest.mark.req("A-11")
def test_a_short_line_before_a_line_longer_than_the_target_does_not_stand_alone() -> None:
    text = "A title\n\n" + "abstract " * 300 + "\n\n" + "tail " * 100 + "\n"
    spans = chunks_of(text, ChunkConfig())
    assert [(s.start_line, s.end_line) for s in spans] == [(1, 3), (5, 5)]
