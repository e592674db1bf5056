"""What well-formed HTML reads as agrees with the standard library's parser."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.parsing.html import HtmlParser

INLINE = ("b", "i", "span", "code", "a")
BLOCK = ("p", "div", "section", "li", "td", "h2")
WORDS = st.text(st.sampled_from("abcäß漢\U0001f680 \n.;#x1"), max_size=6)
REFERENCES = st.sampled_from(
    ["&amp;", "&lt;", "&uuml;", "&nbsp;", "&#65;", "&#x1F680;", "&hellip;"]
)
COMMENTS = st.sampled_from(["<!---->", "<!-- <b> & -->", "<?php echo?>", "<!-- a\nb -->"])
ATTRIBUTES = st.sampled_from(["", " id=x", " title='a>b'", ' class="c" data-x="<p>"', " hidden\n"])


def element(names: tuple[str, ...], inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda name, attributes, content: f"<{name}{attributes}>{content}</{name}>",
        st.sampled_from(names),
        ATTRIBUTES,
        inner,
    )


def several(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, max_size=5).map("".join)


leaves = st.one_of(
    WORDS,
    REFERENCES,
    COMMENTS,
    st.just("<br>"),
    WORDS.map(lambda words: f"<script>if (a<b) {words!r}</script>"),
    WORDS.map(lambda words: f"<style>{words} > p {{}}</style>"),
)
pages = several(
    st.recursive(leaves, lambda inner: element(INLINE + BLOCK, several(inner)), max_leaves=20)
)


class Oracle(HTMLParser):
    """Text of a page: tags of blocks and line breaks as spaces, scripts and comments as nothing."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._is_read = True

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._is_read = tag not in ("script", "style")
        self._separate(tag)

    def handle_endtag(self, tag: str) -> None:
        self._is_read = True
        self._separate(tag)

    def handle_data(self, data: str) -> None:
        if self._is_read:
            self.pieces.append(data)

    def _separate(self, tag: str) -> None:
        if tag in BLOCK or tag == "br":
            self.pieces.append(" ")


def words(pieces: list[str]) -> str:
    return " ".join("".join(pieces).split())


@pytest.mark.req("A-10")
@given(pages)
def test_the_rendered_text_is_what_the_standard_library_reads(page: str) -> None:
    oracle = Oracle()
    oracle.feed(page)
    oracle.close()
    parsed = HtmlParser().parse(page, "html")
    hidden = [(s.start_char, s.end_char) for s in parsed.sections if s.kind == "raw"]
    pieces, position = [], 0
    spans = [(part.start_char, part.end_char, part.text) for part in parsed.rendered]
    # A raw section reads as it stands to those who ask for it; a reader of the page sees nothing.
    kept = [span for span in spans if not any(s <= span[0] and span[1] <= e for s, e in hidden)]
    for start, end, reads_as in sorted(kept + [(s, e, "\n") for s, e in hidden]):
        pieces += [page[position:start], reads_as]
        position = max(position, end)
    assert words([*pieces, page[position:]]) == words(oracle.pieces)
