"""Generated pages are what the generator gives, and the requirement marks are consistent."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sqlindex import errors

from . import cli_page, errors_page, generate
from .file_format_page import BEGIN
from .generate import FILE_FORMAT_PATH, REPOSITORY, generated_pages, main
from .requirement_titles import AREAS, TITLES
from .requirements_page import done_ids, files_by_id, ids_of_marks, marks_of_tests

RENEW = "python -m tests.docs.generate --write"
LAST_NUMBER_BY_AREA = {"A": 35, "B": 15, "C": 19, "D": 13}


@pytest.mark.parametrize(
    "path",
    [
        "docs/reference/cli.md",
        "docs/reference/api.md",
        "docs/reference/errors.md",
        "docs/reference/file-format.md",
        "docs/reference/requirements.md",
    ],
)
def test_the_generated_page_is_up_to_date(path: str) -> None:
    text = dict(generated_pages())[path]
    assert (REPOSITORY / path).read_text(encoding="utf-8") == text, RENEW


def test_the_generator_names_stale_pages_and_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    by_hand = tmp_path / FILE_FORMAT_PATH
    by_hand.parent.mkdir(parents=True)
    by_hand.write_text(f"by hand\n\n{BEGIN}\nstale\n", encoding="utf-8")
    monkeypatch.setattr(generate, "REPOSITORY", tmp_path)
    assert main([]) == 1
    assert f"stale: {FILE_FORMAT_PATH}" in capsys.readouterr().err
    assert main(["--write"]) == 0
    assert by_hand.read_text(encoding="utf-8").startswith(f"by hand\n\n{BEGIN}\n\n## Tables")
    assert main([]) == 0


def test_every_exit_code_of_an_error_is_explained() -> None:
    page = cli_page.render()
    for found in errors_page.classes():
        assert any(line.startswith(f"| {found.exit_code}") for line in page.splitlines()), found


def test_the_tree_of_errors_names_every_class() -> None:
    tree = errors.__doc__ or ""
    assert [found.__name__ for found in errors_page.classes() if found.__name__ not in tree] == []


def test_every_id_of_the_requirements_has_a_title() -> None:
    expected = [
        f"{area}-{number}" for area in AREAS for number in range(1, LAST_NUMBER_BY_AREA[area] + 1)
    ]
    assert list(TITLES) == expected


def test_no_test_is_marked_with_an_unknown_requirement() -> None:
    unknown = [(name, file) for name, file in marks_of_tests() if name not in TITLES]
    assert unknown == []


def test_every_requirement_declared_done_has_a_test() -> None:
    done = done_ids()
    files = files_by_id(marks_of_tests())
    assert [name for name in done if name not in TITLES] == []
    assert [name for name in done if name not in files] == []
    assert len(done) == len(set(done))


def test_marks_are_read_from_functions_modules_and_parameters() -> None:
    source = """
pytestmark = [pytest.mark.req("A-1"), pytest.mark.model]

@pytest.mark.req("A-2", "A-3")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.req("B-1"))])
def test_something(x): ...

@pytest.mark.req(COMPUTED)
def test_other(): ...
"""
    found = set(ids_of_marks(ast.parse(source)))
    assert found == {"A-1", "A-2", "A-3", "B-1", "COMPUTED"}
