"""Sections of texts whose structure is not looked into."""

from __future__ import annotations

from sqlindex.model.documents import Section


def whole_text(text: str) -> tuple[Section, ...]:
    """One section over all of `text`, or none if every line is blank."""
    return (Section(0, len(text)),) if text and not text.isspace() else ()
