"""YAML: sections by key, found line by line from the indentation."""

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

YAML_VERSION = 1
"""1: sections by key path, block scalars as blocks."""

_KEY = re.compile(
    r"""(?:"(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t]*+"""
    r"""|'(?P<single>[^']*+(?:''[^']*+)*+)'[ \t]*+"""
    r"""|(?P<plain>(?:[^\s#&*!|>'"%@`\[\]{},?:-]|[?:-](?=\S))[^:#]*+(?:(?::(?=\S)|(?<=\S)\#)[^:#]*+)*+)"""
    r"""):(?=\s|$)"""
)
_DASH = re.compile(r"-(?:[ \t]++|$)")
_PROPERTIES = re.compile(r"[ \t]*+(?:[&!]\S*+(?:[ \t]++|$))*+")
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*+[ \t]*+(?:#.*+)?$")
_FLOW = re.compile(
    r"""(?P<open>[\[{])|(?P<close>[\]}])|"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^']*+'|\s\#.*+"""
)
_QUOTED = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+(?P<close>")?+'),
    "'": re.compile(r"[^']*+(?:''[^']*+)*+(?P<close>')?+"),
}
_MARKER = re.compile(r"(?:---|\.\.\.)(?:[ \t]|$)")


class YamlParser:
    """Parser of YAML streams.

    Nothing is expanded or checked: an alias is a word, a flow collection stays whole, and lines
    that fit nowhere belong to the key above them. The elements of a list that hold keys are named
    by a telling member (`name`, `title`, `id`, `key`) among their first, else by their index. The
    documents of a stream are kept apart without a name.
    """

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "yaml"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return YAML_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Find sections and block scalars. A file name says more than a key called `title`."""
        scanner = _Scanner(text)
        scanner.scan()
        return ParsedDocument(
            sections=key_sections(text, scanner.root),
            language=language,
            blocks=tuple(scanner.blocks),
        )


@dataclass(slots=True)
class _Collection:
    """A mapping or sequence whose keys or dashes stand in `column`.

    `owner` is what its members are children of, None if they begin no sections; `last` the latest
    member while something deeper may still belong to it.
    """

    column: int
    is_sequence: bool
    owner: Entry | None
    last: Entry | None = None
    index: int = -1
    naming: ElementNaming | None = None


@dataclass(slots=True)
class _OpenScalar:
    """A value that goes on over lines: `until` is `|`, `[` or a quote."""

    until: str
    column: int
    start_char: int
    end_char: int
    depth: int = 0


class _Scanner:
    """Reads a stream line by line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root = root_entry()
        self.blocks: list[Block] = []
        self._document = self.root
        self._collections: list[_Collection] = []
        self._value: _OpenScalar | None = None
        self._comment_start: int | None = None
        self._line = 0
        self._line_start = 0
        self._naming: ElementNaming | None = None

    def scan(self) -> None:
        """Fill `root` and `blocks`."""
        text, size = self.text, len(self.text)
        while self._line_start < size:
            self._line += 1
            after = text.find("\n", self._line_start) + 1 or size + 1
            end = without_crs(text, self._line_start, min(after - 1, size))
            line = text[self._line_start : end]
            content = line.lstrip(" ")
            if content.strip():
                indent = len(line) - len(content)
                if not (self._value and self._goes_on(self._value, line, indent, end)):
                    self._close_value()
                    self._read_line(line, indent)
            self._line_start = after
        self._close_value()

    def _goes_on(self, value: _OpenScalar, line: str, indent: int, end: int) -> bool:
        """Whether the line belongs to the value that is open; it may end there."""
        if indent <= value.column and not (value.until == "[" and line[indent] in "]}"):
            return False
        value.end_char = end
        if value.until == "[":
            value.depth += _nesting(line)
            is_done = value.depth <= 0
        elif value.until == "|":
            is_done = False
        else:
            closing = _QUOTED[value.until].match(line)
            is_done = closing is not None and closing["close"] is not None
        if is_done:
            self._close_value()
        return True

    def _close_value(self) -> None:
        value, self._value = self._value, None
        if value and value.until == "|":
            self.blocks.append(Block(value.start_char, value.end_char, value.start_char))

    def _read_line(self, line: str, indent: int) -> None:
        if line[indent] == "#":
            if self._comment_start is None:
                self._comment_start = self._line_start
            return
        if indent == 0 and _MARKER.match(line):
            self._collections.clear()
            if line.startswith("-"):
                self._document = self.root.add((), *self._place())
            return
        column = indent
        self._naming = None
        owner_column = self._collections[-1].column if self._collections else -1
        while len(self._collections) <= MAX_DEPTH and (dash := _DASH.match(line, column)):
            behind = dash.end()
            if not self._read_dash(line, column, behind):
                return
            owner_column, column = column, behind
        key = _KEY.match(line, column)
        if key:
            self._read_key(line, column, key)
        else:
            self._read_value(line, column, owner_column)

    def _place(self) -> tuple[int, int, int]:
        """Where an entry on this line starts, its line's start and number; takes the comments."""
        start = self._line_start if self._comment_start is None else self._comment_start
        self._comment_start = None
        return start, self._line_start, self._line

    def _collection_at(self, column: int, is_sequence: bool) -> _Collection:
        """The open collection of that column, or a new one inside what is open above it."""
        collections = self._collections
        while collections and (
            collections[-1].column > column
            # The dashes of a key's list may stand below the key itself, not the other way round.
            or (collections[-1].column == column and collections[-1].is_sequence > is_sequence)
        ):
            collections.pop()
        top = collections[-1] if collections else None
        if top and top.column == column and top.is_sequence == is_sequence:
            return top
        owner = top.last if top else self._document
        if len(collections) >= MAX_DEPTH:
            owner = None
        collection = _Collection(column, is_sequence, owner)
        collections.append(collection)
        return collection

    def _read_dash(self, line: str, column: int, behind: int) -> bool:
        """Begin an element of a sequence; say whether the rest of the line lies in it."""
        sequence = self._collection_at(column, is_sequence=True)
        sequence.index += 1
        sequence.last = self._naming = None
        if sequence.owner and _may_hold_keys(line, behind):
            sequence.last = sequence.owner.add((f"[{sequence.index}]",), *self._place())
            self._naming = ElementNaming(sequence.last)
        return behind < len(line)

    def _read_key(self, line: str, column: int, key: re.Match[str]) -> None:
        collections_before = len(self._collections)
        mapping = self._collection_at(column, is_sequence=False)
        if len(self._collections) > collections_before and self._collections[-1] is mapping:
            mapping.naming = self._naming or self._naming_above(mapping)
        name = _key_name(key)
        if mapping.naming and mapping.naming.wants(name):
            mapping.naming.take(name, _plain_value(line, key.end()))
        entry = None
        if mapping.owner:
            entry = mapping.owner.add((heading_name(name),), *self._place())
        value_start = _behind_properties(line, key.end())
        mapping.last = None
        if value_start == len(line) or line[value_start] == "#":
            mapping.last = entry
        else:
            self._read_value(line, value_start, column)

    def _naming_above(self, mapping: _Collection) -> ElementNaming | None:
        """For a mapping that begins on the line below its dash."""
        above = self._collections[-2] if len(self._collections) > 1 else None
        if above and above.is_sequence and mapping.owner:
            return ElementNaming(mapping.owner)
        return None

    def _read_value(self, line: str, start: int, column: int) -> None:
        """Note a value that may go on below; `column` is that of the key or dash it belongs to."""
        start = _behind_properties(line, start)
        first = line[start : start + 1]
        line_char = self._line_start
        value = _OpenScalar(first, column, line_char, line_char + len(line))
        if first in ("|", ">") and _BLOCK_SCALAR.match(line, start):
            value.until = "|"
            self._value = value
        elif first in ("[", "{"):
            value.until, value.depth = "[", _nesting(line[start:])
            self._value = value if value.depth > 0 else None
        elif first in ('"', "'"):
            closing = _QUOTED[first].match(line, start + 1)
            self._value = None if closing and closing["close"] else value


def _may_hold_keys(line: str, start: int) -> bool:
    """Whether an element whose text begins there is more than a scalar on one line."""
    value_start = _behind_properties(line, start)
    return bool(
        value_start == len(line)
        or line[value_start] in "#|>"
        or _DASH.match(line, value_start)
        or _KEY.match(line, start)
    )


def _behind_properties(line: str, start: int) -> int:
    """Where a value begins, behind anchors and tags."""
    found = _PROPERTIES.match(line, start)
    assert found is not None  # it matches nothing at least
    return found.end()


def _nesting(line: str) -> int:
    depth = 0
    for token in _FLOW.finditer(line):
        depth += {"open": 1, "close": -1}.get(token.lastgroup or "", 0)
    return depth


def _key_name(key: re.Match[str]) -> str:
    if key["double"] is not None:
        return unescaped(key["double"])
    if key["single"] is not None:
        return key["single"].replace("''", "'")
    return key["plain"].rstrip()


def _plain_value(line: str, start: int) -> str:
    """A value on the line of its key without quotes and comment; empty for anything else."""
    value = line[_behind_properties(line, start) :].strip()
    if value[:1] in ('"', "'"):
        closing = _QUOTED[value[0]].match(value, 1)
        if not (closing and closing["close"]):
            return ""
        inner = value[1 : closing.end() - 1]
        return unescaped(inner) if value[0] == '"' else inner.replace("''", "'")
    if value[:1] in ("|", ">", "[", "{", "*", "#"):
        return ""
    return value.partition(" #")[0]
