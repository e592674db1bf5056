"""TeX: sectioning commands, links, tables and verbatim text."""

from __future__ import annotations

import pytest

from sqlindex.model.documents import ParsedDocument
from sqlindex.parsing.tex import TexParser
from sqlindex.parsing.tex_text import plain_text
from tests.unit.parsing import shown

pytestmark = pytest.mark.req("A-7", "A-10")


def parse(text: str) -> ParsedDocument:
    return TexParser().parse(text, "tex")


def headings(text: str) -> list[tuple[int, int, str]]:
    return shown.headings(parse(text))


def blocks(text: str) -> list[tuple[str, str]]:
    return shown.blocks(text, parse(text))


def test_sectioning_commands_are_sections() -> None:
    text = (
        "\\part{P}\n\\chapter*{C}\nx\n  \\section[s]{S\n  {\\bf t}}\n\\paragraph{Q} y\n"
        "\\section % why\n  {R}\n"
    )
    assert headings(text) == [
        (1, 1, "P"),
        (2, 2, "P › C"),
        (3, 4, "P › C › S t"),
        (6, 6, "P › C › S t › Q"),
        (3, 7, "P › C › R"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "% \\section{no}",
        "\\\\section{no}",
        "\\sectionmark{no}",
        "\\section",
        "\\section{never closed",
        "\\section{a\n\nb}",
        "\\newcommand{\\x}[1]{\\section{#1}}",
        "\\verb|\\section{no}|",
        "\\begin{verbatim}\n\\section{no}\n\\end{verbatim}",
        "\\begin{comment}\n\\section{no}\n\\end{comment}",
        "\\begin{minted}{tex}\n\\section{no}\n\\end{minted}",
    ],
)
def test_what_is_no_section(text: str) -> None:
    assert headings(text) == []


def test_a_heading_behind_what_hides_nothing_counts() -> None:
    text = "50\\% \\section{A}\n\\begin{verbatim}\n\\section{B} \\section{no}\n\\section{open \\section{C}\n"
    assert [name for _, _, name in headings(text)] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("\\emph{x}~\\textbf{\\textit{y}}", "x y"),
        ("M\\\"uller, Stra\\ss e, \\'{e}\\`a \\^\\i{} \\c{c} \\v{s}", "Müller, Straße, éà î ç š"),
        ("\\O{}re \\ae on \\AA", "Øre æon Å"),
        ("a \\& b \\% \\$5 \\_ \\#", "a & b % $5 _ #"),
        ("$x^2$ -- ``y''", "x^2 – “y”"),
        ("A\\label{sec:a} b\\footnote{n {m}} c\\\\d", "A b c d"),
        ("\\texorpdfstring{$\\alpha$}{alpha}", "alpha"),
        ("a % comment\n b", "a b"),
        ("\\LaTeX{} \\today", "LaTeX"),
    ],
)
def test_simple_markup_reads_as_its_text(source: str, text: str) -> None:
    assert plain_text(source) == text


def test_links_title_and_date() -> None:
    text = (
        "\\title[t]{A \\emph{b}}\n\\date{2026-05-06}\n"
        "\\href{http://a/b\\%20c\\#d}{the \\textbf{doc}} \\url{http://e_f} % \\url{no}\n"
    )
    parsed = parse(text)
    assert (parsed.title, parsed.date) == ("A b", "2026-05-06")
    assert [(link.target, link.label, text[link.start_char]) for link in parsed.links] == [
        ("http://a/b%20c#d", "the doc", "\\"),
        ("http://e_f", "http://e_f", "\\"),
    ]
    assert parse("\\date{\\today}\\section{S}").date is None
    assert parse("\\date{\\today}\\section{S}").title == "S"


def test_tables_and_verbatim_text_are_blocks() -> None:
    head = "\\begin{tabular}{l}\r\n\\hline\r\na \\\\ \\hline"
    table = f"{head}\r\n1 \\\\\r\n\\end{{tabular}}"
    verbatim = "\\begin{lstlisting}[x]\ny\n\\end{lstlisting}"
    assert blocks(f"x\n{table}\r\n{verbatim}\n") == [(table, head), (verbatim, "")]
    nested = "\\begin{tabular}{l}\n\\begin{tabular}{l}\na\n\\end{tabular}\n\\end{tabular} z"
    assert blocks(nested) == [(nested, "")]
    assert blocks("\\begin{tabular}{l}\n\\section{A}\n\\end{tabular}") == []
