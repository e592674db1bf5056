"""Scripts that set no spaces between words: runs of Han, Hiragana and Katakana."""

from __future__ import annotations

import re
from functools import cache

UNSPACED = (
    "\u3005-\u3007\u3021-\u3029\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
)
"""Inside of a character class: letters of these scripts, without their punctuation."""


def has_unspaced_run(text: str) -> bool:
    """Whether a letter of these scripts stands in `text`."""
    return _below_runs().fullmatch(text) is None and _run().search(text) is not None


def bigrams(run: str) -> list[str]:
    """Overlapping pairs of a run in order; of a single character, itself."""
    return [run[at : at + 2] for at in range(len(run) - 1)] if len(run) > 1 else [run]


def spread(text: str) -> str:
    """Replace each run by its bigrams and then its single characters, with spaces between.

    The bigrams of a run stand side by side in its order, so that a phrase of bigrams finds a
    substring of the run.
    """
    return _run().sub(_spread_run, text)


# Compiled on first use: a query of plain letters, the common one, needs neither.
@cache
def _run() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED}]+")


@cache
def _below_runs() -> re.Pattern[str]:
    # One range is matched many times faster than the set above, and most texts lie within it.
    return re.compile("[\x00-\u3004]*")


def _spread_run(found: re.Match[str]) -> str:
    run = found[0]
    singles = [*run] if len(run) > 1 else []
    return f" {' '.join([*bigrams(run), *singles])} "
