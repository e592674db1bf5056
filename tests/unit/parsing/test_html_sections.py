"""HTML: sections, reading, links, blocks, metadata, and what broken pages do."""

from __future__ import annotations

import pytest

from sqlindex.model.documents import ParsedDocument, SectionKind
from sqlindex.parsing.html import HtmlParser
from sqlindex.parsing.sections import MAX_HEADING_CHARS

pytestmark = pytest.mark.req("A-7", "A-10")


def parse(text: str) -> ParsedDocument:
    return HtmlParser().parse(text, "html")


def reading(text: str) -> str:
    """The text with its rendered parts put in."""
    pieces, position = [], 0
    for part in parse(text).rendered:
        pieces += [text[position : part.start_char], part.text]
        position = part.end_char
    return "".join(pieces) + text[position:]


def headings(text: str) -> list[tuple[int, int, str]]:
    return [
        (s.level, s.heading_line, " › ".join(s.heading_path))
        for s in parse(text).sections
        if s.heading_line
    ]


def test_each_heading_begins_a_section_with_its_line() -> None:
    text = (
        "<p>intro</p>\n<div><h1>A</h1></div>\nx\n"
        "<section>\n  <h3>B <em>c</em></h3>\n</section>\n<h2>D</h2>\n"
    )
    assert headings(text) == [(1, 2, "A"), (3, 5, "A › B c"), (2, 7, "A › D")]
    starts = [text[s.start_char : s.end_char].split("\n")[0] for s in parse(text).sections]
    assert starts == [
        "<p>intro</p>",
        "<div><h1>A</h1></div>",
        "  <h3>B <em>c</em></h3>",
        "<h2>D</h2>",
    ]


def test_a_page_on_one_line_is_one_section() -> None:
    text = "<title>T</title><h1>A</h1><p>x</p><h2>B</h2><p>y</p>"
    assert headings(text) == [(1, 1, "A")]
    assert [(s.start_char, s.end_char) for s in parse(text).sections] == [(0, len(text))]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("<h1>\n  Two\n lines </h1>", "Two lines"),
        ("<H1 class='a>b'>x</H1>", "x"),
        ("<h1>a<br>b</h1>", "a b"),
        ("<h1>F&uuml;r &#8364;&#x31; &amp; mehr</h1>", "Für €1 & mehr"),
        ("<h1>a<!-- no --><script>no()</script>b</h1>", "ab"),
        ("<h1>open\n<p>text</p>\n<h2>next</h2>", "open"),
        ("<h1>wrong end</h2>\n<p>text", "wrong end"),
        ('<h1>Intro<a class="headerlink" href="#intro">¶</a></h1>', "Intro"),
        (f"<h1>{'a' * 3000}</h1>", "a" * MAX_HEADING_CHARS),
    ],
)
def test_the_name_of_a_heading_is_what_it_reads_as(source: str, name: str) -> None:
    assert headings(source)[0][2] == name


def test_headings_in_comments_scripts_and_attributes_are_none() -> None:
    text = (
        "<!-- <h1>no</h1> -->\n<script>\n'<h1>no</h1>'\n</script>\n"
        "<p title='<h1>no</h1>'>x</p>\n<textarea><h1>no</h1></textarea>\n"
    )
    assert headings(text) == []


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a<b>b</b>c", "abc"),
        ("a<p>b</p>c<br/>d", "a b c d"),
        ("<td>a</td><td>b</td>", " a b "),
        ("a\n<p>\nb", "a\n \nb"),
        ("in</tt\n>ner", "inner"),
        ("a<!-- x > y -->b<!-->c<!--->d<!-- -- --!>e", "abcde"),
        ("<!DOCTYPE html><?xml version='1'?>a</>b</ x>c<!x>d", "abcd"),
        ("&lt;&gt;&amp;&quot;&nbsp;&eacute;&copy&notit;", '<>&"\xa0é©¬it;'),
        ("&#65;&#x42;&#0;&#xD800;&#x110000;&#128;&#10;", "AB\ufffd\ufffd\ufffd€ "),
        (f"&#{'9' * 5000};&#{'0' * 5000}65;", "\ufffdA"),
        ("AT&T &unknown; & &#; &#x; 1 < 2 <3", "AT&T &unknown; & &#; &#x; 1 < 2 <3"),
        ("a<script>if (x < 1) y</script>b<style>p {}</style>c", "abc"),
        ("a<script><!-- <script> </script> --></script>b", "ab"),
        ("<title>a &lt;b&gt; <i></title>", " a <b> <i> "),
        ("<svg><title>a<b>c</b></title><![CDATA[x < &amp;]]></svg>", " ac x < &amp;"),
        ('x<a title="1 > 0" href=a/b>y</a>z', "xyz"),
        ("x<a b='1'c=\"2\"d>y", "xy"),
        ("a <b", "a <b"),
        ("a <!-- never closed <b>c</b>", "a <!-- never closed <b>c</b>"),
        ('a<b title="never closed>c</b>d', "acd"),
    ],
)
def test_markup_reads_as_a_browser_shows_it(source: str, text: str) -> None:
    assert reading(source) == text


def test_a_script_on_lines_of_its_own_is_a_raw_section_and_reads_as_it_stands() -> None:
    text = (
        "<h1>A</h1>\n<p>x</p>\n  <script>\nlet a = '<b>';\n</script> \ny\n<script src=z></script>\n"
    )
    sections = parse(text).sections
    kinds = [(s.kind, s.heading_path, s.level, s.heading_line) for s in sections]
    assert kinds == [
        (SectionKind.BODY, ("A",), 1, 1),
        (SectionKind.RAW, ("A",), 1, 0),
        (SectionKind.BODY, ("A",), 1, 0),
    ]
    raw = text[sections[1].start_char : sections[1].end_char]
    assert raw == "  <script>\nlet a = '<b>';\n</script> \n"
    assert "let a = '<b>';" in reading(text)


def test_links_have_their_target_label_and_place() -> None:
    text = (
        "<a name=x>no</a> <a href=' u?a=1&amp;b=2&copy=3 '>L <b>M</b>\n n</a>"
        "<a href=second>s<a href='third'>t</a><a href=''>no</a>"
    )
    assert [(link.target, link.label) for link in parse(text).links] == [
        ("u?a=1&b=2&copy=3", "L M n"),
        ("second", "s"),
        ("third", "t"),
    ]
    assert all(text.startswith("<a href", link.start_char) for link in parse(text).links)


def blocks(text: str) -> list[tuple[str, str]]:
    return [
        (text[b.start_char : b.end_char], text[b.start_char : b.header_end_char])
        for b in parse(text).blocks
    ]


def test_a_table_is_a_block_with_its_head() -> None:
    head = "<table>\n<thead>\n<tr><td>a</td></tr>\n</thead>"
    assert blocks(f"x\n{head}\n<tr><td>1</td></tr>\n</table>\ny") == [
        (f"{head}\n<tr><td>1</td></tr>\n</table>", head)
    ]
    head = "<table>\r\n <tr><th>a</th>\r\n </tr>"
    table = f"{head}\r\n<tr><td>1</td></tr>\r\n</table>"
    assert blocks(f"{table}\r\n") == [(table, head)]
    unclosed_rows = "<table>\n<tr><th>a\n<tr><td>1\n</table>"
    assert blocks(unclosed_rows) == [(unclosed_rows, "<table>\n<tr><th>a")]


def test_blocks_nest_and_stand_on_lines_of_their_own() -> None:
    inner = "  <pre>\nx\n  </pre>"
    outer = f"<table><tr><td>\n{inner}\n</table>"
    assert [block for block, _ in blocks(outer)] == [outer, inner]
    assert blocks("a <pre>\nx\n</pre>") == []
    assert blocks("<pre>\nx\n</pre> b") == []
    assert blocks("<pre>\n<table>\n</pre>\n</table>") == [("<pre>\n<table>\n</pre>", "")]


def test_a_block_that_holds_a_heading_is_none() -> None:
    assert blocks("<table>\n<tr><td>\n<h1>A</h1>\n</table>") == []


def test_title_date_and_tags_are_those_of_the_head() -> None:
    parsed = parse(
        "<title> A &amp;\n B </title>\n<meta name=Keywords content='machine learning, x,, x'>\n"
        "<meta content='2026-03-04T10:00:00Z' name=\"date\">\n<h1>C</h1>\n"
        "<svg><title>no</title></svg>"
    )
    assert parsed.title == "A & B"
    assert parsed.tags == ("machine learning", "x")
    assert parsed.date == "2026-03-04T10:00:00+00:00"
    assert parse("<h1></h1>\n<h2>B</h2>").title == "B"
    assert parse("<meta name=date content=yesterday>x").date is None
