"""Where a section is best cut: after blank lines, closing braces, before what starts anew."""

from __future__ import annotations

import re

from sqlindex.model.chunks import Cut

INSIDE = 0
"""In the middle of a paragraph or block."""
BEFORE_START = 1
"""The next line starts a list item, a quote, a definition; or an indented block just closed."""
AFTER_INDENTED_BLANK = 2
"""A blank line inside an indented block."""
AFTER_CLOSING_BRACE = 3
"""A closing brace at the margin: a top-level block ends."""
AFTER_BLANK = 4
"""A blank line, and the next line stands at the margin: paragraphs, functions."""

_CLOSES = re.compile(r"\s*(?:[}\])]+[;,]?|end|fi|done|esac|</\w+>)\s*$")
_STARTS = re.compile(
    r"""\s*(?:
        [-*+•]\s | \d{1,9}[.)]\s | \(\d{1,3}[a-z]?\)\s | > | \| | @\w
      | (?:export\s+|public\s+|private\s+|protected\s+|static\s+|async\s+|pub\s+)*
        (?:def|class|func|fn|function|interface|struct|enum|impl|type|module|namespace)\b
    )""",
    re.VERBOSE,
)


def boundary_strength(previous: str, following: str, *, is_blank_between: bool) -> int:
    """How good a cut between two successive non-blank lines is; higher is better.

    Args:
        previous: the last line before the cut.
        following: the first line after it.
        is_blank_between: whether blank lines stand between the two.

    Returns:
        One of the constants of this module.
    """
    is_at_margin = following[:1] not in (" ", "\t")
    if is_blank_between:
        return AFTER_BLANK if is_at_margin else AFTER_INDENTED_BLANK
    if _CLOSES.match(previous):
        return BEFORE_START if previous[:1] in (" ", "\t") else AFTER_CLOSING_BRACE
    return BEFORE_START if _STARTS.match(following) else INSIDE


def torn(strength: int) -> int:
    """The strength of a cut that tears a block which would fit into a chunk: below any other."""
    return strength - 1 - AFTER_BLANK


def cut_at(strength: int) -> Cut:
    """Why a chunk ends at a boundary of that strength."""
    return _CUT_BY_STRENGTH.get(strength, Cut.LINE)


_CUT_BY_STRENGTH = {
    BEFORE_START: Cut.ITEM,
    AFTER_INDENTED_BLANK: Cut.BLANK_LINE,
    AFTER_CLOSING_BRACE: Cut.CLOSING,
    AFTER_BLANK: Cut.BLANK_LINE,
}
