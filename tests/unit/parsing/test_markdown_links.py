"""Links of Markdown, with exact positions."""

from __future__ import annotations

import pytest

from sqlindex.model.documents import Link
from sqlindex.parsing.markdown import MarkdownParser

pytestmark = pytest.mark.req("A-9")


def links(text: str) -> list[Link]:
    return list(MarkdownParser().parse(text, "markdown").links)


def targets(text: str) -> list[tuple[str, str, bool]]:
    return [(link.target, link.label, link.is_wiki) for link in links(text)]


@pytest.mark.parametrize(
    ("text", "target", "label", "is_wiki"),
    [
        ("[Größe](a b/größe.md)", None, None, False),
        ('[Größe](<a b/größe.md> "Titel")', "a b/größe.md", "Größe", False),
        ("[*a* `b`](u_(x)#y)", "u_(x)#y", "a b", False),
        ("[a](file:///tmp/x)", "file:///tmp/x", "a", False),
        ("[a\nb](u)", "u", "a b", False),
        ("[text][ref]\n\n[ref]: ü.md", "ü.md", "text", False),
        ("[Ref][]\n\n[ref]: u", "u", "Ref", False),
        ("[ref]\n\n[ref]: u", "u", "ref", False),
        ("<https://x.y/ä?b>", "https://x.y/ä?b", "https://x.y/ä?b", False),
        ("<me@x.org>", "mailto:me@x.org", "me@x.org", False),
        ("[![alt](i.png)](u)", "u", "alt", False),
        ("[[Seite]]", "Seite", "Seite", True),
        ("[[Seite#Teil|so genannt]]", "Seite#Teil", "so genannt", True),
        ("![[embedded.md]]", "embedded.md", "embedded.md", True),
        ("[[1]](u)", "u", "[1]", False),
        ("[[Seite#^block]]", "Seite#^block", "Seite#^block", True),
        ("[[#Hier]]", "#Hier", "#Hier", True),
        ("|a|\n|-|\n|[[Seite\\|so]]|", "Seite", "so", True),
        ("|a|b|\n|-|-|\n|`|[x](y) `|", "y", "x", False),
        ("[^1]: Mit [Link](u).\n\n    Und\n", "u", "Link", False),
        ('<div>\n<a class="x" HREF="a&amp;b.md">Zu <b>B</b></a>\n</div>', "a&b.md", "Zu B", False),
        ("<p><a href=x.md><img alt='Bild'></a></p>", "x.md", "Bild", False),
        ("Text <a href='x.md'>*so*</a>.", "x.md", "so", False),
    ],
)
def test_each_form_of_link(text: str, target: str | None, label: str | None, is_wiki: bool) -> None:
    assert targets(text) == ([] if target is None else [(target, label, is_wiki)])


@pytest.mark.parametrize(
    "text",
    [
        "`[a](b)` and `[[c]]`",
        "```\n[a](b) [[c]]\n```",
        "~~~\n<https://x.y>\n~~~",
        "    [a](b)",
        "\\[a](b) \\[[c]]",
        "![image](i.png)",
        '<a title="[a](b)">',
        "<!-- [a](b) -->",
        "[a] (b)",
        "[[]] [[ ]] [[|x]]",
        "[^1] [x]",
        "[^1]\n\n[^1]: https://x.example",
        "![[bild.PNG]]",
        "<div>\n<!-- <a href='x'>y</a> -->\n<a name='z'>",
        "https://bare.example",
    ],
)
def test_what_is_no_link(text: str) -> None:
    assert links(text) == []


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "lines",
    [
        ["[a](b)"],
        ["   text [a](b) [a](b)   "],
        ["first line", "\tsecond [a](b)  ", "third `[a](b)` [a](b)"],
        ["> quoted", "> - item [a](b)", ">   more\r [a](b)"],
        ["1. one", "", "   two [a](b)", "", "\t - three\u2028[a](b)"],
        ["## heading [a](b) ##"],
        ["setext [a](b)", "more [a](b)", "==="],
        ["\ufeff# [a](b)"],
        ["| x | y |", "|---|---|", "| [a](b) |  ä [a](b)|"],
        ["> \tx | y", "> -|-", "> [a](b) | [a](b)"],
        ["- x", "lazy [a](b)"],
    ],
)
def test_a_link_starts_where_its_bracket_stands(lines: list[str], line_end: str) -> None:
    text = line_end.join(["---", "t: x", "---", *lines, ""])
    in_code = text.replace("`[a](b)`", "`______`")
    expected = [at for at in range(len(text)) if in_code.startswith("[a](b)", at)]
    assert [link.start_char for link in links(text)] == expected


def test_links_are_in_order_of_their_position() -> None:
    text = "[b](2) [[a]] <xy:z>\n\n> [c](3)\n\n# [d](4)\n"
    starts = [link.start_char for link in links(text)]
    assert starts == sorted(starts)
    assert len(starts) == 5
