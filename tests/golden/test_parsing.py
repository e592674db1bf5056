"""What the parsers of markup find; a change here is a new behaviour version of the parser."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex.parsing.registry import builtin_parsers

CASES = Path(__file__).resolve().parents[2] / "fixtures" / "golden" / "parsing"


def findings(text: str, parser_id: str) -> str:
    parser = builtin_parsers().parser(parser_id)
    parsed = parser.parse(text, parser_id)
    lines = [
        f"{parser_id} {parser.version}",
        f"title {parsed.title!r}, date {parsed.date!r}, tags {parsed.tags!r}",
    ]

    def line_of(char: int) -> int:
        return 1 + text.count("\n", 0, char)

    def lines_of(start: int, end: int) -> str:
        return f"lines {line_of(start)}-{line_of(end - 1)}"

    for section in parsed.sections:
        lines.append(
            f"section {lines_of(section.start_char, section.end_char)} {section.kind}"
            f" level {section.level} heading {section.heading_line}"
            f" {' › '.join(section.heading_path)}".rstrip()
        )
    for block in parsed.blocks:
        has_header = block.header_end_char > block.start_char
        header = lines_of(block.start_char, block.header_end_char) if has_header else "none"
        lines.append(f"block {lines_of(block.start_char, block.end_char)} header {header}")
    for link in parsed.links:
        lines.append(f"link line {line_of(link.start_char)} {link.target!r} {link.label!r}")
    for part in parsed.rendered:
        source = text[part.start_char : part.end_char]
        lines.append(f"line {line_of(part.start_char)} {source!r} reads {part.text!r}")
    return "\n".join(lines) + "\n"


@pytest.mark.req("A-7", "A-10")
@pytest.mark.parametrize("parser_id", ["html", "org", "rst", "tex"])
def test_a_document_is_parsed_as_in_this_version(
    parser_id: str, request: pytest.FixtureRequest
) -> None:
    text = (CASES / f"pumpe.{parser_id}").read_bytes().decode("utf-8")
    golden = CASES / f"pumpe.{parser_id}.parsed"
    found = findings(text, parser_id)
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")
