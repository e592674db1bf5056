"""Spelling errors in queries: how much does a ranking lose when people mistype?"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

MIN_LETTERS = 5
"""Shorter words are left as they are: one error makes another word of them."""

ERROR_RATE = 0.5
"""Chance of a long word to get its error."""

Keyboard = Literal["qwertz", "qwerty"]
KEYBOARDS: tuple[Keyboard, ...] = get_args(Keyboard)

_ROWS: dict[Keyboard, tuple[str, ...]] = {
    "qwertz": ("qwertzuiopü", "asdfghjklöä", "yxcvbnm", "ß"),
    "qwerty": ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
}
_OPENING = "\"'„“”‚‘’»«›‹([{¿¡"
_CLOSING = ".,;:!?…)]}\"'“”„‘’»«›‹"
_JOINT = re.compile(r"([-‐'’])")


@dataclass(frozen=True, slots=True)
class MistypedText:
    """A text and what was done to it.

    Attributes:
        text: in NFC.
        long_words: words that could have got an error, with repetition.
        errors: words that got one; at most `long_words`.
    """

    text: str
    long_words: int
    errors: int


def with_typos(
    text: str, *, seed: int, rate: float = ERROR_RATE, keyboard: Keyboard = "qwertz"
) -> MistypedText:
    """Put one spelling error into about `rate` of the words of at least `MIN_LETTERS` letters.

    An error is, with equal chance, one letter left out, one too many (the last one again, or any),
    one replaced (by its neighbour on the keyboard, or any), or two that change places. It always
    changes the word and never its first letter: 98 of 100 misspelt words in LibreOffice's correction
    lists have the right one. Letters are graphemes, so an accent stays with its letter.

    Only plain Latin words are touched: lower case or with one capital at the start, alone, in
    punctuation, or joined by hyphens and apostrophes. Numbers, identifiers (`meter_id`, `camelCase`,
    `a.b`, `E-217`), acronyms, addresses and words of other scripts stay. White space stays.

    Args:
        text: a query.
        seed: the same text with the same seed gets the same errors, whatever else is mistyped, on
            every machine and Python version.
        rate: from 0 to 1.
        keyboard: whose neighbours and letters; `qwertz` has ä, ö, ü and ß.

    Raises:
        ValueError: `rate` or `keyboard` is out of range.
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must be from 0 to 1, not {rate}")
    if keyboard not in KEYBOARDS:
        raise ValueError(f"keyboard must be one of {', '.join(KEYBOARDS)}, not {keyboard!r}")
    normal = unicodedata.normalize("NFC", text)
    typist = _Typist(random.Random(f"{seed} {normal}"), _ROWS[keyboard])
    long_words = errors = 0
    pieces: list[str] = []
    for piece, is_word in _pieces(normal):
        letters = _graphemes(piece) if is_word else []
        if len(letters) < MIN_LETTERS:
            pieces.append(piece)
            continue
        long_words += 1
        if typist.chance() < rate:
            errors += 1
            piece = "".join(typist.mistype(letters))
        pieces.append(piece)
    return MistypedText(unicodedata.normalize("NFC", "".join(pieces)), long_words, errors)


class _Typist:
    """Makes the errors.

    Draws only by `random()`: it alone is promised to give the same numbers in every Python version.
    """

    def __init__(self, source: random.Random, rows: tuple[str, ...]) -> None:
        self.chance = source.random
        self._rows = rows
        self._letters = "".join(rows)

    def mistype(self, letters: list[str]) -> list[str]:
        """The word with one error behind its first letter."""
        at = 1 + self._below(len(letters) - 1)
        before, behind = letters[:at], letters[at + 1 :]
        kind = self._below(4)
        if kind == 0:
            return before + behind
        if kind == 1:
            extra = letters[at] if self._below(2) else self._any_but("")
            return [*before, letters[at], extra, *behind]
        if kind == 2:
            return [*before, self._replacement(letters[at]), *behind]
        swaps = [i for i in range(1, len(letters) - 1) if letters[i] != letters[i + 1]]
        if not swaps:
            return before + behind
        at = swaps[self._below(len(swaps))]
        return [*letters[:at], letters[at + 1], letters[at], *letters[at + 2 :]]

    def _replacement(self, letter: str) -> str:
        row = next((row for row in self._rows if letter in row), "")
        at = row.find(letter)
        neighbours = row[max(at - 1, 0) : at] + row[at + 1 : at + 2]
        if neighbours and self._below(2):
            return neighbours[self._below(len(neighbours))]
        return self._any_but(letter)

    def _any_but(self, letter: str) -> str:
        letters = self._letters.replace(letter, "") if letter else self._letters
        return letters[self._below(len(letters))]

    def _below(self, limit: int) -> int:
        return int(self.chance() * limit)


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """The text in order, cut into plain words (True) and what stands between them (False)."""
    for token in re.split(r"(\s+)", text):
        core = token.lstrip(_OPENING)
        opening = token[: len(token) - len(core)]
        core = core.rstrip(_CLOSING)
        closing = token[len(opening) + len(core) :]
        parts = _JOINT.split(core)
        is_plain = all(_is_plain_word(word) for word in parts[::2])
        yield opening, False
        for part in parts:
            yield part, is_plain and _JOINT.fullmatch(part) is None
        yield closing, False


def _is_plain_word(word: str) -> bool:
    """Latin letters with their accents, no capital behind the first."""
    return (
        bool(word)
        and word[0].isalpha()
        and all(
            unicodedata.combining(character)
            or (character.isalpha() and unicodedata.name(character, "").startswith("LATIN"))
            for character in word
        )
        and word[1:] == word[1:].lower()
    )


def _graphemes(word: str) -> list[str]:
    letters: list[str] = []
    for character in word:
        if unicodedata.combining(character):
            letters[-1] += character
        else:
            letters.append(character)
    return letters
