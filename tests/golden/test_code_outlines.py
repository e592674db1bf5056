"""Which sections code has; a change here is a new CODE_VERSION."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex.filetypes.builtin import BUILTIN_REGISTRY
from sqlindex.parsing.code import CODE_VERSION, CodeParser

CASES = Path(__file__).resolve().parents[2] / "fixtures" / "golden" / "parsing"
NAMES = (
    *("valve.py", "stand.tsx", "stand.go", "stand.rs", "Stand.java", "stand.c", "stand.cpp"),
    *("stand.scss", "stand.sh", "stand.fish", "stand.sql"),
)


def sections(text: str, extension: str) -> str:
    file_type = BUILTIN_REGISTRY.for_extension(extension)
    assert file_type is not None
    assert file_type.structure_aware
    lines = [f"code {CODE_VERSION}, {file_type.language}"]
    for section in CodeParser().parse(text, file_type.language).sections:
        first = 1 + text.count("\n", 0, section.start_char)
        last = 1 + text.count("\n", 0, section.end_char - 1)
        path = " › ".join(section.heading_path)
        lines.append(
            f"lines {first}-{last} chars {section.start_char}-{section.end_char}"
            f" heading {section.heading_line} {path}".rstrip()
        )
    return "\n".join(lines) + "\n"


@pytest.mark.req("A-10", "A-11")
@pytest.mark.parametrize("name", NAMES)
def test_sections_of_code_are_those_of_this_version(
    name: str, request: pytest.FixtureRequest
) -> None:
    text = (CASES / name).read_bytes().decode("utf-8")
    golden = CASES / f"{name}.sections"
    found = sections(text, name.rpartition(".")[2])
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")
