"""The pages with examples work as typed, with and without the model."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sqlindex.embedding.staged import default_models_dir

from .blocks import matches_output, run_blocks, runnable_blocks

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = (
    "docs/tutorial/first-index.md",
    pytest.param("docs/how-to/back-up-and-compact.md", marks=pytest.mark.req("A-17", "D-13")),
    pytest.param("docs/how-to/carry-vectors.md", marks=pytest.mark.req("D-11")),
    pytest.param("docs/how-to/check-and-repair.md", marks=pytest.mark.req("A-29")),
    "docs/how-to/embed-in-an-application.md",
    pytest.param("docs/how-to/evaluate.md", marks=pytest.mark.req("A-32")),
    pytest.param("docs/how-to/gate-a-refresh.md", marks=pytest.mark.req("D-10")),
    pytest.param("docs/how-to/index-a-database-table.md", marks=pytest.mark.req("A-4")),
    pytest.param("docs/how-to/inspect-with-sql.md", marks=pytest.mark.req("D-6")),
    pytest.param("docs/how-to/index-folders.md", marks=pytest.mark.req("A-2", "A-3", "A-13")),
    pytest.param("docs/how-to/purge-a-document.md", marks=pytest.mark.req("D-13")),
    pytest.param("docs/how-to/keep-retrieval-and-answers-apart.md", marks=pytest.mark.req("A-35")),
    "docs/how-to/refresh-unattended.md",
    pytest.param("docs/how-to/reindex-in-bulk.md", marks=pytest.mark.req("A-29", "C-6")),
    "docs/how-to/run-offline.md",
    pytest.param("docs/how-to/serve-embeddings.md", marks=pytest.mark.req("C-14")),
    pytest.param("docs/how-to/use-an-embedding-service.md", marks=pytest.mark.req("C-13", "C-17")),
    pytest.param("docs/how-to/time-travel.md", marks=pytest.mark.req("D-2")),
)


def run_page(page: str, scratch: Path, *, has_model: bool) -> None:
    """Run a page's blocks, beginning in the checkout."""
    if shutil.which("bash") is None or shutil.which("sqlite3") is None:
        pytest.skip("needs bash and the sqlite3 shell: apt-get install sqlite3")
    blocks = runnable_blocks((REPOSITORY / page).read_text(encoding="utf-8"))
    wanted = [block for block in blocks if has_model or not block.needs_model]
    if not wanted:
        pytest.skip("every block of the page needs the model")
    # A cache of its own: a page that ran before, or runs beside this one, must not be seen.
    environment = {
        "XDG_CACHE_HOME": str(scratch / "cache"),
        "SQLINDEX_MODELS": str(default_models_dir()),
    }
    problems = run_blocks(wanted, start=REPOSITORY, scratch=scratch, environment=environment)
    if problems:
        pytest.fail(f"{page}, {problems[0]}", pytrace=False)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_works_as_typed_without_a_model(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path, has_model=False)


@pytest.mark.model
@pytest.mark.parametrize("page", PAGES)
def test_the_page_works_as_typed_with_the_model(page: str, tmp_path: Path) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    if not any(block.needs_model for block in runnable_blocks(text)):
        pytest.skip("no block of this page needs the model")
    run_page(page, tmp_path, has_model=True)


def test_blocks_carry_their_comments_and_outputs() -> None:
    page = "\n".join(
        (
            "```sh",
            "true",
            "```",
            "",
            "<!-- model -->",
            "<!-- exit 3 -->",
            "```sh",
            "sqlindex search x",
            "```",
            "",
            "```text",
            "0 hits …",
            "```",
            "",
            "Some words.",
            "",
            "```text",
            "no output of a block",
            "```",
            "",
            "<!-- not run: needs a clock -->",
            "```sh",
            "crontab -e",
            "```",
        )
    )
    first, second = runnable_blocks(page)
    assert (first.line, first.code, first.expected) == (1, "true\n", None)
    assert (second.needs_model, second.exit_code, second.expected) == (True, 3, "0 hits …\n")


def test_an_unknown_comment_before_a_block_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown comment 'modell'"):
        runnable_blocks("<!-- modell -->\n```sh\ntrue\n```\n")


def test_a_wrong_output_and_a_wrong_exit_code_are_told(tmp_path: Path) -> None:
    (right,) = runnable_blocks("```sh\necho one; echo two >&2\n```\n```text\none\ntwo\n```\n")
    cases = {
        "right": (right, ""),
        "output": (replace(right, expected="one\n"), "expected:\none"),
        "code": (replace(right, exit_code=4), "ended with 0, not 4"),
        "fails": (replace(right, code="false\necho one\n"), "ended with an error, not 0"),
    }
    for name, (block, message) in cases.items():
        scratch = tmp_path / name
        scratch.mkdir()
        problems = run_blocks([block], start=tmp_path, scratch=scratch, environment={})
        assert message in "".join(problems)
        assert bool(problems) == bool(message)


@pytest.mark.parametrize(
    ("expected", "found", "is_match"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a", True),
        ("a … c\n", "a b c\n", True),
        ("a … c\n", "a b\nc\n", False),
        ("…\nz\n", "x\ny\nz\n", True),
        ("…\nz\n", "z\n", True),
        ("(1.0)\n", "(1x0)\n", False),
        ("a\n", "a\nb\n", False),
    ],
)
def test_an_ellipsis_stands_for_anything_on_a_line_or_for_lines(
    expected: str, found: str, is_match: bool
) -> None:
    assert matches_output(expected, found) is is_match
