"""TOML: sections by table and key."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlindex.chunking.lines import without_crs
from sqlindex.model.documents import Block, ParsedDocument
from sqlindex.parsing.json_tokens import unescaped
from sqlindex.parsing.key_tree import (
    MAX_DEPTH,
    ElementNaming,
    Entry,
    heading_name,
    key_sections,
    root_entry,
)

TOML_VERSION = 1
"""1: sections by table and key, values over several lines as blocks."""

_PART = r"""(?:"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|'[^'\n]*+'|[^\s.\[\]="'#,{}]++)"""
_DOTTED = rf"[ \t]*+(?P<names>{_PART}(?:[ \t]*+\.[ \t]*+{_PART})*+)[ \t]*+"
_NAME = re.compile(_PART)
_TABLE = re.compile(rf"[ \t]*+\[{_DOTTED}\][ \t\r]*+(?:#[^\n]*+)?(?=\n|\Z)")
_ELEMENT = re.compile(rf"[ \t]*+\[\[{_DOTTED}\]\][ \t\r]*+(?:#[^\n]*+)?(?=\n|\Z)")
_KEY = re.compile(rf"{_DOTTED}=")
_TABLE_AFTER_ALL = re.compile(r"\[\[?[A-Za-z_][\w.-]*+\]\]?[ \t\r]*+(?:#[^\n]*+)?(?=\n|\Z)")
_VALUE_TOKEN = re.compile(
    r"""\"\"\"|'''|"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"?|'[^'\n]*+'?|\#[^\n]*+|[\[{]|[\]}]|\n"""
)
_MULTI_LINE = {
    '"""': re.compile(r'[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+"{3,5}', re.DOTALL),
    "'''": re.compile(r"[^']*+(?:'(?!'')[^']*+)*+'{3,5}"),
}
_SCALAR = re.compile(r"""[ \t]*+(?:"([^"\\\n]*+(?:\\.[^"\\\n]*+)*+)"|'([^'\n]*+)'|([\w.+-]++))""")


class TomlParser:
    """Parser of TOML.

    It checks nothing. The elements of an array of tables are named by a telling member (`name`,
    `title`, `id`, `key`) among their first, else by their index, as `[3]`. A bracket that is never
    closed ends at the next plain table header, a string over several lines without its end at the
    end of its first line.
    """

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "toml"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return TOML_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Find sections and long values. A file name says more than a key called `title`."""
        scanner = _Scanner(text)
        scanner.scan()
        return ParsedDocument(
            sections=key_sections(text, scanner.root),
            language=language,
            blocks=tuple(scanner.blocks),
        )


@dataclass(slots=True)
class _Table:
    """An open table; `element` is the latest one if it is an array of tables."""

    name: str
    entry: Entry
    element: Entry | None = None

    @property
    def inner(self) -> Entry:
        """What keys and tables below it are children of."""
        return self.element or self.entry


class _Scanner:
    """Reads a file line by line, a value over several lines at once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root = root_entry()
        self.blocks: list[Block] = []
        self._tables: list[_Table] = []
        self._elements_by_path: dict[tuple[str, ...], int] = {}
        self._naming: ElementNaming | None = None
        self._never_closed: set[str] = set()

    def scan(self) -> None:
        """Fill `root` and `blocks`."""
        text = self.text
        line, line_start = 1, 0
        comment_start: int | None = None
        while line_start < len(text):
            start_char = line_start if comment_start is None else comment_start
            element, key, end = None, None, line_start
            if table := (element := _ELEMENT.match(text, line_start)) or _TABLE.match(
                text, line_start
            ):
                self._open_table(_names(table), bool(element), (start_char, line_start, line))
            elif key := _KEY.match(text, line_start):
                self._add_key(_names(key), key.end(), (start_char, line_start, line))
                end = self._value_end(key.end())
            end = text.find("\n", end)
            end = len(text) if end < 0 else end
            lines = text.count("\n", line_start, end)
            if lines:
                block_end = without_crs(text, line_start, end)
                self.blocks.append(Block(line_start, block_end, line_start))
            if table or key:
                comment_start = None
            elif comment_start is None and text[line_start:end].lstrip()[:1] == "#":
                comment_start = line_start
            line, line_start = line + lines + 1, end + 1

    def _open_table(self, names: list[str], is_element: bool, place: tuple[int, int, int]) -> None:
        tables = self._tables
        known = 0
        while known < min(len(names), len(tables)) and tables[known].name == names[known]:
            known += 1
        if known == len(names) and not (is_element and tables[known - 1].element):
            known -= 1  # defined a second time: an entry of its own
        del tables[known:]
        for name in names[known:]:
            above = tables[-1].inner if tables else self.root
            entry = above.add((heading_name(name),), *place)
            entry.is_implied = True
            tables.append(_Table(name, entry))
        last = tables[-1]
        self._naming = None
        if is_element:
            path = tuple(names)
            index = self._elements_by_path[path] = self._elements_by_path.get(path, -1) + 1
            last.element = last.entry.add((f"[{index}]",), *place)
            self._naming = ElementNaming(last.element)
        else:
            last.entry.is_implied = False

    def _add_key(self, names: list[str], value_start: int, place: tuple[int, int, int]) -> None:
        if self._naming and len(names) == 1 and self._naming.wants(names[0]):
            value = _SCALAR.match(self.text, value_start)
            if value:
                basic, literal, bare = value.groups()
                self._naming.take(names[0], unescaped(basic or "") or literal or bare or "")
        owner = self._tables[-1].inner if self._tables else self.root
        owner.add(tuple(heading_name(name) for name in names), *place)

    def _value_end(self, start: int) -> int:
        """Where the value that begins there ends: at a line's end outside brackets and strings."""
        text = self.text
        depth, position = 0, start
        while found := _VALUE_TOKEN.search(text, position):
            token, position = found.group(), found.end()
            if token == "\n":
                if depth <= 0 or _TABLE_AFTER_ALL.match(text, position):
                    return position - 1
            elif token in ("[", "{"):
                depth += 1
            elif token in ("]", "}"):
                depth -= 1
            elif token in _MULTI_LINE and token not in self._never_closed:
                string = _MULTI_LINE[token].match(text, position)
                if string:
                    position = string.end()
                else:
                    self._never_closed.add(token)
        return len(text)


def _names(found: re.Match[str]) -> list[str]:
    """Names of a dotted key, from the outermost; what is deeper than `MAX_DEPTH` is left out."""
    parts = _NAME.findall(found["names"])[:MAX_DEPTH]
    return [
        unescaped(part[1:-1]) if part[0] == '"' else part[1:-1] if part[0] == "'" else part
        for part in parts
    ]
