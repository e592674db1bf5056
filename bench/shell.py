"""Read an index file without our code: through the `sqlite3` shell in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from sqlindex.errors import UsageError


def shell_rows(index_path: Path, columns: str, rest: str) -> Iterator[list[object]]:
    """Rows of `SELECT columns rest`, decoded from one JSON array a line.

    Raises:
        UsageError: the shell is not installed, or it refused the statement.
    """
    shell = shutil.which("sqlite3")
    if shell is None:
        raise UsageError(
            "the benchmark reads the index with the sqlite3 shell, and there is none",
            hint="install it, for example with 'apt install sqlite3'",
        )
    statement = f"SELECT json_array({columns}) {rest};"
    with subprocess.Popen(
        [shell, "-readonly", "-batch", "-init", "/dev/null", str(index_path), statement],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            yield json.loads(line)
        problem = process.stderr.read()
    if process.returncode:
        raise UsageError(f"the sqlite3 shell failed: {problem.strip()}")
