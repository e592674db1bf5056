"""Source code: one section that keeps its language; the chunker cuts it between blocks."""

from __future__ import annotations

from sqlindex.model.documents import ParsedDocument
from sqlindex.parsing.sections import whole_text

CODE_VERSION = 1
"""1: first, without structure."""


class CodeParser:
    """Parser of source code in any language."""

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "code"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return CODE_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Make the whole file one section."""
        return ParsedDocument(sections=whole_text(text), language=language)
