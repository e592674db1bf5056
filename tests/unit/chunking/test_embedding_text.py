"""What an embedder gets for a chunk."""

from __future__ import annotations

import pytest

from sqlindex.chunking.embedding_text import embedding_key, embedding_text

pytestmark = pytest.mark.req("A-27")


def test_a_first_chunk_is_its_body_alone() -> None:
    assert embedding_text("# Pumpe\ntext", "Pumpe", is_continuation=False) == "# Pumpe\ntext"


def test_a_continuation_gets_its_heading_and_a_blank_line() -> None:
    assert embedding_text("mehr text", "Pumpe", is_continuation=True) == "Pumpe\n\nmehr text"


def test_a_continuation_without_heading_is_its_body() -> None:
    assert embedding_text("mehr text", "", is_continuation=True) == "mehr text"


def test_a_heading_repeated_by_the_overlap_is_not_doubled() -> None:
    text = "## Pumpe ##\r\nmehr"
    assert embedding_text(text, "Pumpe", is_continuation=True) == "## Pumpe ##\nmehr"


@pytest.mark.req("A-10")
def test_line_endings_and_unicode_are_normalised() -> None:
    text = "Gro\u0308ße\r\nalt\rneu"
    assert embedding_text(text, "", is_continuation=False) == "Größe\nalt\nneu"


def test_keys_are_32_bytes_and_differ_with_the_text() -> None:
    assert len(embedding_key("")) == 32
    assert embedding_key("a") != embedding_key("b")


def test_the_key_changes_only_with_the_input_version() -> None:
    assert (
        embedding_key("Größe").hex()
        == "b1426fda51af836b43e39178d4a6ee19b8abc3817f2ec7816b101fa12660d002"
    )
