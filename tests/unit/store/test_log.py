"""A reader that does not end: the writer names it, and waits before the disk fills."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sqlindex import Index, IndexConfig
from sqlindex.cancellation import CancelToken
from sqlindex.errors import CancelledError
from sqlindex.sources.memory import Document
from sqlindex.store import writer as module
from sqlindex.store.connection import IndexFile

_READER = """
import sys, time
from pathlib import Path
from sqlindex.store.connection import IndexFile
file = IndexFile.open(Path(sys.argv[1]), make=False, busy_timeout_ms=1000)
with file.reading() as connection:
    print("reading", flush=True)
    time.sleep(60)
"""
MB = 1_000_000


def _large(turn: int) -> Document:
    return Document("large", "".join(f"{turn}-{number:x} " for number in range(120_000)))


@pytest.mark.req("A-30")
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux tells who reads")
def test_a_frozen_reader_that_keeps_the_log_is_named_once(
    index: Index, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LOG_LIMIT_BYTES", MB)
    monkeypatch.setattr(module, "LOG_WARNING_BYTES", 2 * MB)
    monkeypatch.setattr(module, "LOG_WAIT_MS", 10)
    index.upsert("host", [_large(0)])
    reader = subprocess.Popen(
        [sys.executable, "-c", _READER, str(index.path)], stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    with reader.stdout, caplog.at_level(logging.WARNING, "sqlindex"):
        try:
            assert reader.stdout.readline() == "reading\n"
            reader.send_signal(signal.SIGSTOP)
            index.upsert("host", [_large(1)])
            index.upsert("host", [_large(2)])
            assert any(f"process {reader.pid} " in record.message for record in caplog.records)
        finally:
            reader.kill()
            reader.wait()
    index.upsert("host", [Document("small", "one")])
    assert Path(f"{index.path}-wal").stat().st_size < MB


@pytest.mark.req("A-30")
def test_a_writer_waits_past_the_limit_until_the_reader_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_LIMIT_BYTES", MB)
    monkeypatch.setattr(module, "LOG_WAIT_MS", 10)
    db = tmp_path / "index.db"
    with Index.open(db, create=True, config=IndexConfig(log_pause_mb=1)) as index:
        index.upsert("host", [_large(0)])
        file = IndexFile.open(db, make=False, busy_timeout_ms=1_000)
        token = CancelToken()
        with file.reading():
            timer = threading.Timer(0.5, token.cancel)
            timer.start()
            with pytest.raises(CancelledError):
                index.upsert("host", [_large(1)], cancel=token)
        ended = threading.Event()

        def read() -> None:
            with file.reading():
                ended.wait(20)

        reader = threading.Thread(target=read)
        reader.start()
        threading.Timer(0.5, ended.set).start()
        started = time.monotonic()
        assert index.upsert("host", [_large(2)]).generation == 2
        assert 0.4 < time.monotonic() - started < 15
        reader.join()
        file.close()
        assert index.check() == []
