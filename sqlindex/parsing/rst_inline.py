"""Inline markup of reStructuredText: what a title displays, and the links of a paragraph."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from sqlindex.model.documents import Link

_INLINE = re.compile(
    r"``(?P<literal>(?:[^`]|`(?!`))++)``"
    r"|(?:_|:(?:[\w.+-]++:){1,3}+)?`(?P<text>[^`]++)`(?::(?:[\w.+-]++:){1,3}+|__?)?"
    r"|\*\*(?P<strong>[^*]++)\*\*"
    r"|\*(?P<emphasis>[^*\s](?:[^*]*+))\*"
    r"|\|(?P<substitution>[^|\s][^|]*+)\|_{0,2}"
    r"|\\(?P<escaped>.)|\[(?:(?P<footnote>[#*][\w-]*+)|(?P<citation>[\w.-]++))\]_",
    re.DOTALL,
)
_TARGET = re.compile(r"\s*<[^<>]*>$")
_REFERENCE = re.compile(r"(?<=[^\W_])__?(?=[\s\-.,:;!?'\")\]}>/\\]|$)")
_LINK = re.compile(
    r"``(?:[^`]|`(?!`))++``"
    r"|(?P<role>:(?:[\w-]++:){1,3}+)?`(?P<text>[^`<]*+)(?:<(?P<target>[^`<>]++)>)?+`(?P<end>__?)?+"
)
_LINK_ROLES = frozenset(("doc", "ref", "any", "download", "numref"))


def displayed_text(source: str) -> str:
    """Text that a reader sees of a title: no markup, roles or targets, on one line."""
    if not any(character in source for character in "`*|\\_"):
        return " ".join(source.split())
    pieces = []
    position = 0
    for found in _INLINE.finditer(source):
        pieces.append(_REFERENCE.sub("", source[position : found.start()]))
        position = found.end()
        text = found["text"]
        if text is not None:
            pieces.append(_TARGET.sub("", text) or text)
        elif found["footnote"] is not None:
            continue
        elif found["escaped"] is not None:
            pieces.append("" if found["escaped"].isspace() else found["escaped"])
        else:
            groups = (
                *(found["literal"], found["strong"], found["emphasis"]),
                *(found["substitution"], found["citation"]),
            )
            pieces.append(next(group for group in groups if group is not None))
    pieces.append(_REFERENCE.sub("", source[position:]))
    return " ".join("".join(pieces).split())


def paragraph_links(text: str, start: int, end: int) -> Iterator[Link]:
    """Links of a paragraph: `` `label <target>`_ `` and the roles `:doc:` and `:ref:`, in order.

    What stands in inline literals is no link, and neither is a reference to a name: the
    definition of the name is.
    """
    if text.find("`", start, end) < 0:
        return
    for found in _LINK.finditer(text, start, end):
        label, target = found["text"], found["target"]
        if label is None:
            continue
        role = (found["role"] or "").strip(":").rpartition(":")[2]
        label = " ".join(label.split())
        if role in _LINK_ROLES:
            target = " ".join((target or label).split())
        elif not role and target and found["end"]:
            target = "".join(target.split())  # a URL may be broken over lines
        else:
            continue
        if target:
            yield Link(target, label or target, found.start())


def column_width(text: str) -> int:
    """Columns that a text takes: wide characters two, combining ones none, as docutils counts."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)
