"""What the parsers of structured texts find; a change here is a new version of the parser."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex.parsing.registry import builtin_parsers

CASES = Path(__file__).resolve().parents[2] / "fixtures" / "golden" / "parsing"


def found(text: str, parser_id: str) -> str:
    parser = builtin_parsers().parser(parser_id)
    parsed = parser.parse(text, parser_id)

    def line(char: int) -> int:
        return 1 + text.count("\n", 0, char)

    lines = [f"{parser_id} {str(parser.version).partition('+')[0]}, {parsed.language}"]
    lines += [f"title {parsed.title}"] if parsed.title else []
    for section in parsed.sections:
        lines.append(
            f"section lines {line(section.start_char)}-{line(section.end_char - 1)}"
            f" {section.kind} level {section.level} heading line {section.heading_line}:"
            f" {' › '.join(section.heading_path)}".rstrip()
        )
    for block in parsed.blocks:
        head = text[block.start_char : block.header_end_char]
        lines.append(
            f"block lines {line(block.start_char)}-{line(block.end_char)}"
            + (f" header {head!r}" if head else "")
        )
    for part in parsed.rendered:
        written = text[part.start_char : part.end_char]
        lines.append(f"line {line(part.start_char)}: {written!r} reads {part.text!r}")
    return "\n".join(lines) + "\n"


@pytest.mark.req("A-7", "A-10")
@pytest.mark.parametrize(
    ("name", "parser_id"),
    [
        ("anlage.json", "json"),
        ("dienst.yaml", "yaml"),
        ("messung.ipynb", "notebook"),
        ("projekt.toml", "toml"),
        ("teile.csv", "csv"),
        ("werk.ini", "ini"),
    ],
)
def test_sections_blocks_and_readings_are_those_of_this_version(
    name: str, parser_id: str, request: pytest.FixtureRequest
) -> None:
    text = (CASES / name).read_bytes().decode("utf-8")
    golden = CASES / f"{name}.parsed"
    result = found(text, parser_id)
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(result, encoding="utf-8")
    assert result == golden.read_text(encoding="utf-8")
