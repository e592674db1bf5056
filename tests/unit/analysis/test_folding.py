"""Spellings of the same word become the same characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.analysis.folding import fold


@pytest.mark.req("B-7", "D-7")
@pytest.mark.parametrize(
    ("spellings", "folded"),
    [
        (("Straße", "STRASSE", "Strasse", "STRAẞE"), "strasse"),
        (("İZMİR", "izmir", "I\u0307ZMI\u0307R", "İzmir"), "izmir"),
        (("TITLE", "title"), "title"),
        (("Größe", "GRÖSSE", "Gro\u0308ße"), "grösse"),
        (("Donau\u00addampfschiff", "donau\u200bdampfschiff"), "donaudampfschiff"),
        (("ﬁnden", "finden"), "finden"),
        (("３ｍｍ²", "3mm2"), "3mm2"),
        (("ΣΊΣΥΦΟΣ", "σίσυφος"), "σίσυφοσ"),
        (("مُحَمَّد", "محمد", "محمـــد"), "محمد"),
        (("שָׁלוֹם", "שלום"), "שלום"),
        (("ｶﾞｿﾘﾝ", "ガソリン"), "ガソリン"),
    ],
)
def test_spellings_of_one_word_fold_to_one(spellings: tuple[str, ...], folded: str) -> None:
    assert {fold(spelling) for spelling in spellings} == {folded}


def test_a_dotless_i_stays_a_letter_of_its_own() -> None:
    assert fold("KIRIK kırık") == "kirik kırık"


@pytest.mark.req("B-2")
@pytest.mark.parametrize("character", [*map(chr, (0, 1, 0x1B, 0x7F, 0x85, 0xD800, 0xDFFF))])
def test_control_characters_and_lone_surrogates_become_spaces(character: str) -> None:
    assert fold(f"a{character}b") == "a b"
    assert fold(f"ä{character}b") == "ä b"


def test_tabs_and_line_endings_stay() -> None:
    assert fold("A\tb\r\nC") == "a\tb\r\nc"


@given(st.text(max_size=80))
def test_folding_twice_changes_nothing_that_is_encodable(text: str) -> None:
    once = fold(text)
    once.encode("utf-8")
    assert fold(once).split() == once.split()


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_lower_cased(text: str) -> None:
    assert fold(text).split() == fold("ä " + text).split()[1:]
