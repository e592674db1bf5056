"""Text in charts and pages: escaped, and cut to a width."""

from __future__ import annotations

import html
import re
import unicodedata

EM = 12
"""Units that a letter is tall."""

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def escaped(text: str) -> str:
    """`text` for HTML or XML, between tags or in quotes.

    Control characters, lone surrogates and what else XML forbids are shown as U+FFFD.
    """
    return html.escape(_UNPRINTABLE.sub("\ufffd", text), quote=True)


def wrapped(text: str, width: float) -> list[str]:
    """A text in lines that fit; a word that is too long is cut."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [fitting(line, width) for line in lines]


def fitting(text: str, width: float) -> str:
    """As much of a text as fits, on one line, with an ellipsis where it is cut."""
    line = " ".join(text.split())
    room = width - text_width("…")
    fits = 0  # letters that leave room for the ellipsis
    used = 0.0
    for letter in line:
        used += _letter_width(letter) * EM
        if used > width:
            return line[:fits].rstrip() + "…"
        fits += used <= room
    return line


def text_width(text: str) -> float:
    """About how wide a text is, rather more than less: fonts differ."""
    return sum(map(_letter_width, text)) * EM


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    if letter.isupper() or letter in "mw@%—…":
        return 0.85
    return 0.35 if letter in " .,:;'|!ijl()[]" else 0.62
