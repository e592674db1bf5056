"""Filters as one SQL condition: the same candidates for every channel."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable

from sqlindex.dates import DAY_WIDTH, normal_date
from sqlindex.encodable import is_encodable
from sqlindex.errors import FilterError
from sqlindex.model.requests import Filters
from sqlindex.store.driver import Value
from sqlindex.store.snapshot import Condition

# The document's own date, else the file's last change, as a moment of fixed width (see `dates`): a
# day is its first second.
_WHEN = """
    CASE length(d.date) WHEN 10 THEN d.date || 'T00:00:00Z'
    ELSE coalesce(d.date, strftime('%Y-%m-%dT%H:%M:%SZ', d.modified_ns / 1000000000, 'unixepoch')) END
"""


def condition_of(filters: Filters) -> Condition | None:
    """The condition that lets through what the filters allow; None when they allow all.

    Raises:
        FilterError: a date or field name is malformed; the message names it.
    """
    parts: list[str] = []
    values: dict[str, Value] = {}

    def bind(prefix: str, items: Iterable[Value]) -> str:
        names = []
        for position, item in enumerate(items):
            values[f"{prefix}{position}"] = item
            names.append(f":{prefix}{position}")
        return ", ".join(names)

    single = (filters.path_prefix or "", filters.path_glob or "")
    named = (*filters.metadata, *(v for v in filters.metadata.values() if isinstance(v, str)))
    groups = (
        filters.sources,
        filters.extensions,
        filters.languages,
        filters.tags_any,
        filters.tags_all,
    )
    _encodable((*single, *named, *(text for group in groups for text in group)))
    if filters.sources:
        parts.append(f"s.name IN ({bind('source', sorted(filters.sources))})")
    if filters.path_prefix:
        forms = bind("prefix", _unicode_forms(filters.path_prefix)).split(", ")
        parts.append(" OR ".join(f"substr(d.path, 1, length({form})) = {form}" for form in forms))
    if filters.path_glob:
        forms = bind("glob", _unicode_forms(filters.path_glob)).split(", ")
        parts.append(" OR ".join(f"d.path GLOB {form}" for form in forms))
    if filters.extensions:
        extensions = sorted({e.lower().lstrip(".") for e in filters.extensions})
        parts.append(f"d.type_name IN ({bind('extension', extensions)})")
    if filters.languages:
        parts.append(f"p.language IN ({bind('language', sorted(filters.languages))})")
    if filters.tags_any:
        tags = bind("any", sorted(filters.tags_any))
        parts.append(f"EXISTS (SELECT 1 FROM json_each(d.tags) WHERE value IN ({tags}))")
    for position, tag in enumerate(sorted(filters.tags_all)):
        values[f"all{position}"] = tag
        parts.append(f"EXISTS (SELECT 1 FROM json_each(d.tags) WHERE value = :all{position})")
    if filters.date_from is not None:
        values["date_from"] = _moment(filters.date_from, "T00:00:00Z")
        parts.append(f"{_WHEN} >= :date_from")
    if filters.date_to is not None:
        values["date_to"] = _moment(filters.date_to, "T23:59:59Z")
        parts.append(f"{_WHEN} <= :date_to")
    for position, (name, value) in enumerate(sorted(filters.metadata.items())):
        types, stored = _json_value(name, value)
        values[f"field{position}"] = name
        values[f"value{position}"] = stored
        # json_each and not a JSON path: no character of a field's name means anything else.
        parts.append(
            f"EXISTS (SELECT 1 FROM json_each(d.metadata) WHERE key = :field{position} "
            f"AND type IN ({types}) AND value IS :value{position})"
        )
    if not parts:
        return None
    return Condition(" AND ".join(f"({part})" for part in parts), values)


def _json_value(name: str, value: object) -> tuple[str, Value]:
    """(JSON types, value) of a metadata value as SQLite reads it: `true` is no 1 and no text."""
    if value is None:
        return "'null'", None
    if isinstance(value, bool):
        return ("'true'", 1) if value else ("'false'", 0)
    if isinstance(value, str) and "\0" not in value:
        return "'text'", value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return "'integer', 'real'", value
    if isinstance(value, float) and math.isfinite(value):
        return "'integer', 'real'", value
    raise FilterError(
        f"metadata field {name!r} cannot be {value!r}",
        hint="a text without NUL, a finite number of 64 bits, true, false or null",
    )


def _moment(text: str, time_of_day: str) -> str:
    """A bound as a moment; a bare day gets the time of day."""
    found = normal_date(text)
    if found is None:
        raise FilterError(
            f"{text!r} is no ISO 8601 date", hint="for example 2026-11-30 or 2026-11-30T12:00:00Z"
        )
    return found + time_of_day if len(found) == DAY_WIDTH else found


def _encodable(texts: Iterable[str]) -> None:
    for text in texts:
        if "\0" in text:
            raise FilterError(f"{text!r} holds a NUL", hint="no document, tag or field has one")
        if not is_encodable(text):
            raise FilterError(
                f"{text!r} is not encodable to UTF-8", hint="ids write such bytes as \\xe9"
            )


def _unicode_forms(text: str) -> list[str]:
    """Composed and decomposed: file systems keep names either way, people see one spelling."""
    return sorted({unicodedata.normalize(form, text) for form in ("NFC", "NFD")})
