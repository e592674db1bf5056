"""Records and headers of CSV files."""

from __future__ import annotations

import pytest

from sqlindex.parsing.csv_records import MAX_FIELD_CHARS, MAX_HEADER_CHARS, CsvParser, long_records

pytestmark = pytest.mark.req("A-10", "A-11")


def header(text: str) -> str:
    block = CsvParser().parse(text, "csv").blocks[0]
    return text[block.start_char : block.header_end_char]


def records(text: str) -> list[str]:
    return [text[start:end] for start, end in long_records(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name,price\nvalve,3\n", "name,price"),
        ("\n\nname\tprice\r\nvalve\t3\r\n", "name\tprice"),
        ("sep=;\nname;price\nvalve;3\n", "sep=;\nname;price"),
        ('"long\nname",price\nvalve,3\n', '"long\nname",price'),
        ("valve,3\npump,4\n", ""),
        ("valve,2024-01-05\npump,2024-01-06\n", ""),
        ("valve,\npump,4\n", ""),
        ("valve,valve\npump,4\n", ""),
        ("name\nvalve\n", ""),
        ("name,price\n", ""),
        ("a" * MAX_HEADER_CHARS + ",b\nc,d\n", ""),
    ],
)
def test_the_first_record_is_a_header_by_rule(text: str, expected: str) -> None:
    assert header(text) == expected


def test_the_file_is_one_section_and_records_over_several_lines_are_blocks_in_it() -> None:
    text = 'a,b\r\n1,"x\r\ny"\r\n2,z\r\n"p\r\nq","r\r\ns"\r\n\r\n'
    parsed = CsvParser().parse(text, "csv")
    assert len(parsed.sections) == 1
    assert [text[b.start_char : b.end_char] for b in parsed.blocks] == [
        text.rstrip(),
        '1,"x\r\ny"',
        '"p\r\nq","r\r\ns"',
    ]


def test_a_quote_inside_an_unquoted_field_is_a_character() -> None:
    assert records('5" pipe,3" tube\n6" pipe,"a\nb"\n') == ['6" pipe,"a\nb"']


def test_a_quote_that_is_never_closed_does_not_swallow_the_file() -> None:
    text = 'a,"open\n' + "b,c\n" * MAX_FIELD_CHARS + 'd,"e\nf"\n'
    assert records(text) == ['d,"e\nf"']
