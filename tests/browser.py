"""Headless Chromium over its DevTools protocol, for tests that look at a page as a reader does."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
"""The program, or None if there is none."""

_AT_3_AND_4 = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


class Page:
    """One open page; it keeps what the browser tells about it."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._unread = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """The result of a command of the protocol."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path) -> None:
        """Open a file and wait until it has loaded; events start anew."""
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def show(self, *, width: int, scheme: str = "light") -> None:
        """Set the width in pixels and the colour scheme."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=800, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)

    @property
    def requested(self) -> list[str]:
        """Addresses that the page asked for, its own included."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    @property
    def complaints(self) -> list[str]:
        """What the console shows: uncaught errors, blocked content, messages."""
        kinds = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [json.dumps(event["params"]) for event in self.events if event["method"] in kinds]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            read = os.read(self._answers, 1 << 16)
            assert read, "the browser ended"
            self._unread += read
        message, self._unread = self._unread.split(b"\0", 1)
        decoded: dict[str, Any] = json.loads(message)
        return decoded


@contextmanager
def open_page(profile: Path) -> Iterator[Page]:
    """A page of a new browser, whose profile goes into a folder of its own."""
    assert CHROMIUM is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # The browser talks over descriptors 3 and 4; high numbers cannot be overwritten on the way there.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (theirs_in, theirs_out)]
    command = [
        sys.executable, "-c", _AT_3_AND_4, *map(str, high), CHROMIUM,
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}",
    ]  # fmt: skip
    with subprocess.Popen(
        command, pass_fds=high, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as browser:
        for fd in (theirs_in, theirs_out, *high):
            os.close(fd)
        try:
            yield Page(ours_out, ours_in)
        finally:
            os.close(ours_out)  # the browser ends with its pipe
            os.close(ours_in)
            try:
                browser.wait(10)
            except subprocess.TimeoutExpired:
                browser.kill()
