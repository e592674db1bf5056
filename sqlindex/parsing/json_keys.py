"""JSON: sections by key, escapes as their characters, whatever the syntax errors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlindex.model.documents import ParsedDocument, Rendered
from sqlindex.parsing.json_tokens import TOKEN, rendered_escapes, unescaped
from sqlindex.parsing.key_tree import (
    MAX_DEPTH,
    MAX_NAME_CHARS,
    ElementNaming,
    Entry,
    heading_name,
    key_sections,
    root_entry,
)

JSON_VERSION = 1
"""1: sections by key path, escapes rendered."""

_CLOSER = {"{": "}", "[": "]"}
_SCALAR = re.compile(r'\s*+(?:"([^"\\\n]*+(?:\\.[^"\\\n]*+)*+)"|(-?\d[^\s,}\]]*+))')


class JsonParser:
    """Parser of JSON, with comments and trailing commas too.

    It checks nothing: brackets that do not match give fewer sections. The elements of an array
    are named by a telling member (`name`, `title`, `id`, `key`) among their first, else by their
    index, as `[3]`. A file on one line is one section.
    """

    @property
    def id(self) -> str:
        """Name in the registry."""
        return "json"

    @property
    def version(self) -> int:
        """Behaviour version."""
        return JSON_VERSION

    def parse(self, text: str, language: str) -> ParsedDocument:
        """Find sections and escapes. A file name says more than a member called `title`."""
        root, rendered = _read(text)
        return ParsedDocument(
            sections=key_sections(text, root), language=language, rendered=tuple(rendered)
        )


@dataclass(slots=True)
class _Container:
    """An open bracket.

    Attributes:
        owner: what its members are children of; None if they begin no sections.
        last: the latest key, which a bracket that follows belongs to.
        index: of the element that comes next in an array.
        naming: for an object that is an element of an array.
    """

    owner: Entry | None
    last: Entry | None = None
    index: int = 0
    naming: ElementNaming | None = None


def _read(text: str) -> tuple[Entry, list[Rendered]]:
    root = root_entry()
    rendered: list[Rendered] = []
    closers: list[str] = []  # of all open brackets
    containers: list[_Container] = []  # of the outermost
    # What stands outside of all brackets counts as members of an object without its braces.
    outside = _Container(root, last=root)
    line, line_start = 1, 0
    token_line = 0  # a comment behind something belongs to that, not to the next key
    comment_start: int | None = None
    for token in TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "newline":
            line += token.end() - token.start()
            line_start = token.end()
            continue
        if kind == "comment":
            if comment_start is None and token_line < line:
                comment_start = line_start
            line += text.count("\n", token.start(), token.end())
            line_start = text.rfind("\n", token.start(), token.end()) + 1 or line_start
            continue
        start_char = line_start if comment_start is None else comment_start
        comment_start, token_line = None, line
        is_deep = len(closers) > len(containers)
        top = None if is_deep else containers[-1] if containers else outside
        is_array = closers[-1:] == ["]"]
        if kind in ("string", "key"):
            start, end = token.span("string")
            string = token.group("string")
            if "\\" in string:
                rendered.extend(rendered_escapes(text, start + 1, end))
            if kind == "key" and top and top.owner and not is_array:
                name = unescaped(string[1 : 6 * MAX_NAME_CHARS].removesuffix('"'))
                if top.naming:
                    _name_element(top.naming, name, text, token.end())
                top.last = top.owner.add((heading_name(name),), start_char, line_start, line)
        elif kind == "open":
            if top and len(closers) < MAX_DEPTH:
                containers.append(_opened(top, is_array, (start_char, line_start, line)))
            closers.append(_CLOSER[token.group()])
        elif kind == "close":
            # A bracket that closes the last but one closes the last one too.
            if token.group() in closers[-2:]:
                del closers[-1 if closers[-1] == token.group() else -2 :]
                del containers[len(closers) :]
                if not closers:
                    outside.last = root
        elif top and closers:
            top.index += 1
            top.last = None
    return root, rendered


def _opened(top: _Container, is_array: bool, place: tuple[int, int, int]) -> _Container:
    """The container of a bracket that opens in `top`."""
    if not is_array:
        owner, top.last = top.last, None
        return _Container(owner)
    if top.owner is None:
        return _Container(None)
    element = top.owner.add((f"[{top.index}]",), *place)
    return _Container(element, naming=ElementNaming(element))


def _name_element(naming: ElementNaming, key: str, text: str, value_start: int) -> None:
    if naming.wants(key):
        value = _SCALAR.match(text, value_start)
        if value:
            naming.take(key, unescaped(value[1] or value[2] or ""))
