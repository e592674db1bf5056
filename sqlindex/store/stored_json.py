"""JSON columns: they hold what was written, or the row is damaged."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlindex.errors import CorruptIndexError
from sqlindex.model.rendered import Rendered


def require_texts(row: str, *values: object) -> None:
    """Refuse values that are no text: a flipped byte of a row's header makes another type of one.

    Raises:
        CorruptIndexError: one is none; the message names the row.
    """
    if not all(isinstance(value, str) for value in values):
        raise CorruptIndexError(f"{row} is damaged", hint="run 'sqlindex repair'")


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


def write_rendered(parts: Sequence[Rendered]) -> str:
    """Rendered parts as a flat JSON array of start, end and text."""
    flat = [value for part in parts for value in (part.start_char, part.end_char, part.text)]
    return json.dumps(flat, ensure_ascii=False, separators=(",", ":")) if flat else "[]"


def read_rendered(stored: str, row: str) -> tuple[Rendered, ...]:
    """Rendered parts as they were written.

    Raises:
        CorruptIndexError: it is no such array.
    """
    if stored == "[]":
        return ()
    flat = _read(stored, row)
    if not isinstance(flat, list) or len(flat) % 3:
        raise _damaged(row)
    parts = []
    for start, end, text in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        if not (isinstance(start, int) and isinstance(end, int) and isinstance(text, str)):
            raise _damaged(row)
        parts.append(Rendered(start, end, text))
    return tuple(parts)


def _read(stored: str, row: str) -> object:
    try:
        value: object = json.loads(stored)
    except (ValueError, RecursionError) as exc:
        raise _damaged(row) from exc
    return value


def _damaged(row: str) -> CorruptIndexError:
    return CorruptIndexError(f"{row} is damaged", hint="run 'sqlindex repair', or restore a backup")
