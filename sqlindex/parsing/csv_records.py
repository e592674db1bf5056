"""CSV and TSV: one section, whose records stay whole and whose first record explains the rest."""

from __future__ import annotations

import csv
import re

from sqlindex.chunking.lines import without_crs
from sqlindex.model.documents import Block, ParsedDocument
from sqlindex.parsing.sections import whole_text

CSV_VERSION = 1
"""1: header and records over several lines as blocks."""

MAX_FIELD_CHARS = 65_536
"""A quoted field that is longer counts as not closed: its quote is a character like others."""

MAX_HEADER_CHARS = 2_000
"""A longer first record is no header: it is repeated as context of each chunk."""

_DELIMITERS = ",;\t|"
_OPENING_QUOTE = re.compile(r'(?<![^\n,;\t|\ufeff])"')
_QUOTED_FIELD = re.compile(r'"[^"]*+(?:""[^"]*+)*+"')
_SEPARATOR_LINE = re.compile(r"\ufeff?sep=[^\n]\r*\n")
_NUMBER_OR_DATE = re.compile(r"[^\d\W]{0,3}[^\w\n]*\d[\d\W]*[^\d\W]{0,3}")


class CsvParser:
    """Parser of separated values (RFC 4180).

    Comma, semicolon, tab and bar all count as delimiters, since only quotes decide where a record
    ends: one that opens a field; a quote inside an unquoted field is a character. A quote that is
    not closed within `MAX_FIELD_CHARS` is one too, so it cannot swallow the file.

    The first record (the second behind a line like `sep=;`) is a header if it has at least two
    fields, all of them non-empty and different, none a number or a date, and if a record follows.
    """

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "csv"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return CSV_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Make the file one section and one block, and each record of several lines a block."""
        sections = whole_text(text)
        return ParsedDocument(
            sections=sections, language=language, blocks=_blocks(text) if sections else ()
        )


def long_records(text: str) -> list[tuple[int, int]]:
    """Spans of the records that take several lines, line ending excluded, in order."""
    records: list[tuple[int, int]] = []
    position = 0
    while opening := _OPENING_QUOTE.search(text, position):
        start = opening.start()
        field = _QUOTED_FIELD.match(text, start, start + MAX_FIELD_CHARS)
        if field is None:
            position = start + 1
            continue
        position = field.end()
        if text.find("\n", start, position) < 0:
            continue
        floor = records[-1][1] if records else 0
        line_start = text.rfind("\n", floor, start) + 1
        end = text.find("\n", position)
        end = without_crs(text, position, len(text) if end < 0 else end)
        if records and not line_start:
            # Another long field on the line that ends the one before: the same record.
            records[-1] = (records[-1][0], end)
        else:
            records.append((line_start, end))
    return records


def _blocks(text: str) -> tuple[Block, ...]:
    records = long_records(text)
    start = _line_of_text(text, 0)
    separator = _SEPARATOR_LINE.match(text, start)
    first_start = separator.end() if separator else start
    first_end = text.find("\n", first_start)
    first_end = len(text) if first_end < 0 else first_end
    if records and records[0][0] == first_start:
        first_end = records[0][1]
    visible_end = len(text.rstrip())
    whole_end = text.find("\n", visible_end)
    whole_end = without_crs(text, visible_end, len(text) if whole_end < 0 else whole_end)
    first_end = without_crs(text, first_start, first_end)
    is_header = first_end < whole_end and _is_header(text[first_start:first_end])
    blocks = [Block(start, whole_end, first_end if is_header else start)]
    blocks += [
        Block(record_start, end, record_start)
        for record_start, end in records
        if end <= whole_end and (record_start, end) != (start, whole_end)
    ]
    return tuple(blocks)


def _line_of_text(text: str, start: int) -> int:
    """Start of the first line from `start` on that is not blank."""
    visible = len(text) - len(text[start:].lstrip())
    return text.rfind("\n", start, visible) + 1


def _is_header(record: str) -> bool:
    if len(record) > MAX_HEADER_CHARS:
        return False
    delimiter = max(_DELIMITERS, key=record.count)
    try:
        rows = list(csv.reader([record], delimiter=delimiter))
    except csv.Error:
        return False
    fields = [field.strip() for field in rows[0]] if rows else []
    return (
        len(fields) > 1
        and all(fields)
        and len(set(fields)) == len(fields)
        and not any(_NUMBER_OR_DATE.fullmatch(field) for field in fields)
    )
