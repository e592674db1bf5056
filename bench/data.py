"""Evaluation data on disk, and seeded texts where none is needed."""

from __future__ import annotations

import os
import random
import tarfile
from pathlib import Path

from bench.machine import ROOT, SEED
from sqlindex.errors import UsageError

VARIABLE = "SQLINDEX_DATA"


def data_root() -> Path:
    """Where the evaluation data lies.

    Raises:
        UsageError: it is not on this machine.
    """
    root = Path(os.environ.get(VARIABLE) or ROOT.parent / "shared" / "data")
    if not root.is_dir():
        raise UsageError(
            "the evaluation data is not there", hint=f"set {VARIABLE} to the folder that holds it"
        )
    return root


def data_folder(name: str) -> Path:
    """A folder of the evaluation data.

    Raises:
        UsageError: it is not on this machine.
    """
    folder = data_root() / name
    if not folder.is_dir():
        raise UsageError(
            f"the evaluation data {name!r} is not there",
            hint=f"set {VARIABLE} to the folder that holds it",
        )
    return folder


def unpack_tree(target: Path, limit: int | None) -> list[Path]:
    """Unpack docs-large, or that many of its files, spread evenly over it.

    Returns:
        The unpacked files in ascending order.
    """
    with tarfile.open(data_folder("docs-large") / "tree.tar.gz") as archive:
        members = sorted((m for m in archive.getmembers() if m.isfile()), key=lambda m: m.name)
        count = len(members) if limit is None else min(limit, len(members))
        chosen = [members[at * len(members) // count] for at in range(count)]
        archive.extractall(target, chosen, filter="data")
    return [target / member.name for member in chosen]


class Texts:
    """Seeded texts of made-up words whose frequencies fall as in natural language (Zipf)."""

    def __init__(self, *, vocabulary: int = 20_000) -> None:
        self._random = random.Random(SEED)
        syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
        words: dict[str, None] = {}
        while len(words) < vocabulary:
            words["".join(self._random.choices(syllables, k=self._random.randint(2, 4)))] = None
        self._words = list(words)
        total = 0.0
        self._cumulative = [total := total + 1 / rank for rank in range(1, vocabulary + 1)]

    def text(self, words: int = 90) -> str:
        """A text of about 600 characters: one chunk."""
        return " ".join(self._random.choices(self._words, cum_weights=self._cumulative, k=words))

    def query(self) -> str:
        """Three words, as frequent as in the texts but for the most frequent fifty."""
        words: list[str] = []
        while len(words) < 3:
            word = self.text(1)
            if word not in self._words[:50]:
                words.append(word)
        return " ".join(words)
