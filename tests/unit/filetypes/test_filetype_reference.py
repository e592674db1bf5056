"""The reference page of file types says what the registry says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex.filetypes.__main__ import main
from sqlindex.filetypes.builtin import BUILTIN_FILE_TYPES, BUILTIN_REGISTRY
from sqlindex.filetypes.reference import REFERENCE_PATH, readable_size, render_reference

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.req("A-7")
def test_the_reference_page_is_the_one_generated_from_the_registry() -> None:
    page = (REPOSITORY / REFERENCE_PATH).read_text(encoding="utf-8")
    assert page == render_reference(BUILTIN_REGISTRY), "run python -m sqlindex.filetypes --write"


def test_the_page_has_a_row_for_each_type() -> None:
    rows = [line for line in render_reference(BUILTIN_REGISTRY).splitlines() if line[:2] == "| "]
    assert len(rows) == 2 + len(BUILTIN_FILE_TYPES)


def test_the_command_prints_the_page_or_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "page.md"
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert main(["--write", str(target)]) == 0
    assert target.read_text(encoding="utf-8") == printed


@pytest.mark.parametrize(
    ("byte_size", "words"),
    [(2 * 1024 * 1024, "2 MiB"), (512 * 1024, "512 KiB"), (1_500, "1,500 bytes")],
)
def test_sizes_read_well(byte_size: int, words: str) -> None:
    assert readable_size(byte_size) == words
