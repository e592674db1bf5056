"""A cheap look at which languages texts are in: enough to say that a model was not made for them.

A text counts as of another script when three tenths of its letters are, and as German when a
twelfth of its words are German function words, three different ones at least, and English ones
are fewer. Other languages in
Latin letters are not told from English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlindex.model.languages import LanguageSigns

_GERMAN = frozenset(
    [
        "aber",
        "auch",
        "auf",
        "aus",
        "bei",
        "das",
        "dass",
        "dem",
        "den",
        "der",
        "des",
        "die",
        "durch",
        "ein",
        "eine",
        "einem",
        "einen",
        "einer",
        "eines",
        "für",
        "hat",
        "ich",
        "im",
        "ist",
        "kann",
        "mit",
        "nach",
        "nicht",
        "noch",
        "nur",
        "oder",
        "sich",
        "sie",
        "sind",
        "über",
        "um",
        "und",
        "von",
        "vor",
        "werden",
        "wie",
        "wird",
        "wir",
        "zu",
        "zum",
        "zur",
    ]
)
"""Without words that English has too: an, am, in, man, so, war, was."""
_ENGLISH = frozenset(
    [
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "for",
        "from",
        "has",
        "have",
        "if",
        "is",
        "it",
        "not",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "was",
        "which",
        "will",
        "with",
        "you",
    ]
)
_OTHER_SCRIPT_SHARE = 0.3
_GERMAN_SHARE = 1 / 12
_GERMAN_WORDS = 3
_WORD = re.compile(r"[^\W\d_]+")
_LAST_LATIN = "\u024f"


def language_signs(texts: Iterable[str]) -> LanguageSigns:
    """Count the texts, those in other scripts and those in German."""
    count = other_scripts = german = 0
    for text in texts:
        words = _WORD.findall(text.lower())
        letters = sum(map(len, words))
        count += 1
        if not letters:
            continue
        latin = sum(character <= _LAST_LATIN for word in words for character in word)
        found = [word for word in words if word in _GERMAN]
        if letters - latin >= _OTHER_SCRIPT_SHARE * letters:
            other_scripts += 1
        elif (
            len(set(found)) >= _GERMAN_WORDS
            and len(found) >= _GERMAN_SHARE * len(words)
            and len(found) > sum(word in _ENGLISH for word in words)
        ):
            german += 1
    return LanguageSigns(count, other_scripts, german)
