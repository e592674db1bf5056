"""Plain text: one section; paragraphs are found by the chunker's boundaries."""

from __future__ import annotations

from sqlindex.model.documents import ParsedDocument
from sqlindex.parsing.sections import whole_text

TEXT_VERSION = 1
"""1: first."""


class TextParser:
    """Parser of prose without markup."""

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "text"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return TEXT_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Make the whole text one section."""
        return ParsedDocument(sections=whole_text(text), language=language)
