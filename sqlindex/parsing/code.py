"""Source code: functions and classes become sections; other languages stay one section."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlindex.model.documents import ParsedDocument
from sqlindex.parsing.sections import whole_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlindex.parsing.code_outline import Definition, MaskedCode

CODE_VERSION = 2
"""1: first, without structure. 2: sections by function and class."""


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
        """Find functions, classes and other named parts, each with the comments above it.

        Broken code gets the sections that its lines suggest; a file in an unknown language, or
        one without definitions, is one section.
        """
        from sqlindex.parsing.code_sections import code_sections

        found = _outline(text, language)
        if found is None:
            return ParsedDocument(sections=whole_text(text), language=language)
        return ParsedDocument(sections=code_sections(text, *found), language=language)


def _outline(text: str, language: str) -> tuple[MaskedCode, Sequence[Definition]] | None:
    # The rules of a language are compiled when the first file needs them: a search needs none.
    if language == "python":
        from sqlindex.parsing.code_python import python_outline

        return python_outline(text)
    if language in ("shell", "fish", "sql"):
        from sqlindex.parsing import code_lines

        by_language = {
            "shell": code_lines.shell_outline,
            "fish": code_lines.fish_outline,
            "sql": code_lines.sql_outline,
        }
        return by_language[language](text)
    from sqlindex.parsing.code_braces import brace_outline
    from sqlindex.parsing.code_languages import BRACE_LANGUAGES

    brace_language = BRACE_LANGUAGES.get(language)
    return None if brace_language is None else brace_outline(text, brace_language)
