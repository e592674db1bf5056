"""Inline Markdown: what a heading displays, and the links of a block with their positions."""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, autolink, html_inline, link
from markdown_it.token import Token

from sqlindex.parsing.html_links import href_of, image_text, is_anchor_end, may_hold_anchor
from sqlindex.parsing.markdown_blocks import RawLinkMarkdown

_InlineRule = Callable[[StateInline, bool], bool]
_Env = MutableMapping[str, Any]

_MARKUP = re.compile(r"[\\`*_\[\]<&!\n]")
# In a table the bar before the alias is written `\|`.
_WIKI = re.compile(r"\[\[([^\[\]|\n]+?)(?:\\?\|([^\[\]\n]*))?\]\]")
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".bmp", ".avif")


@dataclass(frozen=True, slots=True)
class InlineLink:
    """A link within a block: `position` is the offset of its `[` or `<` in the block's content."""

    target: str
    label: str
    position: int
    is_wiki: bool


def displayed_text(content: str, env: _Env) -> str:
    """Text that a reader sees of an inline source: no markup, entities decoded, on one line.

    Where that is nothing but images in HTML, their alternative texts.
    """
    if _MARKUP.search(content) is None:
        return content
    children = _children(content, env)
    shown = " ".join(_text_of(children).split())
    if shown:
        return shown
    return image_text("".join(t.content for t in children if t.type == "html_inline"))


def inline_links(content: str, env: _Env) -> list[InlineLink]:
    """Links of an inline source, in order: inline, reference, autolink, wiki and HTML links.

    What stands in code spans or HTML comments or is escaped is no link; an image is none either,
    but its alternative text is the label of a link around it. `[[1]](url)` is an inline link, as
    in CommonMark; `[[page|alias]]` elsewhere is a wiki link, and so is `![[page]]`, which embeds
    a page, but not `![[picture.png]]`.
    """
    if not _may_hold_link(content, env):
        return []
    children = _children(content, env)
    links = []
    opened: list[int] = []
    anchor: tuple[int, str] | None = None
    for index, token in enumerate(children):
        if token.type == "wiki_link":
            meta = token.meta
            if not meta["is_picture"]:
                links.append(InlineLink(meta["target"], token.content, meta["position"], True))
        elif token.type == "link_open":
            opened.append(index)
        elif token.type == "link_close" and opened:
            start = opened.pop()
            target = str(children[start].attrs.get("href", ""))
            links.append(_link(target, children, start, index))
        elif token.type == "html_inline":
            href = href_of(token.content)
            if anchor is not None and (href is not None or is_anchor_end(token.content)):
                links.append(_link(anchor[1], children, anchor[0], index))
                anchor = None
            if href is not None:
                anchor = (index, href)
    if anchor is not None:
        links.append(_link(anchor[1], children, anchor[0], len(children)))
    return sorted(links, key=lambda found: found.position)


def _link(target: str, children: Sequence[Token], start: int, end: int) -> InlineLink:
    """The link that the token at `start` opens and the one at `end` closes."""
    inside = children[start + 1 : end]
    label = " ".join(_text_of(inside).split())
    if not label:
        label = image_text("".join(t.content for t in inside if t.type == "html_inline"))
    return InlineLink(target, label, children[start].meta["position"], False)


def _may_hold_link(content: str, env: _Env) -> bool:
    if "](" in content or _WIKI.search(content) is not None:
        return True
    if "references" in env and "]" in content:
        return True
    return "<" in content and (":" in content or "@" in content or may_hold_anchor(content))


def _children(content: str, env: _Env) -> list[Token]:
    markdown = _inline_parser()
    tokens: list[Token] = []
    markdown.inline.parse(content, markdown, env, tokens)
    return tokens


def _text_of(tokens: Sequence[Token]) -> str:
    parts = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "image":
            parts.append(_text_of(token.children or ()))
        elif token.type != "html_inline":
            parts.append(token.content)
    return "".join(parts)


@cache
def _inline_parser() -> MarkdownIt:
    markdown = RawLinkMarkdown("commonmark")
    ruler = markdown.inline.ruler
    ruler.at("link", _with_position(link))
    ruler.at("autolink", _with_position(autolink))
    ruler.at("html_inline", _with_position(html_inline))
    ruler.after("link", "wiki_link", _wiki_link)
    return markdown


def _with_position(rule: _InlineRule) -> _InlineRule:
    """Wrap a rule so that the token of a link's beginning tells where that is.

    markdown-it keeps positions for blocks only; while a rule runs, the state still has it.
    """

    def located(state: StateInline, silent: bool) -> bool:
        position, first = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        if not silent:
            # Pending text may have been flushed to a token of its own before the opening one.
            for token in state.tokens[first : first + 2]:
                if token.type in ("link_open", "html_inline"):
                    token.meta["position"] = position
                    break
        return True

    return located


def _wiki_link(state: StateInline, silent: bool) -> bool:
    found = _WIKI.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    target = found[1].strip()
    if not target:
        return False
    if not silent:
        token = state.push("wiki_link", "", 0)
        token.content = (found[2] or "").strip() or target
        is_picture = state.src[state.pos - 1 : state.pos] == "!" and target.lower().endswith(
            _PICTURES
        )
        token.meta = {"target": target, "position": state.pos, "is_picture": is_picture}
    state.pos = found.end()
    return True
