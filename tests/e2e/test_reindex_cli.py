"""`sqlindex reindex` as its users run it: on a terminal, in a pipe, interrupted."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sqlindex.cli.progress import rate_of
from tests.faults import assert_told, clean_environment, command_line, running, sqlindex, wait_until

FILES = 40


@pytest.fixture
def db(tmp_path: Path) -> Path:
    folder, db = tmp_path / "notes", tmp_path / "i.db"
    folder.mkdir()
    for n in range(FILES):
        (folder / f"f{n:02}.md").write_text(f"# File {n}\n\nThe pump number {n} is hot.\n")
    assert sqlindex("init", folder, "--db", db).code == 0
    assert sqlindex("refresh", "--db", db).code == 0
    return db


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:  # the process ends
            continue
    return found


@pytest.mark.req("A-29")
def test_it_says_what_it_made_and_is_silent_about_the_way_in_a_pipe(db: Path) -> None:
    result = sqlindex("reindex", "--workers", "2", "--db", db)
    assert result.code == 0
    assert result.out == ""
    lines = result.err.splitlines()
    assert lines[:2] == [
        f"{FILES} reparsed, 0 unchanged",
        f"rebuilt chunks of {FILES} documents: made anew, as asked",
    ]
    assert lines[-1].startswith("published generation 2 (")
    report = sqlindex("reindex", "--layer", "lexical", "--json", "--db", db)
    assert report.json["generation"] == 3
    assert report.json["rebuilt"] == ["lexical rows: made anew, as asked"]
    assert report.err == ""


@pytest.mark.req("A-29")
def test_wrong_requests_are_usage_errors(db: Path) -> None:
    assert_told(sqlindex("reindex", "--layer", "vectors", "--db", db), 2, "embedder")
    for wrong in (("--layer", "words"), ("--workers", "-1")):
        assert sqlindex("reindex", *wrong, "--db", db).code == 2


@pytest.mark.req("A-14")
def test_on_a_terminal_it_shows_counts_and_rate(db: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command_line("reindex", "--db", db),
        stderr=theirs,
        stdout=theirs,
        env=clean_environment({"TERM": "xterm", "COLUMNS": "120"}),
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4_096)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait(60) == 0
    text = shown.decode()
    assert "reading" in text
    assert f"/{FILES}" in text
    assert "published generation 2" in text


@pytest.mark.parametrize(
    ("speed", "told"),
    [(None, ""), (0.0, ""), (2.345, "2.3 texts/s"), (12_345.6, "12,346 texts/s")],
)
def test_a_rate_has_the_digits_that_matter(speed: float | None, told: str) -> None:
    assert rate_of(speed, "texts") == told


@pytest.mark.req("A-14")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_reindex_leaves_no_process_and_the_last_generation(
    db: Path, number: signal.Signals
) -> None:
    # One large document keeps a worker busy for as long as it takes to look.
    (db.parent / "notes" / "large.md").write_text("- *a* **b** [c](d) `e`\n" * 60_000)
    with running("reindex", "--workers", "2", "--db", db) as process:
        wait_until(lambda: len(children_of(process.pid)) == 2, timeout_s=60)
        workers = children_of(process.pid)
        started = time.monotonic()
        process.send_signal(number)
        code = process.wait(30)
        took = time.monotonic() - started
    assert code == (130 if number is signal.SIGINT else -signal.SIGKILL)
    assert took < 2
    wait_until(lambda: not any(map(is_running, workers)), timeout_s=10)
    assert sqlindex("status", "--json", "--db", db).json["generation"] == 1
    assert sqlindex("check", "--db", db).code == 0


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
