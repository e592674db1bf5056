"""From a row of another database to a document, or to the reason why it is none."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from sqlindex.encodable import is_encodable
from sqlindex.errors import SourceError
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.model.ids import DocumentId
from sqlindex.sources.memory import utf8
from sqlindex.sources.table_selection import SqliteTable, cells

Value: TypeAlias = str | bytes | int | float | None
Entry: TypeAlias = tuple[DocumentRef, RawDocument] | Refusal

MAX_ROW_CHARS = 8 * 1024 * 1024
"""Longest row that is read, in characters of text and bytes of blobs; a longer one is refused."""

_JULIAN_DAY_OF_1970 = 2_440_587.5


class _NotText(Exception):
    """A value that is needed as text and is none."""


def values_of(row: Any, encoding: str) -> list[Value]:
    """The values of a row of a `Selection`; text that is not decodable stays bytes, like a blob."""
    found = cells(row)
    return [
        _decoded(cell, encoding) if isinstance(cell, bytes) and not is_blob else cell
        for cell, is_blob in zip(found[::2], found[1::2], strict=True)
    ]


def row_chars(values: Sequence[Value]) -> int:
    """Length of a row, to compare with `MAX_ROW_CHARS`."""
    return sum(len(value) for value in values if isinstance(value, (str, bytes)))


def entry_of(
    values: Sequence[Value], wanted: SqliteTable, text_columns: Sequence[str], number: int
) -> Entry:
    """The document of a row.

    Args:
        values: in the order of a `Selection`.
        wanted: what the columns are.
        text_columns: those that the selection reads.
        number: of the row in its listing, from 1; names a row that has no id.
    """
    identity = id_of(values[0])
    if identity is None:
        return _no_identity(values[0], wanted, number)
    if row_chars(values) > MAX_ROW_CHARS:
        return too_large(identity, row_chars(values))
    title, date, tags, uri, path = values[1:6]
    metadata_end = 6 + len(wanted.metadata)
    try:
        texts = zip(text_columns, values[metadata_end:], strict=True)
        parts = [part for name, value in texts if (part := _text(value, name)) is not None]
        if len(parts) > 1:
            parts = [part for part in parts if part]
        shown_path = _text(path, wanted.path)
        raw = RawDocument(
            data=utf8("\n\n".join(parts)),
            uri=_text(uri, wanted.uri),
            title=_text(title, wanted.title),
            date=_date(date, wanted.date),
            tags=_tags(_text(tags, wanted.tags)),
            metadata={
                name: _field(value, name)
                for name, value in zip(wanted.metadata, values[6:metadata_end], strict=True)
            },
        )
    except _NotText as exc:
        return Refusal(
            identity,
            RefusalReason.ENCODING,
            str(exc),
            "store text as text, or leave the column out",
        )
    return DocumentRef(
        identity, identity if shown_path is None else shown_path, wanted.type_name
    ), raw


def too_large(identity: str, chars: int) -> Refusal:
    """The refusal of a row that is too long to read."""
    return Refusal(
        identity,
        RefusalReason.TOO_LARGE,
        f"the row has {chars:,} characters, more than {MAX_ROW_CHARS:,}",
        "split the text, or leave the row out with a query",
    )


def only_document(source: str, ref: DocumentRef, entries: Iterable[Entry]) -> RawDocument | Refusal:
    """The one row with exactly this id, of those that compare equal to it.

    Raises:
        SourceError: two rows have it.
    """
    found: list[RawDocument | Refusal] = []
    for entry in entries:
        listed = entry if isinstance(entry, Refusal) else entry[0]
        if listed.document_id == ref.document_id:
            found.append(entry if isinstance(entry, Refusal) else entry[1])
    if len(found) > 1:
        raise SourceError(
            f"source {source!r} has {len(found)} rows with the id {ref.document_id!r}",
            hint="document ids must be unique within a source",
        )
    if not found:
        return Refusal(ref.document_id, RefusalReason.VANISHED, "no row has this id now")
    return found[0]


def id_of(value: Value) -> DocumentId | None:
    """Text as it is, integers in decimal; None for what identifies nothing."""
    if isinstance(value, int):
        return DocumentId(str(value))
    if not isinstance(value, str) or not value or "\0" in value or not is_encodable(value):
        return None
    return DocumentId(value)


def _no_identity(value: Value, wanted: SqliteTable, number: int) -> Refusal:
    if value is None:
        what = "is NULL"
    elif isinstance(value, float):
        what = f"is {value!r}, no integer"
    elif isinstance(value, bytes):
        what = f"is {len(value):,} bytes that are a blob or no text"
    else:
        what = "is empty, holds a NUL or is not encodable"
    return Refusal(
        f"row {number}",
        RefusalReason.ID,
        f"its id {what}",
        f"name a column of texts or integers as the id of {wanted.label}, or use a query",
    )


def _decoded(data: bytes, encoding: str) -> str | bytes:
    try:
        # SQLite keeps lone surrogates in UTF-16; they are found when the text is encoded.
        return data.decode(encoding, "strict" if encoding == "utf-8" else "surrogatepass")
    except UnicodeDecodeError:
        return data


def _text(value: Value, column: str | None) -> str | None:
    if value is None or isinstance(value, str):
        text = value
    elif isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError as exc:
            raise _NotText(f"column {column!r}: byte {exc.start} is not UTF-8") from exc
    else:
        text = str(value)
    if text is not None and not is_encodable(text):
        raise _NotText(f"column {column!r} holds a lone surrogate")
    return text


def _date(value: Value, column: str | None) -> str | None:
    """ISO 8601; a number is read as SQLite's date functions store it.

    Source:
        "Datatypes In SQLite", section 2.2: INTEGER as Unix time, REAL as Julian day numbers.
    """
    if not isinstance(value, (int, float)):
        return _text(value, column)
    seconds = value if isinstance(value, int) else (value - _JULIAN_DAY_OF_1970) * 86_400
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=round(seconds))
    except (OverflowError, ValueError):
        return None
    return moment.isoformat()


def _tags(text: str | None) -> tuple[str, ...]:
    """A JSON array of texts, or texts with commas in between."""
    if text is None:
        return ()
    if text.lstrip().startswith("["):
        try:
            listed = json.loads(text)
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list):
            return _distinct(str(tag) for tag in listed if isinstance(tag, (str, int, float)))
    return _distinct(text.split(","))


def _distinct(tags: Iterable[str]) -> tuple[str, ...]:
    found = (tag.strip() for tag in tags if is_encodable(tag))
    return tuple(dict.fromkeys(tag for tag in found if tag))


def _field(value: Value, column: str) -> str | int | float | None:
    if isinstance(value, bytes):
        return _text(value, column)
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no infinity
    return _text(value, column) if isinstance(value, str) else value
