"""JSON columns: they hold what was written, or the row is damaged."""

from __future__ import annotations

import json

from sqlindex.errors import CorruptIndexError


def read_texts(stored: str, row: str) -> tuple[str, ...]:
    """The texts of a JSON array.

    Args:
        stored: the column.
        row: names the row, for the message.

    Raises:
        CorruptIndexError: it is no array of texts.
    """
    value = _read(stored, row)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise _damaged(row)
    return tuple(value)


def read_fields(stored: str, row: str) -> dict[str, object]:
    """The fields of a JSON object.

    Raises:
        CorruptIndexError: it is no object.
    """
    value = _read(stored, row)
    if not isinstance(value, dict):
        raise _damaged(row)
    return value


def _read(stored: str, row: str) -> object:
    try:
        value: object = json.loads(stored)
    except ValueError as exc:
        raise _damaged(row) from exc
    return value


def _damaged(row: str) -> CorruptIndexError:
    return CorruptIndexError(
        f"{row} is damaged", hint="run 'sqlindex check', restore a backup or index again"
    )
