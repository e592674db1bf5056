"""What the Markdown parser finds in an elaborate file; a change here is a new MARKDOWN_VERSION."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex.chunking.lines import LineTable
from sqlindex.parsing.markdown import MARKDOWN_VERSION, MarkdownParser

CASES = Path(__file__).resolve().parents[2] / "fixtures" / "golden" / "parsing"


def description(text: str) -> str:
    parsed = MarkdownParser().parse(text, "markdown")
    table = LineTable(text)

    def lines(start: int, end: int) -> str:
        return f"{table.line_of(start)}-{table.line_of(end - 1)}"

    out = [
        f"markdown {MARKDOWN_VERSION}",
        f"title {parsed.title!r} date {parsed.date} tags {parsed.tags} aliases {parsed.aliases}",
    ]
    for section in parsed.sections:
        path = " › ".join(section.heading_path)
        span = lines(section.start_char, section.end_char)
        out.append(
            f"section {span} {section.kind} level {section.level} line {section.heading_line} {path}"
        )
    for block in parsed.blocks:
        header = ""
        if block.header_end_char > block.start_char:
            header = f" header {lines(block.start_char, block.header_end_char)}"
        first = text[block.start_char : table.end_of(table.line_of(block.start_char))]
        out.append(f"block {lines(block.start_char, block.end_char)}{header}: {first}")
    for link in parsed.links:
        line = table.line_of(link.start_char)
        at = f"{line}:{link.start_char - table.char_of(line) + 1}"
        out.append(f"link {at} {'wiki ' if link.is_wiki else ''}{link.target!r} {link.label!r}")
    return "\n".join(part.rstrip() for part in out) + "\n"


@pytest.mark.req("A-9")
@pytest.mark.parametrize("name", ["handbuch.md"])
def test_sections_blocks_and_links_are_those_of_this_version(
    name: str, request: pytest.FixtureRequest
) -> None:
    text = (CASES / name).read_bytes().decode("utf-8")
    golden = CASES / f"{name}.parse"
    found = description(text)
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")
