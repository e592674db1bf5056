"""Tokens of HTML with their positions, in one pass that no input can slow down.

The HTML Living Standard's tokenizer, section 13.2.5, reduced to what reading a page needs: where
markup begins and ends, which text is raw, what character references stand for.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from functools import cache
from html.entities import html5
from types import MappingProxyType
from typing import NamedTuple

_SPACE = r"\t\n\f\r "
_MARKUP = re.compile("[<&]")
_TAG_NAME = re.compile(rf"<(/?)([a-zA-Z][^{_SPACE}/>]*+)")
_ATTRIBUTE = re.compile(
    rf"[{_SPACE}/]*+(?:(>)|(=?[^{_SPACE}/>=]*+)"
    rf"(?:[{_SPACE}]*+=[{_SPACE}]*+(?:\"([^\"]*+)\"|'([^']*+)'|([^{_SPACE}>\"'][^{_SPACE}>]*+)?+))?+)"
)
_COMMENT_END = re.compile("--!?>")
_REFERENCE = re.compile(
    r"&(?:#[xX]([0-9a-fA-F]++);?+|#([0-9]++);?+|([a-zA-Z][a-zA-Z0-9]{0,31}+;?+))"
)
_SCRIPT_STATE = re.compile(rf"<!--|-->|<(/?)script(?=[{_SPACE}/>])", re.IGNORECASE)

_UNREAD_RAW_TEXT = frozenset(("iframe", "noembed", "noframes", "script", "style"))
_ESCAPABLE_RAW_TEXT = frozenset(("textarea", "title"))
_RAW_TEXT = _UNREAD_RAW_TEXT | _ESCAPABLE_RAW_TEXT | {"xmp"}
_LEAVES_FOREIGN_NAMES = (
    "blockquote body center code dd div dl dt em h1 h2 h3 h4 h5 h6 head hr img li ol p pre"
    " small span strong table ul"
)
_LEAVES_FOREIGN = frozenset(_LEAVES_FOREIGN_NAMES.split())
_LAST_CODE_POINT = 0x10FFFF

NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


class TokenKind(Enum):
    """What a token is; text between tokens reads as it stands."""

    START = auto()
    """A start tag."""
    END = auto()
    """An end tag."""
    COMMENT = auto()
    """A comment, doctype or processing instruction: nothing of it is read."""
    RAW = auto()
    """What stands between the tags of a script, style sheet or inline frame."""
    REFERENCE = auto()
    """A character reference (`&amp;`)."""


class Token(NamedTuple):
    """A piece of markup: `name` of the tag in lower case, `value` of a character reference."""

    kind: TokenKind
    start: int
    end: int
    name: str = ""
    attributes: Mapping[str, str] = NO_ATTRIBUTES
    is_foreign: bool = False
    value: str = ""


def tokens(text: str) -> Iterator[Token]:
    """Yield the markup of `text` in order.

    A tag, comment or declaration that the text ends in is no markup: it and the text behind it
    read as they stand, so that a broken page loses nothing. A quote that is never closed begins
    no attribute value.
    """
    position = 0
    foreign_depth = 0
    while (found := _MARKUP.search(text, position)) is not None:
        start = found.start()
        if text[start] == "&":
            reference = _REFERENCE.match(text, start)
            position = reference.end() if reference else start + 1
            if reference:
                yield Token(
                    TokenKind.REFERENCE, start, position, value=_characters(reference, in_text=True)
                )
            continue
        opening = _TAG_NAME.match(text, start)
        if opening is None:
            declaration = _declaration_end(text, start, foreign_depth > 0)
            if declaration is None:
                return
            kind_end, position = declaration
            if kind_end > start:
                yield Token(TokenKind.COMMENT, start, kind_end)
            if position > kind_end > start:
                yield Token(TokenKind.COMMENT, position - 3, position)
            continue
        name = opening[2].lower()
        read = _attributes(text, opening.end())
        if read is None:
            return
        position, attributes = read
        if opening[1]:
            foreign_depth -= foreign_depth > 0 and name in ("svg", "math")
            yield Token(TokenKind.END, start, position, name)
            continue
        is_closed = text[position - 2] == "/"
        if name in ("svg", "math"):
            foreign_depth += not is_closed
        elif name in _LEAVES_FOREIGN:
            foreign_depth = 0
        yield Token(TokenKind.START, start, position, name, attributes, foreign_depth > 0)
        if foreign_depth and (is_closed or name in _ESCAPABLE_RAW_TEXT):
            continue
        if name in _RAW_TEXT:
            end = _raw_text_end(text, position, name)
            if name in _UNREAD_RAW_TEXT and end > position:
                yield Token(TokenKind.RAW, position, end, name)
            elif name in _ESCAPABLE_RAW_TEXT:
                for reference in _REFERENCE.finditer(text, position, end):
                    value = _characters(reference, in_text=True)
                    yield Token(
                        TokenKind.REFERENCE, reference.start(), reference.end(), value=value
                    )
            position = end


def _declaration_end(text: str, start: int, in_foreign: bool) -> tuple[int, int] | None:
    """Where the markup that is no tag ends, and where to read on; None if the text ends in it.

    The first is `start` for a `<` that is text; it lies before the second for a CDATA section,
    whose text is read.
    """
    if text.startswith("<!--", start):
        if text.startswith(">", start + 4):
            return start + 5, start + 5
        if text.startswith("->", start + 4):
            return start + 6, start + 6
        closing = _COMMENT_END.search(text, start + 4)
        return (closing.end(), closing.end()) if closing else None
    if in_foreign and text.startswith("<![CDATA[", start):
        end = text.find("]]>", start + 9)
        return (start + 9, end + 3) if end >= 0 else None
    if text.startswith(("<!", "<?", "</"), start) and start + 2 < len(text):
        end = text.find(">", start + 2)
        return (end + 1, end + 1) if end >= 0 else None
    return start, start + 1


def _attributes(text: str, position: int) -> tuple[int, Mapping[str, str]] | None:
    """End of the tag whose name ends at `position`, and its attributes; None without an end."""
    if text.startswith(">", position):
        return position + 1, NO_ATTRIBUTES
    attributes: dict[str, str] = {}
    while (found := _ATTRIBUTE.match(text, position)) is not None:
        position = found.end()
        closing, name, double, single, unquoted = found.groups()
        if closing:
            return position, attributes
        if not name:
            return None
        value = double or single or unquoted or ""
        attributes.setdefault(name.lower(), value)
    return None


def attribute_text(value: str) -> str:
    """What the source of an attribute value stands for, its character references read."""
    if "&" not in value:
        return value

    def characters(reference: re.Match[str]) -> str:
        following = value[reference.end() : reference.end() + 1]
        # `?a=1&copy=2` is no copyright sign.
        if not reference[0].endswith(";") and (following == "=" or following.isalnum()):
            return reference[0]
        return _characters(reference, in_text=False)

    return _REFERENCE.sub(characters, value)


def _characters(reference: re.Match[str], *, in_text: bool) -> str:
    """Characters of a reference; the reference itself if it is none.

    In text, the longest known name without a semicolon counts: `&notit` is `¬it`.
    """
    hexadecimal, decimal, name = reference.groups()
    if name:
        return html.unescape(reference[0]) if in_text else html5.get(name, reference[0])
    # More digits than a code point has would take int() quadratic time.
    digits = (hexadecimal or decimal).lstrip("0")
    code = int(digits or "0", 16 if hexadecimal else 10) if len(digits) < 9 else -1
    if 0x80 <= code <= 0x9F:
        return bytes((code,)).decode("cp1252", errors="ignore") or chr(code)
    is_character = 0 < code <= _LAST_CODE_POINT and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else "\ufffd"


def _raw_text_end(text: str, start: int, name: str) -> int:
    """Where the text of an element ends that only its own end tag ends."""
    if name != "script":
        closing = _end_tag(name).search(text, start)
        return closing.start() if closing else len(text)
    # A script may hold `<!-- <script> … </script> -->`: the inner end tag is part of it.
    is_escaped = is_nested = False
    position = start
    while (found := _SCRIPT_STATE.search(text, position)) is not None:
        position = found.end()
        if found[0] == "<!--":
            is_escaped = True
            position -= 2  # `<!-->` is closed at once
        elif found[0] == "-->":
            is_escaped = is_nested = False
        elif not found[1]:
            is_nested = is_escaped
        elif is_nested:
            is_nested = False
        else:
            return found.start()
    return len(text)


@cache
def _end_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE)
