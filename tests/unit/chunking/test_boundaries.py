"""Which cuts between lines are better than others."""

from __future__ import annotations

import pytest

from sqlindex.chunking.boundaries import (
    AFTER_BLANK,
    AFTER_CLOSING_BRACE,
    AFTER_INDENTED_BLANK,
    BEFORE_START,
    INSIDE,
    boundary_strength,
)

pytestmark = pytest.mark.req("A-11")


def test_boundaries_are_ordered_from_running_text_to_blank_lines() -> None:
    assert INSIDE < BEFORE_START < AFTER_INDENTED_BLANK < AFTER_CLOSING_BRACE < AFTER_BLANK


@pytest.mark.parametrize(
    ("previous", "following", "strength"),
    [
        ("some running", "text", INSIDE),
        ("}", "next", AFTER_CLOSING_BRACE),
        ("});", "next", AFTER_CLOSING_BRACE),
        ("};", "next", AFTER_CLOSING_BRACE),
        ("end", "next", AFTER_CLOSING_BRACE),
        ("    }", "    next", BEFORE_START),
        ("text", "- item", BEFORE_START),
        ("text", "12. item", BEFORE_START),
        ("text", "(1) Absatz", BEFORE_START),
        ("text", "    def method(self):", BEFORE_START),
        ("text", "export async function run() {", BEFORE_START),
        ("text", "defer the rest", INSIDE),
    ],
)
def test_strength_of_a_cut_without_blank_lines(
    previous: str, following: str, strength: int
) -> None:
    assert boundary_strength(previous, following, is_blank_between=False) == strength


def test_a_blank_line_before_the_margin_is_best() -> None:
    assert boundary_strength("a", "b", is_blank_between=True) == AFTER_BLANK
    assert boundary_strength("a", "    b", is_blank_between=True) == AFTER_INDENTED_BLANK
