"""Which parsers there are, by id."""

from __future__ import annotations

from collections.abc import Iterable

from sqlindex.errors import DuplicateError, UsageError
from sqlindex.filetypes.registry import FileType
from sqlindex.parsing.code import CodeParser
from sqlindex.parsing.csv_records import CsvParser
from sqlindex.parsing.html import HtmlParser
from sqlindex.parsing.ini import IniParser
from sqlindex.parsing.json_keys import JsonParser
from sqlindex.parsing.markdown import MarkdownParser
from sqlindex.parsing.notebook import NotebookParser
from sqlindex.parsing.org import OrgParser
from sqlindex.parsing.rst import RstParser
from sqlindex.parsing.tex import TexParser
from sqlindex.parsing.text import TextParser
from sqlindex.parsing.toml_keys import TomlParser
from sqlindex.parsing.yaml_keys import YamlParser
from sqlindex.ports import Parser


class ParserRegistry:
    """Parsers by id. It does not change; `with_parsers` makes another one.

    Raises:
        DuplicateError: two parsers have the same id.
    """

    def __init__(self, parsers: Iterable[Parser]) -> None:
        self._parser_by_id: dict[str, Parser] = {}
        for parser in parsers:
            if parser.id in self._parser_by_id:
                raise DuplicateError(
                    f"parser id {parser.id!r} is taken already",
                    hint="give the parser another id, or replace the first one with override=True",
                )
            self._parser_by_id[parser.id] = parser

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in ascending order."""
        return tuple(sorted(self._parser_by_id))

    def __contains__(self, parser_id: object) -> bool:
        return parser_id in self._parser_by_id

    def parser(self, parser_id: str) -> Parser:
        """Return the parser of that id.

        Raises:
            UsageError: there is none.
        """
        parser = self._parser_by_id.get(parser_id)
        if parser is None:
            raise UsageError(
                f"no parser has the id {parser_id!r}", hint=f"known are {', '.join(self.ids)}"
            )
        return parser

    def with_parsers(self, parsers: Iterable[Parser], *, override: bool = False) -> ParserRegistry:
        """Return a registry that has these parsers too.

        Args:
            parsers: the host's own; one whose version is None never has its output reused.
            override: whether a parser may take the place of one with the same id.

        Raises:
            DuplicateError: an id is taken already and `override` is false, or two of `parsers`
                have the same id.
        """
        added = ParserRegistry(parsers)
        kept = [
            parser
            for parser in self._parser_by_id.values()
            if not (override and parser.id in added)
        ]
        return ParserRegistry([*kept, *added._parser_by_id.values()])


class ParserChoice:
    """Which parser reads a file type; pickled, it is its parsers."""

    def __init__(self, parsers: ParserRegistry) -> None:
        self._parsers = parsers

    def __call__(self, file_type: FileType) -> Parser:
        """The parser of a file type, or that of plain text if it is missing and the type allows it.

        Raises:
            UsageError: there is none.
        """
        is_missing = file_type.parser not in self._parsers
        return self._parsers.parser(
            "text" if is_missing and file_type.text_fallback else file_type.parser
        )


def builtin_parsers() -> ParserRegistry:
    """The parsers that come with this package; `ids` names them."""
    return ParserRegistry(
        [
            CodeParser(),
            CsvParser(),
            HtmlParser(),
            IniParser(),
            JsonParser(),
            MarkdownParser(),
            NotebookParser(),
            OrgParser(),
            RstParser(),
            TexParser(),
            TextParser(),
            TomlParser(),
            YamlParser(),
        ]
    )
