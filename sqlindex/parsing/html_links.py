"""Links in HTML that stands inside Markdown, found without a tree."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from sqlindex.model.documents import Link

_ANCHOR = re.compile(r"<a[\s/]", re.IGNORECASE)
_TAG_OR_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|<a[\s/][^<>]*>", re.IGNORECASE | re.DOTALL)
_ANCHOR_END = re.compile(r"</a[\s>]", re.IGNORECASE)
_IMAGE = re.compile(r"<img[\s/][^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_VALUE = r"\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>`]+))"
_HREF = re.compile(rf"[\s/\"']href{_VALUE}", re.IGNORECASE)
_ALT = re.compile(rf"[\s/\"']alt{_VALUE}", re.IGNORECASE)


def may_hold_anchor(source: str) -> bool:
    """Whether it is worth while to look for links in the source."""
    return _ANCHOR.search(source) is not None


def href_of(tag: str) -> str | None:
    """Target of an `<a href=…>` tag, entities decoded; None for every other tag."""
    if _ANCHOR.match(tag) is None:
        return None
    found = _HREF.search(tag)
    return None if found is None else html.unescape(_value(found)).strip() or None


def is_anchor_end(tag: str) -> bool:
    """Whether the tag is `</a>`."""
    return _ANCHOR_END.match(tag) is not None


def image_text(source: str) -> str:
    """Alternative texts of the images in the source, on one line."""
    alternatives = (_ALT.search(tag[0]) for tag in _IMAGE.finditer(source))
    texts = (html.unescape(_value(found)) for found in alternatives if found is not None)
    return " ".join(" ".join(texts).split())


def html_links(text: str, start: int, end: int) -> Iterator[Link]:
    """Links of the HTML in `text[start:end]`, in order; comments hold none.

    A tag ends at the next angle bracket, even at one in an attribute. The label ends at `</a>`, at
    the next link or with the HTML. Linear in its length.
    """
    tags = [
        (found, target)
        for found in _TAG_OR_COMMENT.finditer(text, start, end)
        if (target := href_of(found[0])) is not None
    ]
    for index, (tag, target) in enumerate(tags):
        limit = tags[index + 1][0].start() if index + 1 < len(tags) else end
        closing = _ANCHOR_END.search(text, tag.end(), limit)
        inside = text[tag.end() : closing.start() if closing is not None else limit]
        label = " ".join(html.unescape(_TAG.sub(" ", inside)).split()) or image_text(inside)
        yield Link(target, label, tag.start())


def _value(found: re.Match[str]) -> str:
    return next((group for group in found.groups() if group is not None), "")
