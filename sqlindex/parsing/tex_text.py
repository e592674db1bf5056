"""What simple TeX source reads as: titles and labels without commands and braces."""

from __future__ import annotations

import re
import unicodedata

_TOKEN = re.compile(
    r"\\(?P<accent>[`'^\"~=.uvHckrbd])(?P<braced>[ \t]*+\{[ \t]*+(?P<inner>\\?[^\W\d_]?)[ \t]*+\})"
    r"|\\(?P<mark>[`'^\"~=.])[ \t]*+(?P<letter>\\?[^\W\d_])(?:(?<=\\[ij])(?![^\W\d_])\s*+)?+"
    r"|\\(?P<command>[^\W\d_]++)\*?(?P<optional>[ \t]*+\[[^\]]*+\])?[ \t]*+"
    r"|\\(?P<symbol>.)|%[^\n]*+\n?[ \t]*+|(?P<brace>[{}$])|(?P<tie>~)"
    r"|(?P<quote>``|''|---|--)",
    re.DOTALL,
)
_ACCENTS = dict(
    zip(
        "`'^\"~=.uvHckrbd",
        "\u0300\u0301\u0302\u0308\u0303\u0304\u0307\u0306\u030c\u030b\u0327\u0328\u030a\u0331\u0323",
        strict=True,
    )
)
_LETTERS = {
    "ss": "ß",
    "SS": "ẞ",
    "ae": "æ",
    "AE": "Æ",
    "oe": "œ",
    "OE": "Œ",
    "o": "ø",
    "O": "Ø",
    "aa": "å",
    "AA": "Å",
    "l": "ł",
    "L": "Ł",
    "i": "ı",
    "j": "ȷ",
    "dots": "…",
    "ldots": "…",
    "LaTeX": "LaTeX",
    "TeX": "TeX",
    "LaTeXe": "LaTeX2e",
    "BibTeX": "BibTeX",
    "textendash": "–",
    "textemdash": "—",
    "copyright": "©",
    "euro": "€",
    "texteuro": "€",
    "S": "§",
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textunderscore": "_",
    "and": ",",
}
_SPACES = frozenset(("quad", "qquad", "newline", "linebreak", "par", "hfill", "space", "hspace"))
_UNREAD_ARGUMENT_NAMES = (
    "label footnote footnotemark thanks index vspace hspace cite ref pageref color hypertarget"
    " texorpdfstring vphantom"
)
_UNREAD_ARGUMENT = frozenset(_UNREAD_ARGUMENT_NAMES.split())
_QUOTES = {"``": "“", "''": "”", "--": "–", "---": "—"}


def plain_text(source: str) -> str:
    """Text of a heading, label or title on one line.

    Commands vanish and leave their arguments, except those whose first argument is no text
    (`\\label`, `\\footnote`); `~` is a space, accents and common letters are their characters.
    """
    if not any(character in source for character in "\\{}~$%`'-"):
        return " ".join(source.split())
    pieces = []
    position = 0
    while (found := _TOKEN.search(source, position)) is not None:
        pieces.append(source[position : found.start()])
        position = found.end()
        if found["accent"] and found["braced"]:
            pieces.append(_accented(found["accent"], found["inner"]))
        elif found["mark"]:
            pieces.append(_accented(found["mark"], found["letter"]))
        elif found["command"]:
            name = found["command"]
            pieces.append(_LETTERS.get(name, " " if name in _SPACES else ""))
            if name in _UNREAD_ARGUMENT and source.startswith("{", position):
                position = group_end(source, position) or position
        elif found["symbol"]:
            pieces.append(found["symbol"] if found["symbol"] in "%&_#${}-" else " ")
        elif found["tie"]:
            pieces.append(" ")
        elif found["quote"]:
            pieces.append(_QUOTES[found["quote"]])
    pieces.append(source[position:])
    return " ".join("".join(pieces).split())


def _accented(accent: str, letter: str) -> str:
    return unicodedata.normalize("NFC", letter.lstrip("\\") + _ACCENTS[accent]) if letter else ""


_GROUP_EDGE = re.compile(r"\\.|%[^\n]*+|[{}]", re.DOTALL)


def group_end(source: str, start: int) -> int | None:
    """Offset behind the group that the brace at `start` opens; None if it is not closed."""
    depth = 0
    for edge in _GROUP_EDGE.finditer(source, start):
        depth += (edge[0] == "{") - (edge[0] == "}")
        if not depth:
            return edge.end()
    return None
