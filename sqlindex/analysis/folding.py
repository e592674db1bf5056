"""Folding: spellings that mean the same word become the same characters."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_COMBINING_DOT = "\u0307"
_ASCII_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), " ")
PRIVATE_USE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
DIACRITICS = "".join(
    chr(0x300 + bit)
    for bit in range(50)
    if (0x08029FDF if bit < 32 else 0x000361F8) >> (bit % 32) & 1
)
"""Combining marks that the tokenizer of FTS5 takes as a part of a term."""


def fold(text: str) -> str:
    """Fold a text for matching; offsets in the result do not index `text`.

    NFKC, then full case folding (`ß` and `ẞ` become `ss`), independent of the locale. A
    combining dot is dropped, so that `İZMİR` and `izmir` agree. Characters that are not seen
    vanish; control characters, NUL, lone surrogates and rare symbols become spaces, so that
    terms do not depend on the Unicode version of SQLite. Other diacritics stay: the tokenizer
    of FTS5 removes them.

    Linear in the text's length.
    """
    if text.isascii():
        return text.translate(_ASCII_CONTROLS).lower()
    text = unicodedata.normalize("NFKC", text)
    if _ordinary().fullmatch(text) is None:
        text = _controls().sub(" ", _unseen().sub("", text))
        text = text if text.isascii() else _separators().sub(" ", text)
    if text.isascii():
        return text.lower()
    folded = text.casefold()
    return folded.replace(_COMBINING_DOT, "") if _COMBINING_DOT in folded else folded


# Compiled on first use: a text of ASCII letters, as most queries are, needs none of them.
@cache
def _unseen() -> re.Pattern[str]:
    """Soft hyphen, zero-width and direction marks, tatweel, vowel marks of Arabic and Hebrew,
    variation selectors: drawn inside words, absent from what people type."""
    return re.compile(
        "[\u00ad\u034f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u061c\u0640\u064b-\u065f\u0670"
        "\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]+"
    )


@cache
def _controls() -> re.Pattern[str]:
    return re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@cache
def _separators() -> re.Pattern[str]:
    """FTS5 takes characters younger than its tables, many emoji among them, as a part of a term."""
    return re.compile(f"[^\\w\x00-\x7f{PRIVATE_USE}{DIACRITICS}]")


@cache
def _ordinary() -> re.Pattern[str]:
    """Ranges that the substitutions leave as they are or that FTS5's tables know: most texts."""
    return re.compile(
        "[\t\n\r\x20-\x7e\xa0-\xac\xae-\u034e\u0370-\u0482\u048a-\u052f\u1e00-\u1fff\u2010-\u2027"
        "\u2030-\u205e\u20a0-\u20b8\u2190-\u23f3\u2500-\u26ff\u3000-\u3029\u3041-\u3096\u30a0-\u30ff"
        "\u3400-\u4dbf\u4e00-\u9fcc\uac00-\ud7a3]*"
    )
