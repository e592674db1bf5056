"""Texts as they read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.model.documents import Rendered
from sqlindex.rendering import rendered_text, rendered_within

pytestmark = pytest.mark.req("A-10")

TEXT = "Pr&uuml;f<b>ung</b>"
PARTS = (Rendered(2, 8, "ü"), Rendered(9, 12, ""), Rendered(15, 19, ""))


def test_parts_are_put_in_their_places() -> None:
    assert rendered_text(TEXT, PARTS) == "Prüfung"
    assert rendered_text(TEXT, ()) == TEXT


def test_a_part_that_is_cut_reads_where_it_starts() -> None:
    first, second = rendered_within(PARTS, 0, 5), rendered_within(PARTS, 5, len(TEXT))
    assert rendered_text(TEXT[:5], first) == "Prü"
    assert rendered_text(TEXT[5:], second) == "fung"


@given(st.text("ab<>&", max_size=30), st.lists(st.integers(0, 30), max_size=10), st.integers(0, 30))
def test_a_text_reads_as_its_two_halves_do(text: str, marks: list[int], at: int) -> None:
    offsets = sorted({mark for mark in marks if mark <= len(text)})
    parts = [
        Rendered(start, end, "*" if start % 2 else "")
        for start, end in zip(offsets[::2], offsets[1::2], strict=False)
    ]
    at = min(at, len(text))
    halves = (
        rendered_text(text[:at], rendered_within(parts, 0, at)),
        rendered_text(text[at:], rendered_within(parts, at, len(text))),
    )
    assert "".join(halves) == rendered_text(text, parts)
