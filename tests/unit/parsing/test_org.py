"""Org: headlines, links, blocks and the keywords of the file."""

from __future__ import annotations

import pytest

from sqlindex.model.documents import ParsedDocument
from sqlindex.parsing.org import OrgParser
from tests.unit.parsing import shown

pytestmark = pytest.mark.req("A-7", "A-10")


def parse(text: str) -> ParsedDocument:
    return OrgParser().parse(text, "org")


def headings(text: str) -> list[tuple[int, int, str]]:
    return shown.headings(parse(text))


def blocks(text: str) -> list[tuple[str, str]]:
    return shown.blocks(text, parse(text))


def test_headlines_are_sections_by_their_stars() -> None:
    text = "intro\n* A\nx\n*** B\n** C\n*bold* text\n *no\n* D\n"
    assert headings(text) == [(1, 2, "A"), (3, 4, "A › B"), (2, 5, "A › C"), (1, 8, "D")]
    assert parse(text).sections[0].heading_path == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("* TODO [#A] Call   her :work:@home:", "Call her"),
        ("* DONE", ""),
        ("* TODOS stay", "TODOS stay"),
        ("* COMMENT Draft\t:a:", "Draft"),
        ("* Time 10:30: now", "Time 10:30: now"),
        ("* See [[http://x][the page]] and [[id]]\r", "See the page and id"),
        ("* NEXT thing", "NEXT thing"),
    ],
)
def test_a_headline_reads_without_state_priority_and_tags(line: str, name: str) -> None:
    assert headings(line + "\ntext")[0][2] == name


def test_a_file_names_its_own_states() -> None:
    text = "#+TODO: NEXT(n!) WAIT | OVER\n* NEXT a\n* OVER b\n* TODO c\n"
    assert [name for _, _, name in headings(text)] == ["a", "b", "TODO c"]


def test_blocks_hide_headlines_and_verbatim_ones_links() -> None:
    source = "#+begin_src org\n* no\n[[no]]\n#+END_SRC"
    quote = "  #+BEGIN_QUOTE\n[[yes]]\n  #+END_QUOTE"
    text = f"* A\n{source}\n{quote}\n#+BEGIN_EXAMPLE\n* B\n"
    assert [name for _, _, name in headings(text)] == ["A", "B"]
    assert blocks(text) == [(source, ""), (quote, "")]
    assert [link.target for link in parse(text).links] == ["yes"]


def test_tables_and_fixed_width_lines_are_blocks() -> None:
    head = "|---|\n| a |\n|---|"
    assert blocks(f"x\n{head}\n| 1 |\n#+TBLFM: $1=1\n") == [(f"{head}\n| 1 |", head)]
    assert blocks("| a |\r\n| 1 |\r\n") == [("| a |\r\n| 1 |", "")]
    assert blocks("  : a\n  :\n  : b\nx") == [("  : a\n  :\n  : b", "")]


def test_links_have_target_label_and_place() -> None:
    text = (
        "[[file:a.org::*X][the\nfile]] [[b]] <https://c.d> <2026-01-01 Thu>\n# [[no]]\n"
        "* H\n:PROPERTIES:\n:URL: [[no]]\n:END:\n: [[no]]\n| [[t][T]] |\n"
    )
    links = parse(text).links
    assert [(link.target, link.label) for link in links] == [
        ("file:a.org::*X", "the file"),
        ("b", "b"),
        ("https://c.d", "https://c.d"),
        ("t", "T"),
    ]
    assert all(text[link.start_char] in "[<" for link in links)


def test_keywords_of_the_file_are_metadata() -> None:
    parsed = parse(
        "#+title: Two\n#+TITLE: parts\n#+DATE: <2026-02-03 Tue 9:05>\n#+FILETAGS: :a:b:\n"
        "#+filetags: c a\n* H :d:\n"
    )
    assert (parsed.title, parsed.date) == ("Two parts", "2026-02-03T09:05:00")
    assert parsed.tags == ("a", "b", "c")
    assert parse("* H\n").title == "H"
    assert parse("#+DATE: soon\n").date is None
