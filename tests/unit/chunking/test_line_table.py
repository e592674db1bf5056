"""Line numbers agree with `grep -n`."""

from __future__ import annotations

import pytest

from sqlindex.chunking.lines import LineTable


def test_lines_end_at_lf_and_crlf_only() -> None:
    text = "a\rb\x0cc\u2028d\x85e\r\nf\ng"
    table = LineTable(text)
    assert table.count == 3
    assert [table.char_of(line) for line in (1, 2, 3)] == [0, 11, 13]
    assert [text[table.char_of(line) : table.end_of(line)] for line in (1, 2, 3)] == [
        "a\rb\x0cc\u2028d\x85e",
        "f",
        "g",
    ]


def test_a_final_line_ending_opens_no_further_line() -> None:
    table = LineTable("a\n\n")
    assert table.count == 2
    assert table.line_of(2) == 2
    assert table.line_of(3) == 2
    assert table.end_of(2) == 2


def test_a_line_ending_belongs_to_its_line() -> None:
    table = LineTable("ab\r\ncd")
    assert [table.line_of(char) for char in range(7)] == [1, 1, 1, 1, 2, 2, 2]


def test_only_one_cr_belongs_to_the_line_ending() -> None:
    assert LineTable("a\r\r\nb").end_of(1) == 2
    assert LineTable("\r\n").end_of(1) == 0


def test_an_empty_text_has_no_line() -> None:
    table = LineTable("")
    assert table.count == 0
    with pytest.raises(IndexError, match="offset 0"):
        table.line_of(0)


@pytest.mark.parametrize("line", [0, 3])
def test_a_line_outside_the_text_is_an_error(line: int) -> None:
    with pytest.raises(IndexError, match=f"line {line}"):
        LineTable("a\nb").char_of(line)


@pytest.mark.parametrize("char", [-1, 4])
def test_an_offset_outside_the_text_is_an_error(char: int) -> None:
    with pytest.raises(IndexError, match=f"offset {char}"):
        LineTable("a\nb").line_of(char)
