"""What an embedder gets for a chunk."""

from __future__ import annotations

import pytest

from sqlindex.chunking.embedding_text import embedding_key, embedding_text, lost_heading

pytestmark = pytest.mark.req("A-27")


def test_a_first_chunk_is_its_body_alone() -> None:
    assert embedding_text("# Pumpe\ntext") == "# Pumpe\ntext"
    assert lost_heading(("Pumpe",), 1, is_continuation=False) == ""


def test_a_continuation_gets_its_innermost_heading_and_a_blank_line() -> None:
    heading = lost_heading(("Anlage", "Pumpe"), 4, is_continuation=True)
    assert embedding_text("mehr text", heading=heading) == "Pumpe\n\nmehr text"


def test_a_section_below_its_heading_gets_it_too() -> None:
    # What stands in a class after its last method.
    assert lost_heading(("Valve",), 0, is_continuation=False) == "Valve"


def test_a_continuation_without_heading_is_its_body() -> None:
    heading = lost_heading((), 0, is_continuation=True)
    assert embedding_text("mehr text", heading=heading) == "mehr text"


def test_a_heading_repeated_by_the_overlap_is_not_doubled() -> None:
    assert embedding_text("## Pumpe ##\r\nmehr", heading="Pumpe") == "## Pumpe ##\nmehr"


def test_the_header_of_a_cut_table_stands_between_heading_and_rows() -> None:
    found = embedding_text("K7;12", heading="Ventile", context="Name;Druck")
    assert found == "Ventile\n\nName;Druck\nK7;12"


@pytest.mark.req("A-10")
def test_line_endings_and_unicode_are_normalised() -> None:
    assert embedding_text("Gro\u0308ße\r\nalt\rneu") == "Größe\nalt\nneu"


def test_keys_are_32_bytes_and_differ_with_the_text() -> None:
    assert len(embedding_key("")) == 32
    assert embedding_key("a") != embedding_key("b")


def test_the_key_changes_only_with_the_input_version() -> None:
    assert (
        embedding_key("Größe").hex()
        == "4d8b98f2d21d8fa23c361aac62a49b98b7eaf7a6ba0d04d1cb4fd58baaafbf2c"
    )
