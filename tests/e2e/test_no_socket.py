"""In local mode no process of sqlindex makes a socket: an audit hook stops the first one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import clean_environment, command_line

# Each interpreter that a command starts, a worker's too, imports it from PYTHONPATH.
HOOK = """
import os, sys

def hook(event, arguments):
    if event == "socket.__new__":
        with open(os.environ["SOCKETS_MADE"], "a") as told:
            told.write(" ".join(sys.argv) + "\\n")
        raise RuntimeError("a socket was made")

with open(os.environ["HOOKED"], "a") as told:
    told.write("one\\n")
sys.addaudithook(hook)
"""


def _run(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    environment = clean_environment()
    before = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = f"{folder / 'hook'}:{before}" if before else str(folder / "hook")
    environment |= {"SOCKETS_MADE": str(folder / "made"), "HOOKED": str(folder / "hooked")}
    return subprocess.run(arguments, capture_output=True, timeout=120, env=environment, check=False)


@pytest.fixture
def hooked(tmp_path: Path) -> Path:
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK, encoding="utf-8")
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(40):
        (notes / f"{number}.md").write_text(f"# Pump {number}\n\nIt runs.\n", encoding="utf-8")
    return tmp_path


def test_the_hook_stops_a_socket(hooked: Path) -> None:
    done = _run(hooked, sys.executable, "-c", "import socket; socket.socket()")
    assert done.returncode == 1
    assert (hooked / "made").exists()


@pytest.mark.req("A-28")
@pytest.mark.parametrize("model", ["none", pytest.param("minilm", marks=pytest.mark.model)])
def test_no_command_of_local_mode_makes_a_socket(model: str, hooked: Path) -> None:
    db = hooked / "i.db"
    arguments = [] if model == "none" else ["--embedder", model]
    commands: list[list[str | Path]] = [
        ["init", hooked / "notes", *arguments],
        ["refresh", "--plan"],
        ["refresh"],
        ["search", "pump 7"],
        ["reindex", "--workers", "2"],
        ["status"],
        ["history"],
        ["check"],
        ["doctor"],
        ["backup", hooked / "b.db"],
        ["compact"],
    ]
    if model != "none":
        commands += [["search", "pump", "--mode", "semantic"], ["model", "verify", model]]
    for command in commands:
        done = _run(
            hooked,
            *command_line(*command, "--db", db)
            if command[0] != "model"
            else command_line(*command),
        )
        assert done.returncode == 0, (command, done.stderr.decode())
    assert not (hooked / "made").exists()
    # The workers were looked at, too.
    assert len((hooked / "hooked").read_text(encoding="utf-8").splitlines()) >= len(commands) + 2
