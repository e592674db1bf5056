"""A signal ends the work, and is never lost in a callback of SQLite, which would take it for damage."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from sqlindex import Index
from sqlindex.cli import interrupts
from sqlindex.store import permissions

pytestmark = pytest.mark.req("A-14")


def _interrupted_at(name: str, work: Callable[[], object]) -> bool:
    """Whether the work's first frame of this name meets a signal; what that raises is raised there."""
    met = False

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal met
        if not met and event == "call" and frame.f_code.co_name == name:
            met = True
            interrupts._on_signal(signal.SIGTERM, frame)

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return met


def test_a_signal_while_sqlite_asks_for_permission_does_not_make_a_sound_index_corrupt(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "_ending", interrupts._Ending())
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    path = index.path
    permissions.reading.cache_clear()  # so that it is asked anew, as in a fresh process
    permissions.writing.cache_clear()

    def ask() -> None:
        with Index.open(path) as again:
            again.add_question("where is the pump", [], is_answerable=False)

    with interrupts.interruptible(""):
        assert _interrupted_at("authorize", ask)
    assert interrupts.exit_code_of_signal() == 128 + signal.SIGTERM
    assert [question.id for question in index.questions()] == ["q1"]
    assert index.check() == []


def test_a_signal_anywhere_else_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_ending", interrupts._Ending())
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    with interrupts.interruptible(""), pytest.raises(KeyboardInterrupt):
        _interrupted_at("open", lambda: Index.open(tmp_path / "i.db", create=True))


def test_a_host_s_interrupt_while_sqlite_asks_for_permission_stays_an_interrupt(
    index: Index,
) -> None:
    """Each question of a fresh process in turn; it is answered from a cache after that."""
    path, met = index.path, 0
    with pytest.raises(permissions._Denied):
        permissions._deny()  # an earlier one, which was meant, changes nothing
    for number in range(1, 2_000):
        permissions.reading.cache_clear()
        permissions.writing.cache_clear()
        calls = 0

        def profile(frame: FrameType, event: str, _: object, number: int = number) -> None:
            nonlocal calls
            if event == "call" and frame.f_code.co_name == "authorize":
                calls += 1
                if calls == number:
                    raise KeyboardInterrupt

        sys.setprofile(profile)
        try:
            with Index.open(path) as again:
                again.search("pump")
                again.questions()
        except KeyboardInterrupt:
            met += 1
        finally:
            sys.setprofile(None)
        if calls < number:
            break
    assert met == number - 1 > 20
    assert index.check() == []
