"""Tokens and the worker thread: what passes through, and that nothing is left."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from contextvars import ContextVar

import pytest

from sqlindex.cancellation import NEVER, CancelToken, WorkerThread
from sqlindex.errors import CancelledError
from tests.faults import wait_until


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sqlindex worker"]


def test_values_errors_and_their_tracebacks_pass_through() -> None:
    def inner() -> None:
        raise LookupError("no such word")

    with WorkerThread(CancelToken()) as worker:
        assert worker.run(lambda: 42) == 42
        with pytest.raises(LookupError, match="no such word") as raised:
            worker.run(inner)
        with pytest.raises(SystemExit):
            worker.run(lambda: sys.exit(3))
        assert worker.run(lambda: "goes on") == "goes on"
    names = [frame.name for frame in traceback.extract_tb(raised.tb)]
    assert names[0].startswith("test_values")
    assert names[-1] == "inner"
    assert workers() == []


def test_functions_run_in_one_thread_each_in_the_context_of_its_call() -> None:
    word = ContextVar("word", default="none")

    def seen() -> tuple[int, str]:
        return threading.get_ident(), word.get()

    with WorkerThread(CancelToken()) as worker:
        word.set("one")
        first = worker.run(seen)
        word.set("two")
        second = worker.run(seen)
    assert first[0] == second[0] != threading.get_ident()
    assert (first[1], second[1]) == ("one", "two")


def test_without_a_token_nothing_leaves_the_callers_thread() -> None:
    with WorkerThread(NEVER) as worker:
        assert worker.run(threading.get_ident) == threading.get_ident()
    assert workers() == []


def test_a_result_is_freed_with_its_last_user() -> None:
    class Result:
        pass

    def fail() -> None:
        held = Result()
        references.append(weakref.ref(held))
        raise ValueError(held)

    references: list[weakref.ref[Result]] = []
    gc.disable()
    try:
        with WorkerThread(CancelToken()) as worker:
            result = worker.run(Result)
            references.append(weakref.ref(result))
            with pytest.raises(ValueError, match="Result"):
                worker.run(fail)
            del result
            wait_until(lambda: references[0]() is None, timeout_s=2)
    finally:
        gc.enable()


def test_an_abandoned_function_ends_its_thread_when_it_is_back() -> None:
    let_go, token = threading.Event(), CancelToken()
    threading.Timer(0.1, token.cancel).start()
    with pytest.raises(CancelledError), WorkerThread(token) as worker:
        worker.run(lambda: let_go.wait(60))
    assert len(workers()) == 1
    let_go.set()
    wait_until(lambda: workers() == [], timeout_s=2)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_keyboard_interrupt_ends_the_wait_at_once() -> None:
    let_go = threading.Event()
    main_thread = threading.get_ident()
    threading.Timer(0.2, lambda: signal.pthread_kill(main_thread, signal.SIGINT)).start()
    since = time.monotonic()
    with pytest.raises(KeyboardInterrupt), WorkerThread(CancelToken()) as worker:
        worker.run(lambda: let_go.wait(60))
    assert time.monotonic() - since < 2
    let_go.set()
    wait_until(lambda: workers() == [], timeout_s=2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_that_was_forked_beside_a_worker_has_workers_of_its_own() -> None:
    with WorkerThread(CancelToken()) as worker:
        worker.run(int)
        child = os.fork()
        if child == 0:
            with WorkerThread(CancelToken()) as own:
                os._exit(own.run(lambda: 7))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert worker.run(lambda: 1) == 1


def test_a_program_ends_although_an_abandoned_function_hangs() -> None:
    script = """
import time
from sqlindex.cancellation import CancelToken, WorkerThread
from sqlindex.errors import CancelledError
token = CancelToken()
def hang():
    token.cancel()
    time.sleep(60)
try:
    with WorkerThread(token) as worker:
        worker.run(hang)
except CancelledError:
    print("cancelled")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=True
    )
    assert (done.stdout, done.stderr) == ("cancelled\n", "")


def test_a_linked_token_is_cancelled_with_the_other_but_not_the_other_way() -> None:
    outer = CancelToken()
    inner = CancelToken(outer)
    beside = CancelToken(outer)
    inner.cancel()
    assert (inner.is_cancelled, outer.is_cancelled, beside.is_cancelled) == (True, False, False)
    outer.cancel()
    with pytest.raises(CancelledError):
        beside.check()


def test_a_lock_that_another_thread_holds_is_not_waited_for_after_a_cancel() -> None:
    lock, token = threading.Lock(), CancelToken()
    with token.holding(lock):
        assert lock.locked()
        threading.Timer(0.1, token.cancel).start()
        with pytest.raises(CancelledError), token.holding(lock):
            pytest.fail("two hold the lock")
    assert not lock.locked()
