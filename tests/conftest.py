"""Fixtures of all tests: an index that checks itself, the shared data, the staged model."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sqlindex import Index

REPOSITORY = Path(__file__).resolve().parent.parent

# No test fails because the machine is busy: times are measured in `bench/`.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="renew golden outputs; read the diff"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from sqlindex.embedding.staged import find_staged
    from sqlindex.errors import SqlindexError

    try:
        is_staged = find_staged("minilm") is not None
    except SqlindexError:
        is_staged = False
    if not is_staged:
        for item in items:
            if "model" in item.keywords:
                item.add_marker(
                    pytest.mark.skip(reason="MiniLM is not staged: sqlindex model install minilm")
                )
    if os.environ.get("SQLINDEX_DRIVER", "sqlite3") != "sqlite3":
        for item in items:
            if "own_sqlite" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="does not depend on the driver"))
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        for item in items:
            if "needs_root" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """An empty index; its invariants are checked after the test."""
    with Index.open(tmp_path / "index.db", create=True) as opened:
        yield opened
        assert opened.check() == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for documents."""
    made = tmp_path / "documents"
    made.mkdir()
    return made


@pytest.fixture(scope="session")
def data() -> Path:
    """The shared evaluation data."""
    found = Path(os.environ.get("SQLINDEX_DATA", REPOSITORY.parent / "shared" / "data"))
    if not found.is_dir():
        pytest.skip(f"no shared data at {found}: set SQLINDEX_DATA")
    return found


@pytest.fixture(scope="session")
def shell() -> Callable[[Path, str], list[str]]:
    """The stock `sqlite3` shell in a process of its own: lines of its answer to a statement."""
    program = shutil.which("sqlite3")
    if program is None:
        pytest.skip("the sqlite3 shell is not installed: apt-get install sqlite3")

    def ask(db: Path, sql: str) -> list[str]:
        answer = subprocess.run(
            [program, "-readonly", str(db), sql], capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.splitlines()

    return ask
