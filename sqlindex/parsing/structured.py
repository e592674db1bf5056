"""Structured files (JSON, YAML, TOML, CSV): one section, whatever the syntax errors in them."""

from __future__ import annotations

from sqlindex.model.documents import ParsedDocument
from sqlindex.parsing.sections import whole_text

STRUCTURED_VERSION = 1
"""1: first, without structure."""


class StructuredParser:
    """Parser of structured files. It does not check them: a broken file is searchable too."""

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "structured"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return STRUCTURED_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Make the whole file one section."""
        return ParsedDocument(sections=whole_text(text), language=language)
