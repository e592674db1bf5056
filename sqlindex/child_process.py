"""A Python process of this program's own, spoken to over its standard streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

# The package that runs is the one that is imported, wherever it lies; the working folder, which may
# hold a `json.py`, is not searched (-P).
_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import sqlindex
del sys.path[0]
from importlib import import_module
import_module(sys.argv[2]).main()
"""


class ChildProcess:
    """Runs `main()` of a module of this package. Closing kills it; so does forgetting it.

    Attributes:
        requests: what it reads from its standard input.
        answers: what it writes to its standard output.
    """

    def __init__(self, module: str) -> None:
        """Start it.

        Raises:
            OSError: no process can be started.
        """
        package_parent = str(Path(__file__).resolve().parents[1])
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        # A group of its own: Ctrl-C is for the program that started it, which then ends the child.
        group: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, package_parent, module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                **group,
            )
        except OSError:
            self._complaints.close()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.requests: IO[bytes] = self._process.stdin
        self.answers: IO[bytes] = self._process.stdout
        self._end = weakref.finalize(self, _end_process, self._process, os.getpid())

    def kill(self) -> None:
        """Kill it, without waiting for it."""
        self._process.kill()

    def end(self) -> str:
        """Kill it if it runs, and wait for it; how it has ended, the first time."""
        if self._complaints.closed:
            return ""
        self._end()
        return self._last_words()

    def wait(self) -> str:
        """Wait for its own end; how it has ended, the first time."""
        if self._complaints.closed:
            return ""
        self._process.wait()
        return self._last_words()

    def close(self) -> None:
        """End it and close this side's ends of its streams, once no thread is at them."""
        self._end()
        for stream in (self.requests, self.answers, self._complaints):
            with suppress(OSError):
                stream.close()

    def _last_words(self) -> str:
        code = self._process.returncode
        if code is None:  # in a forked copy of this object, which is not its parent
            return ""
        self._complaints.seek(0)
        lines = self._complaints.read().decode("utf-8", "replace").strip().split("\n")
        self._complaints.close()
        if code < 0:
            return f"by signal {-code} ({signal.Signals(-code).name})"
        return f"with exit code {code}: {lines[-1]}".removesuffix(": ")


def _end_process(process: subprocess.Popen[bytes], owner_pid: int) -> None:
    """Kill the process if it runs, and wait for it, so that no zombie stays."""
    if os.getpid() == owner_pid:  # else it is a forked copy
        process.kill()
        process.wait()
