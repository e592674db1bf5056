"""Jupyter notebooks: each cell reads as its source, at the lines where the file holds it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from sqlindex.chunking.lines import without_crs
from sqlindex.model.documents import ParsedDocument, Rendered, Section, SectionKind
from sqlindex.parsing.json_keys import JSON_VERSION, JsonParser
from sqlindex.parsing.json_tokens import TOKEN, rendered_escapes, unescaped
from sqlindex.parsing.markdown import MarkdownParser
from sqlindex.parsing.sections import MAX_HEADING_CHARS

NOTEBOOK_VERSION = 1
"""1: cells as sections under the headings of Markdown cells, scaffolding hidden."""

_SOURCE_KEYS = ("source", "input")
_OUTPUT_TEXT_PATHS = (["outputs", "", "text"], ["outputs", "", "data", "text/plain"])
_CELL_PATHS = (["cells", ""], ["worksheets", "", "cells", ""])
_LEVEL = re.compile(r"\s*+(\d)")
_LANGUAGE = re.compile(r"[a-z][a-z0-9+#._-]{0,30}")


class NotebookParser:
    """Parser of notebooks (nbformat 3 and 4) that are laid out line by line.

    The text stays the JSON that it is. A cell is a section under the headings of the Markdown
    cells above it; quotes, commas, keys, ids and metadata around its source read as nothing, and
    so do pictures and markup among outputs. Outputs of a cell are a section of kind RAW where they
    hold something, and so is what the notebook says about itself. A notebook that is broken, or
    has several cells on one line, is read as any JSON.
    """

    def __init__(self) -> None:
        self._json = JsonParser()
        self._markdown = MarkdownParser()

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "notebook"

    @property
    def version(self) -> str:
        """Behaviour version, with those of the parsers it asks."""
        return f"{NOTEBOOK_VERSION}+json-{JSON_VERSION}+markdown-{self._markdown.version}"

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Find cells, headings and title; the language is the kernel's, if the notebook names it."""
        notebook = _loaded(text)
        cells = _cells(text) if notebook else []
        if not notebook or not _is_laid_out(cells):
            return self._json.parse(text, language)
        start = _opening_end(text, cells[0].start_char)
        cells[0].start_char = start
        sections, title = self._sections(text, cells)
        return ParsedDocument(
            sections=tuple(sections),
            language=_kernel_language(notebook) or language,
            rendered=tuple(_rendered(text, start, cells)),
            title=title,
        )

    def _sections(self, text: str, cells: list[_Cell]) -> tuple[list[Section], str | None]:
        sections: list[Section] = []
        title: str | None = None
        path: list[tuple[int, str]] = []
        if cells[0].start_char > 0:
            sections.append(Section(0, cells[0].start_char, kind=SectionKind.RAW))
        for cell in cells:
            names = _names(path)
            level, line = len(names) and path[-1][0], 0
            for index, (heading_level, name, heading_line) in enumerate(self._headings(cell)):
                while path and path[-1][0] >= heading_level:
                    path.pop()
                path.append((heading_level, name))
                title = title or name or None
                if index == 0:
                    names, level, line = _names(path), heading_level, heading_line
            for start, end, kind in cell.parts():
                is_raw = kind is SectionKind.RAW
                own_line = 0 if is_raw else line
                own_level = level if names or own_line else 0
                sections.append(Section(start, end, names, own_level, own_line, kind))
        if cells[-1].end_char < len(text):
            sections.append(Section(cells[-1].end_char, len(text), kind=SectionKind.RAW))
        return [s for s in sections if not text[s.start_char : s.end_char].isspace()], title

    def _headings(self, cell: _Cell) -> Iterator[tuple[int, str, int]]:
        """(level, name, line in the file) of the headings of a cell."""
        if cell.type == "heading":  # nbformat 3
            name = " ".join(" ".join(cell.source).split())[:MAX_HEADING_CHARS].rstrip()
            if name and cell.source_lines:
                yield max(cell.level, 1), name, cell.source_lines[0]
        if cell.type != "markdown":
            return
        source = "".join(cell.source)
        if "#" not in source and "=" not in source and "-" not in source:
            return
        for section in self._markdown.parse(source, "markdown").sections:
            if section.heading_line and section.heading_path:
                line = cell.source_lines[section.heading_line - 1]
                yield section.level, section.heading_path[-1], line


@dataclass(slots=True)
class _Cell:
    """A cell as the text holds it.

    Attributes:
        start_char: start of its first line; the cell goes on to the next one's first line.
        source_start: start of the line with the key of its source; None without one.
        outputs_start: the same for outputs.
        has_outputs: there is at least one.
        shown: spans of the characters that are read, inside the quotes of source and output text.
        source: what its source strings hold, line breaks included.
        source_lines: line of the file for each line of the source.
    """

    start_char: int
    end_char: int = 0
    type: str = ""
    level: int = 0
    source_start: int | None = None
    outputs_start: int | None = None
    has_outputs: bool = False
    shown: list[tuple[int, int]] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    source_lines: list[int] = field(default_factory=list)

    def parts(self) -> Iterator[tuple[int, int, SectionKind]]:
        """The sections of the cell: source and outputs, in the order of the file."""
        if not self.has_outputs or self.outputs_start is None or self.source_start is None:
            yield self.start_char, self.end_char, SectionKind.BODY
        elif self.source_start < self.outputs_start:
            yield self.start_char, self.outputs_start, SectionKind.BODY
            yield self.outputs_start, self.end_char, SectionKind.RAW
        else:
            yield self.start_char, self.source_start, SectionKind.RAW
            yield self.source_start, self.end_char, SectionKind.BODY

    def note_key(self, key: str, line_start: int, text: str, value_start: int) -> None:
        """Take in a key of the cell itself."""
        if key in _SOURCE_KEYS:
            self.source_start = line_start
        elif key == "outputs":
            self.outputs_start = line_start
        elif key == "level" and (level := _LEVEL.match(text, value_start)):
            self.level = int(level[1])

    def note_string(self, path: list[str], string: str, start: int, line: int) -> None:
        """Take in a string below the cell's key `path[0]`; `start` is the offset of its quote."""
        if path[-1] == "":
            path = path[:-1]
        is_source = len(path) == 1 and path[0] in _SOURCE_KEYS
        if is_source or path in _OUTPUT_TEXT_PATHS:
            content_end = len(string) - 1 - (2 if _ends_in_line_break(string) else 0)
            if content_end > 1:
                self.shown.append((start + 1, start + content_end))
        elif path == ["cell_type"]:
            self.type = unescaped(string[1:-1])
        if is_source:
            # A lone surrogate that an escape makes could not be stored in a heading.
            decoded = json.loads(string).encode("utf-8", "replace").decode("utf-8")
            if not self.source or self.source[-1].endswith("\n"):
                self.source_lines.append(line)
            self.source_lines += [line] * decoded[:-1].count("\n")
            self.source.append(decoded)


def _ends_in_line_break(string: str) -> bool:
    """Whether the last character inside the quotes is an escaped line feed."""
    content = string[1:-1]
    before = content.removesuffix("\\n")
    return before != content and (len(before) - len(before.rstrip("\\"))) % 2 == 0


def _loaded(text: str) -> dict[str, object] | None:
    """The notebook as a mapping; None if it is broken JSON or no mapping."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _cells(text: str) -> list[_Cell]:
    """The cells of a well-formed notebook, in order, each up to the next one."""
    cells: list[_Cell] = []
    path: list[str] = []  # for each open bracket the latest key, empty in a list
    cell: _Cell | None = None
    depth = 0  # of the keys of a cell
    line, line_start = 1, 0
    closing_start = 0  # line that closes the latest cell
    for token in TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "newline":
            line += token.end() - token.start()
            line_start = token.end()
        elif kind == "key":
            path[-1] = unescaped(token["string"][1:-1])
            if cell and len(path) == depth:
                cell.note_key(path[-1], line_start, text, token.end())
            elif cells and not cell and not cells[-1].end_char and line_start > closing_start:
                cells[-1].end_char = line_start
        elif kind == "open":
            path.append("")
            if not cell and token["open"] == "{" and path[:-1] in _CELL_PATHS:
                if cells:
                    cells[-1].end_char = line_start
                cell, depth = _Cell(line_start), len(path)
                cells.append(cell)
            elif cell and path[depth - 1 :] == ["outputs", "", ""]:
                cell.has_outputs = True
        elif kind == "close":
            path.pop()
            if cell and len(path) < depth:
                cell, closing_start = None, line_start
        elif kind == "string" and cell:
            cell.note_string(path[depth - 1 :], token["string"], token.start(), line)
    if cells and not cells[-1].end_char:
        cells[-1].end_char = len(text)
    return cells


def _is_laid_out(cells: list[_Cell]) -> bool:
    """Whether each cell, and each one's source and outputs, begin on lines of their own."""
    return (
        bool(cells)
        and cells[0].start_char > 0
        and all(before.start_char < after.start_char for before, after in pairwise(cells))
        and all(not cell.has_outputs or cell.outputs_start != cell.source_start for cell in cells)
    )


def _opening_end(text: str, first_cell_start: int) -> int:
    """Where the part about the notebook itself ends that stands above its cells; 0 for none.

    Only the lines that lead to the first cell stand there in most files.
    """
    keys = [token for token in TOKEN.finditer(text, 0, first_cell_start) if token["key"]]
    # The last key is that of the cells; in nbformat 3 the one of the worksheets stands before it.
    leading = keys[-2:] if '"worksheets"' in (key["string"] for key in keys[-2:]) else keys[-1:]
    return text.rfind("\n", 0, leading[0].start()) + 1 if len(leading) < len(keys) else 0


def _rendered(text: str, start: int, cells: list[_Cell]) -> Iterator[Rendered]:
    """Everything around what is shown as nothing, and escapes as their characters."""
    position, separator = start, ""
    for cell in cells:
        for shown_start, shown_end in cell.shown:
            yield from _hidden(text, position, shown_start, separator)
            yield from rendered_escapes(text, shown_start, shown_end)
            position, separator = shown_end, " "
    yield from _hidden(text, position, cells[-1].end_char, "")


def _hidden(text: str, start: int, end: int, separator: str) -> Iterator[Rendered]:
    """Hide what stands between two offsets, line by line; two strings on one line stay apart."""
    line_break = text.find("\n", start, end)
    if line_break < 0:
        if start < end:
            yield Rendered(start, end, separator)
        return
    while start < end:
        line_break = text.find("\n", start, end)
        piece_end = without_crs(text, start, end if line_break < 0 else line_break)
        if start < piece_end:
            yield Rendered(start, piece_end, "")
        start = end if line_break < 0 else line_break + 1


def _names(path: Iterable[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(name for _, name in path)


def _kernel_language(notebook: dict[str, object]) -> str | None:
    """The programming language that the notebook names, in lower case."""
    about = notebook.get("metadata")
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        found = about.get(part) if isinstance(about, dict) else None
        name = found.get(key) if isinstance(found, dict) else None
        if isinstance(name, str) and _LANGUAGE.fullmatch(name.lower()):
            return name.lower()
    return None
