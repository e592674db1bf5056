"""Dates as fixed-width UTC text, so that they compare as their moments do."""

from __future__ import annotations

from datetime import UTC, date, datetime

DAY_WIDTH = 10
"""`2026-11-30`; with a time it is `2026-11-30T12:00:00Z`."""


def normal_date(text: str) -> str | None:
    """A day as `2026-11-30`, a moment as `2026-11-30T12:00:00Z`; None if it is no ISO 8601 date.

    A moment is turned into UTC and cut to the second; without a zone it is taken as UTC.
    """
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return zoned.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)
    except (ValueError, OverflowError):
        return None
