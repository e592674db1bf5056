"""Ctrl-C and SIGTERM end the program: asked first, then interrupted, then at once.

Python's own handlers run in the main thread, and only when it comes back to the interpreter. So a
second thread reads each signal from a pipe that the first, tiny handler writes to, and keeps the time:

- The first signal cancels the work's token; work without one gets a `KeyboardInterrupt`.
- After `STOP_S`, or by a second signal, the work gets a `KeyboardInterrupt` if it is still there, so
  that it ends its children and removes its temporary files on the way out.
- `UNWIND_S` after that, or `SECOND_S` after a second signal, the process ends where it is. The index
  is safe at any moment, and the kernel releases its locks.

Only an extension that keeps the interpreter's lock for longer can delay that.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlindex.cancellation import CancelToken

# Only small modules are imported: a signal may come before all else is loaded.

STOP_S = 1.0
"""How long the work may take to end by its token."""

UNWIND_S = 0.5
"""How long it may then take to clean up."""

SECOND_S = 0.2
"""The same after a second signal."""

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h\n"


class _Ending:
    """What has happened in this process."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.token: CancelToken | None = None
        self.is_working = False
        self.is_watched = False
        self.json_error = ""
        self.told = allocate_lock()
        """Taken for good by whoever gives the one message."""


_ending = _Ending()


def take_signals() -> None:
    """Handle SIGINT and SIGTERM from now on; a second call does nothing."""
    if _ending.is_watched:
        return
    _ending.is_watched = True
    if os.name == "posix":
        # A program may be started with closed streams: the pipe must not get their numbers.
        while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(spare)
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        start_new_thread(_watch, (reader, get_ident()))
    for number in _NUMBERS:
        signal.signal(number, _on_signal)


@contextmanager
def interruptible(json_error: str) -> Iterator[None]:
    """In this block a signal raises `KeyboardInterrupt`, outside of it ends the process.

    Args:
        json_error: printed on stdout if the process is ended from outside; may be empty.
    """
    _ending.json_error = json_error
    _ending.is_working = True
    try:
        yield
    finally:
        _ending.is_working = False


@contextmanager
def cancelled_by_signals() -> Iterator[CancelToken]:
    """A token that the first signal cancels while the block runs.

    The work stops at its next check and leaves the last published generation.
    """
    from sqlindex.cancellation import CancelToken

    _ending.token = CancelToken()
    try:
        yield _ending.token
    finally:
        _ending.token = None


def may_tell() -> bool:
    """Whether the caller is the first to say that the program was interrupted."""
    return not _ending.is_watched or _ending.told.acquire(blocking=False)


def exit_code_of_signal() -> int:
    """128 + the first signal; 130 when none came."""
    return 128 + _ending.received[0] if _ending.received else 128 + signal.SIGINT


def _on_signal(number: int, frame: FrameType | None) -> None:
    """Run by the interpreter in the main thread.

    Args:
        frame: what runs there.
    """
    _ending.received.append(number)
    # A KeyboardInterrupt in a callback, where it is lost, would be printed with its traceback.
    sys.unraisablehook = lambda _: None
    if not _ending.is_working:
        if not _ending.told.locked():
            _end(_ending.received[0])
    elif _ending.token is None or len(_ending.received) > 1:
        if not _asks_permission(frame):
            raise KeyboardInterrupt
    else:
        _ending.token.cancel()


def _asks_permission(frame: FrameType | None) -> bool:
    """Whether SQLite asks there if a statement is allowed.

    It takes an exception for a no, and the program that for damage: a sound index would be told to
    be corrupt. The work ends soon, or by the next signal.
    """
    return frame is not None and frame.f_globals.get("__name__") == "sqlindex.store.permissions"


def _watch(reader: int, main_thread: int) -> None:
    """Keep the time from the first signal on; runs in a thread of its own."""
    number = 0
    while number not in _NUMBERS:  # other handlers' signals are written to the pipe too
        (number,) = os.read(reader, 1)
    is_second, _, _ = select.select([reader], [], [], STOP_S)
    if not is_second:
        # A real signal, so that also a blocking system call ends.
        signal.pthread_kill(main_thread, number)
    time.sleep(SECOND_S if is_second else UNWIND_S)
    _end(number)


def _end(number: int) -> None:
    """End the process with the one message, whatever its threads are doing."""
    if may_tell():
        if _ending.json_error:
            _write_now(1, _ending.json_error)
        cursor = _SHOW_CURSOR if os.isatty(2) else ""
        _write_now(2, f"{cursor}error: interrupted\n")
    os._exit(128 + number)


def _write_now(stream: int, text: str) -> None:
    """Write past the buffers, which another thread may hold, and never wait for a reader."""
    try:
        if select.select([], [stream], [], 0)[1]:
            os.write(stream, text.encode())
    except OSError:
        pass
