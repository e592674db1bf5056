"""Filters as one SQL condition: the same candidates for every channel."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime

from sqlindex.errors import FilterError
from sqlindex.model.requests import Filters
from sqlindex.store.driver import Value
from sqlindex.store.snapshot import Condition

_DATE = r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?"
_FIELD = r"[^\"\x00]{1,200}"
# The document's own date, else the file's last change; ISO 8601 texts compare as their times do.
_WHEN = "coalesce(d.date, strftime('%Y-%m-%dT%H:%M:%SZ', d.modified_ns / 1000000000, 'unixepoch'))"


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
        values["date_from"] = _date(filters.date_from)
        parts.append(f"{_WHEN} >= :date_from")
    if filters.date_to is not None:
        # A bare day includes all its moments: '~' sorts behind 'T'.
        date_to = _date(filters.date_to)
        values["date_to"] = f"{date_to}~" if len(date_to) == 10 else date_to
        parts.append(f"{_WHEN} <= :date_to")
    for position, (name, value) in enumerate(sorted(filters.metadata.items())):
        if re.fullmatch(_FIELD, name) is None:
            raise FilterError(
                f"metadata field {name!r} cannot be filtered", hint="no quotes in field names"
            )
        values[f"field{position}"] = f'$."{name}"'
        values[f"value{position}"] = _json_value(value)
        parts.append(f"json_extract(d.metadata, :field{position}) IS :value{position}")
    if not parts:
        return None
    return Condition(" AND ".join(f"({part})" for part in parts), values)


def _json_value(value: str | int | float | bool | None) -> Value:
    """A metadata value as SQLite reads it from JSON: true is 1, a huge integer a real number."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def _date(text: str) -> str:
    try:
        is_date = re.fullmatch(_DATE, text) is not None and datetime.fromisoformat(text) is not None
    except ValueError:
        is_date = False
    if not is_date:
        raise FilterError(
            f"{text!r} is no ISO 8601 date", hint="for example 2026-11-30 or 2026-11-30T12:00:00Z"
        )
    return text


def _unicode_forms(text: str) -> list[str]:
    """Composed and decomposed: file systems keep names either way, people see one spelling."""
    return sorted({unicodedata.normalize(form, text) for form in ("NFC", "NFD")})
