"""The line table agrees with counting line feeds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.chunking.lines import LineTable

texts = st.text(
    st.sampled_from("ab \t\r\n\n\x0b\x0c\x1c\x85\u2028\u2029\ufeffä\U0001f600"), max_size=60
)


def naive_lines(text: str) -> list[str]:
    """Lines as `grep -n` numbers them, each with its line ending."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


@pytest.mark.req("A-12")
@given(texts)
def test_every_character_lies_on_the_line_that_grep_counts(text: str) -> None:
    table = LineTable(text)
    lines = naive_lines(text)
    assert table.count == len(lines)
    expected = [number for number, line in enumerate(lines, 1) for _ in line]
    assert [table.line_of(char) for char in range(len(text))] == expected


@pytest.mark.req("A-12")
@given(texts)
def test_lines_are_slices_without_their_line_endings(text: str) -> None:
    table = LineTable(text)
    slices = [text[table.char_of(line) : table.end_of(line)] for line in range(1, table.count + 1)]
    assert slices == [
        line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line
        for line in naive_lines(text)
    ]
