"""Tokens of JSON text and what its escapes read as; nothing here fails on broken text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlindex.model.documents import Rendered

# Possessive throughout: a token is read once, forwards. A string ends at the end of its line at
# the latest, as JSON has it, so that a missing quote spoils one line.
TOKEN = re.compile(
    r"""(?P<string>"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+(?:"|\\?+))(?P<key>[ \t\r]*+:)?+"""
    r"""|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,)|(?P<newline>\n++)"""
    r"""|(?P<comment>//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?+)"""
)
"""`lastgroup` tells the kind; `key` is a string that a colon follows. The rest is skipped."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r'|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|["\\/bfnrt])|\\.'
)
_CHARACTER = {"b": "\b", "f": "\f", "t": "\t", "n": " ", "r": " "}


def unescaped(content: str) -> str:
    """What the inside of a JSON string reads as."""
    if "\\" not in content:
        return content
    return _ESCAPE.sub(lambda found: _reading(found.group()), content)


def rendered_escapes(text: str, start_char: int, end_char: int) -> Iterator[Rendered]:
    """The escapes between two offsets inside a JSON string, each with its character.

    A line break and NUL read as a space. A surrogate pair is one character; a lone surrogate and
    what JSON does not know as an escape stay as they are.
    """
    for found in _ESCAPE.finditer(text, start_char, end_char):
        reading = _reading(found.group())
        if reading != found.group():
            yield Rendered(found.start(), found.end(), reading)


def _reading(escape: str) -> str:
    kind = escape[1]
    if kind in _CHARACTER:
        return _CHARACTER[kind]
    if len(escape) == 2:
        return kind if kind in '"\\/' else escape
    if len(escape) == 12:
        high, low = int(escape[2:6], 16), int(escape[8:], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    character = chr(int(escape[2:], 16))
    return " " if character in "\n\r\0" else character
