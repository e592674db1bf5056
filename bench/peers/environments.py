"""An environment for each peer, made once from exact pins and kept in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements"
_INSTALL_SECONDS = 1_800


class PeerFailedError(Exception):
    """A peer cannot be installed or run; its text is the reason in the table."""


def interpreter(name: str, cache: Path) -> Path:
    """The Python that has the peer's packages; sqlindex runs in this one.

    Raises:
        PeerFailedError: its packages cannot be installed.
    """
    pins = REQUIREMENTS / f"{name}.txt"
    if name == "sqlindex":
        return Path(sys.executable)
    made_from = f"{sys.version}\n{sys.prefix}\n{pins.read_text(encoding='utf-8')}"
    folder = cache / f"{name}-{sha256(made_from.encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        print(f"installing {name} and what it needs", file=sys.stderr, flush=True)
        partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
        try:
            _install(partial, pins)
            partial.rename(folder)  # an environment that is there is complete
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return _python(folder)


def _install(folder: Path, pins: Path) -> None:
    pip = [str(_python(folder)), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*pip, "-r", str(pins)]):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise PeerFailedError(f"cannot be installed: {type(exc).__name__}") from exc
        if done.returncode:
            raise PeerFailedError(f"cannot be installed: {last_line(done.stderr)}")


def last_line(output: str) -> str:
    """What a failed program said last; of pip the last error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it said nothing"])[-1]


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
