"""How the command line prints: JSON for machines, escaped text for people."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Mapping

JSON_SCHEMA = 1
"""Version of the `--json` output of every command."""


def print_json(values: Mapping[str, object]) -> None:
    """One JSON object on stdout, with the schema's version first."""
    print(_as_json(values))


def print_json_error(code: str, message: str, hint: str = "", *, retryable: bool = False) -> None:
    """An error as the one JSON object on stdout."""
    print(json_error(code, message, hint, retryable=retryable))


def json_error(
    code: str, message: str, hint: str = "", *, retryable: bool = False, **details: object
) -> str:
    """The line that `print_json_error` prints, with what else an error says."""
    error = {"code": code, "message": message, "hint": hint, "retryable": retryable, **details}
    return _as_json({"error": error})


def print_json_line(values: Mapping[str, object]) -> None:
    """One line of JSON Lines on stdout."""
    print(json.dumps(values, ensure_ascii=False, default=_plain))


def print_text(text: str = "") -> None:
    """A line for people on stdout, control characters made visible."""
    print(visible(text))


def print_message(text: str) -> None:
    """A line on stderr: progress, summaries, warnings."""
    print(visible(text), file=sys.stderr)


def print_error(message: str, hint: str) -> None:
    """An error on stderr, and what to do on the next line.

    Further lines of the message are indented, so that a line break in a file name forges nothing.
    """
    first, *more = message.split("\n")
    print_message(f"error: {first}")
    for line in more:
        print_message(f"  {line.strip()}")
    if hint:
        print_message(f"hint: {hint}")


def visible(text: str) -> str:
    """Text safe for a terminal: control, direction and surrogate characters are escaped.

    A file name may hold an escape sequence or a right-to-left override.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c == "\t" or not _is_unsafe(c) else _escaped(c) for c in text)


def plural(count: int, noun: str) -> str:
    """`1 document`, `2 documents`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _as_json(values: Mapping[str, object]) -> str:
    return json.dumps({"schema": JSON_SCHEMA, **values}, ensure_ascii=False, default=_plain)


def _is_unsafe(character: str) -> bool:
    category = unicodedata.category(character)
    return category in ("Cc", "Cs") or (
        category == "Cf" and unicodedata.bidirectional(character) not in ("BN", "")
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _plain(value: object) -> object:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
