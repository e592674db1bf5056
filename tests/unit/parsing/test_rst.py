"""reStructuredText: titles, links, blocks and the fields at the top."""

from __future__ import annotations

import pytest

from sqlindex.model.documents import ParsedDocument
from sqlindex.parsing.rst import RstParser
from tests.unit.parsing import shown

pytestmark = pytest.mark.req("A-7", "A-10")


def parse(text: str) -> ParsedDocument:
    return RstParser().parse(text, "rst")


def headings(text: str) -> list[tuple[int, int, str]]:
    return shown.headings(parse(text))


def blocks(text: str) -> list[tuple[str, str]]:
    return shown.blocks(text, parse(text))


def test_levels_are_the_order_in_which_adornments_appear() -> None:
    text = "=====\n Top\n=====\n\nA\n=\n\nB\n~~~\n\nC\n===\n\n===\nD\n===\n"
    assert headings(text) == [
        (1, 2, "Top"),
        (2, 5, "Top › A"),
        (3, 8, "Top › A › B"),
        (2, 11, "Top › C"),
        (1, 15, "D"),
    ]
    starts = [text[s.start_char : s.end_char].split("\n")[0] for s in parse(text).sections]
    assert starts == ["=====", "A", "B", "C", "==="]


@pytest.mark.parametrize(
    "text",
    [
        "Longer\n---\n",
        "two lines\nof text\n=======\n",
        "x::\n\n  A\n  ===\n",
        "x::\n\n> A\n> ===\n",
        ".. comment\n   A\n   ===\n",
        ".. code-block:: rst\n\n   A\n   ===\n",
        "- A\n=====\n",
        ">>> A\n=====\n",
        "====\n\n----\n",
        "====\nA\n----\n",
        "====\nA\n",
        "== ==\nA   B\n== ==\n1   2\n== ==\n",
        "+---+\n| A |\n+---+\n",
        "  A\n  =\n",
    ],
)
def test_what_is_no_title(text: str) -> None:
    assert headings(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Long title\n----\n", "Long title"),
        ("1. One\n------\n", "1. One"),
        ("漢字\n----\n", "漢字"),
        ("``code`` and *it*\n=================\n", "code and it"),
        (":ref:`Text <target>` of `x`_\n============================\n", "Text of x"),
        ("A\\*b\\_c name_ [#n]_ [Me]_\n========================\n", "A*b_c name Me"),
        ("In _`place` it is\n=================\n", "In place it is"),
        ("A_<B>_C\r\n=======\r\n", "A_<B>_C"),
        ("A\n=", "A"),
    ],
)
def test_a_title_is_what_it_displays(text: str, name: str) -> None:
    assert [found for _, _, found in headings(text)] == [name]


def test_titles_follow_literal_text_that_ends() -> None:
    text = "x::\n\n  lit\n\nA\n=\n\ny::\n\n> q\n\nB\n=\n"
    assert [name for _, _, name in headings(text)] == ["A", "B"]


def test_links_are_references_with_a_target_roles_and_named_targets() -> None:
    text = (
        "See `the\nsite <http://a.b/\n  c>`_ and :doc:`guide` or :std:ref:`Label <x>`.\n\n"
        "  .. _Py thon: http://python.org\n.. _here:\n.. _alias: other_\n\n"
        "``no `a <b>`_`` :class:`no`\n\n.. `no <c>`_\n\nx::\n\n  `no <d>`_\n"
    )
    links = parse(text).links
    assert [(link.target, link.label) for link in links] == [
        ("http://a.b/c", "the site"),
        ("guide", "guide"),
        ("x", "Label"),
        ("http://python.org", "Py thon"),
    ]
    assert [text[link.start_char] for link in links] == ["`", ":", ":", "."]


def test_literal_text_is_a_block() -> None:
    assert blocks("a::\n\n   x\n\n   y\n\nb\n") == [("   x\n\n   y", "")]
    assert blocks(".. code:: py\n\n   x\n\nb") == [(".. code:: py\n\n   x", "")]
    assert blocks("- a::\n\n    x\n\n  b") == [("    x", "")]
    assert blocks(">>> 1\n1\n\n") == [(">>> 1\n1", "")]


def test_tables_are_blocks_with_their_head() -> None:
    grid = "+---+\r\n| a |\r\n+===+"
    assert blocks(f"{grid}\r\n| 1 |\r\n+---+\r\n") == [(f"{grid}\r\n| 1 |\r\n+---+", grid)]
    simple = "== ==\na  b\n== =="
    assert blocks(f"{simple}\n1  2\n\n3  4\n== ==\n\nx") == [
        (f"{simple}\n1  2\n\n3  4\n== ==", simple)
    ]
    assert blocks("== ==\n1  2\n== ==\n") == [("== ==\n1  2\n== ==", "")]
    head = ".. list-table:: T\n   :header-rows: 1\n\n   * - a\n     - b"
    assert blocks(f"{head}\n   * - 1\n     - 2\n\nx") == [(f"{head}\n   * - 1\n     - 2", head)]


def test_fields_at_the_top_are_metadata() -> None:
    parsed = parse("Name\n====\n\n:Date: 2026-01-02\n:tags: a b, c,\n  d\n:author: me\n\ntext\n")
    assert (parsed.title, parsed.date, parsed.tags) == ("Name", "2026-01-02", ("a b", "c", "d"))
    assert parse(":title: T\n\nName\n====\n").title == "T"
    assert parse("text\n\n:date: 2026-01-02\n").date is None
