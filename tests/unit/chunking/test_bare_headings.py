"""Which sections hold only their heading."""

from __future__ import annotations

import pytest

from sqlindex.chunking.headings import is_direct_descendant, is_heading_only
from sqlindex.model.documents import Section, SectionKind

pytestmark = pytest.mark.req("A-11")


@pytest.mark.parametrize(
    ("text", "is_bare"),
    [
        ("# A", True),
        ("A\n===", True),
        ("A\nB\n---", True),
        ("> A\n> ---", True),
        ("- ## A", True),
        ("# A\ntext", False),
        ("# A\n---", False),
        ("A\n===\ntext", False),
        ("A\n===\ntext\n---", False),
        ("A\n===\n\ntext\n---", False),
    ],
)
def test_a_section_is_bare_if_nothing_follows_its_heading(text: str, is_bare: bool) -> None:
    section = Section(0, len(text), ("A",), 1, 1)
    assert is_heading_only(text, 0, len(text), section) is is_bare


def test_text_before_the_first_heading_is_never_bare() -> None:
    assert not is_heading_only("word", 0, 4, Section(0, 4))


def test_only_a_deeper_body_section_is_a_descendant() -> None:
    parent = Section(0, 4, ("A",), 1, 1)
    assert is_direct_descendant(Section(4, 8, ("A", "B"), 2, 2), parent)
    assert is_direct_descendant(Section(4, 8, ("A", "B"), 3, 2), parent)
    assert not is_direct_descendant(Section(4, 8, ("A",), 1, 2), parent)
    assert not is_direct_descendant(Section(4, 8, ("B", "C"), 2, 2), parent)
    front_matter = Section(4, 8, ("A", "B"), 2, 2, SectionKind.FRONT_MATTER)
    assert not is_direct_descendant(front_matter, parent)
