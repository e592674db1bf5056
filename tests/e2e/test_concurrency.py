"""Many readers and one writer across processes, threads, forks and names of one index file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sqlindex import Index
from sqlindex.cancellation import CancelToken
from sqlindex.errors import CancelledError, LockedError
from sqlindex.sources.memory import Document
from sqlindex.store.connection import IndexFile
from tests.fault.soak import LOG_LIMIT_BYTES, PAGES, assert_one_state, pages
from tests.faults import clean_environment, command_line, shell_lines, sqlindex, wait_until


@contextmanager
def scripts(source: str, *arguments: list[str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Python processes that run `source`, one for each list of arguments; killed at the end."""
    path = os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[2])))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", source, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment({"PYTHONPATH": path}),
        )
        for words in arguments
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def answers(processes: list[subprocess.Popen[str]], timeout_s: float = 60) -> list[str]:
    """What each process printed; fails if one ended with an error."""
    printed = []
    for process in processes:
        out, err = process.communicate(timeout=timeout_s)
        assert process.returncode == 0, err
        printed.append(out)
    return printed


OPENER = """
import sys, time
from test_concurrency import pages
from sqlindex import Index
from sqlindex.sources.memory import Document
db, name, start = sys.argv[1:]
time.sleep(max(0, float(start) - time.time()))
with Index.open(db, create=True) as index:
    index.upsert(name, [Document(name, "text of " + name)], wait_s=30)
    assert index.search("text").hits
"""


@pytest.mark.req("A-15", "A-30")
def test_d22_four_processes_that_make_the_same_index_at_once_share_one(tmp_path: Path) -> None:
    for attempt in range(3):
        db = tmp_path / str(attempt) / "index.db"
        db.parent.mkdir()
        start = str(time.time() + 0.6)
        with scripts(OPENER, *([str(db), f"s{n}", start] for n in range(4))) as processes:
            answers(processes)
        with Index.open(db) as index:
            assert index.status().documents == 4
            assert index.status().generation == 4
            assert index.check() == []
        assert db.stat().st_mode & 0o777 == 0o600
        assert sorted(path.name for path in db.parent.iterdir()) == [
            "index.db",
            "index.db-lock",
            "index.db-shm",
            "index.db-wal",
        ]


@pytest.mark.req("A-30")
def test_four_inits_at_once_all_succeed(tmp_path: Path) -> None:
    db = tmp_path / "index.db"
    started = [
        subprocess.Popen(
            command_line("init", "--db", db), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    for process in started:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert sqlindex("status", "--db", db, "--json").json["generation"] == 0


@pytest.mark.req("A-24")
def test_the_oracle_notices_an_answer_read_in_two_transactions(index: Index) -> None:
    index.upsert("pages", pages("one"))
    texts = [index.get(f"page{n}.md").text for n in range(6)]
    index.upsert("pages", pages("two"))
    texts += [index.get(f"page{n}.md").text for n in range(6, PAGES)]
    with pytest.raises(AssertionError, match="a mixture"):
        assert_one_state(texts)


@pytest.mark.req("A-15")
def test_a_second_writer_is_refused_at_once_and_named_or_waits(index: Index) -> None:
    index.upsert("pages", pages("one"))
    file = IndexFile.open(index.path, make=False, busy_timeout_ms=1_000)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with file.writing("holding"):
            entered.set()
            leave.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert entered.wait(20)
        started = time.monotonic()
        with pytest.raises(LockedError, match=rf"process {os.getpid()} \(holding since"):
            index.upsert("pages", pages("two"))
        with pytest.raises(LockedError):
            index.add_source(Path(__file__).parent)
        with pytest.raises(LockedError):
            index.remove_source("pages")
        with pytest.raises(LockedError):
            index.upsert("pages", pages("two"), wait_s=0.2)
        assert 0.2 <= time.monotonic() - started < 5
        assert_one_state([hit.text for hit in index.search("common", limit=100).hits])
        threading.Timer(0.3, leave.set).start()
        assert index.upsert("pages", pages("two"), wait_s=20).generation == 2
    finally:
        leave.set()
        holder.join()
        file.close()


@pytest.mark.req("A-14", "A-15")
def test_waiting_for_another_writer_can_be_cancelled(index: Index) -> None:
    index.upsert("pages", pages("one"))
    file = IndexFile.open(index.path, make=False, busy_timeout_ms=1_000)
    token = CancelToken()
    with file.writing("holding"):
        timer = threading.Timer(0.2, token.cancel)
        timer.start()
        started = time.monotonic()
        with pytest.raises(CancelledError):
            index.upsert("pages", pages("two"), cancel=token, wait_s=30)
        with pytest.raises(CancelledError):
            index.refresh(cancel=token, wait_s=30)
        assert time.monotonic() - started < 2
    file.close()


@pytest.mark.req("A-15", "A-30")
def test_two_names_of_one_index_file_share_one_writer_lock(index: Index, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    link = other / "link.db"
    link.symlink_to(index.path)
    file = IndexFile.open(index.path, make=False, busy_timeout_ms=1_000)
    with Index.open(link) as linked:
        with file.writing("holding"), pytest.raises(LockedError):
            linked.upsert("pages", pages("one"))
        linked.upsert("pages", pages("two"))
        assert linked.check() == []
    file.close()
    assert_one_state([hit.text for hit in index.search("common", limit=100).hits])
    assert [path.name for path in other.iterdir()] == ["link.db"]


@pytest.mark.req("A-30")
def test_a_link_to_a_missing_index_makes_it_where_the_link_leads(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real.db")
    with Index.open(link, create=True) as index:
        index.upsert("pages", pages("one"))
        assert index.check() == []
    assert link.is_symlink()
    assert (tmp_path / "real.db-lock").exists()


@pytest.mark.req("A-24")
def test_readers_opened_before_and_after_a_publish_both_see_it(index: Index) -> None:
    index.upsert("pages", pages("one"))
    with Index.open(index.path) as early:
        assert early.search("common").generation == 1
        index.upsert("pages", pages("two"))
        with Index.open(index.path) as late:
            for reader in (early, late):
                result = reader.search("common", limit=100)
                assert result.generation == 2
                assert assert_one_state([hit.text for hit in result.hits]) == "two"


@pytest.mark.req("A-24", "A-30")
def test_d23_a_held_snapshot_stays_whole_and_the_log_shrinks_after_it(index: Index) -> None:
    big = "filler " * 2_000
    index.upsert("pages", pages("one"))
    holder = IndexFile.open(index.path, make=False, busy_timeout_ms=1_000)
    texts = "SELECT body FROM content_piece ORDER BY piece_id"
    live = "SELECT count(*), min(born), max(born) FROM document_version WHERE died IS NULL"
    log = Path(f"{index.path}-wal")
    with holder.reading() as connection:
        before = connection.execute(texts).fetchall(), connection.execute(live).fetchall()
        for number in range(50):
            documents = [
                Document(f"big{n}.md", f"{big} {number} {n}", type_name="md") for n in range(4)
            ]
            index.upsert("big", documents)
        assert (connection.execute(texts).fetchall(), connection.execute(live).fetchall()) == before
        assert log.stat().st_size < LOG_LIMIT_BYTES
    index.upsert("pages", pages("two"))
    assert log.stat().st_size < 1_000_000
    holder.close()


@pytest.mark.req("A-30")
def test_d23_readers_that_overlap_without_a_gap_do_not_keep_the_log_growing(index: Index) -> None:
    file = IndexFile.open(index.path, make=False, busy_timeout_ms=1_000)
    log = Path(f"{index.path}-wal")
    stop = threading.Event()

    def overlap() -> None:
        with ExitStack() as held:
            held.enter_context(file.reading())
            while not stop.is_set():
                following = ExitStack()
                following.enter_context(file.reading())
                time.sleep(0.005)
                held.close()
                held = following
            held.close()

    reader = threading.Thread(target=overlap)
    reader.start()
    longest_log = 0
    text = "".join(f"{number:x} " for number in range(300_000))
    try:
        for number in range(14):
            index.upsert("big", [Document("big", f"{number} {text}")])
            longest_log = max(longest_log, log.stat().st_size)
    finally:
        stop.set()
        reader.join()
        file.close()
    assert longest_log < LOG_LIMIT_BYTES, longest_log


@pytest.mark.req("A-24")
def test_threads_of_one_index_search_while_it_is_written(index: Index) -> None:
    index.upsert("pages", pages("start"))
    errors: list[BaseException] = []
    reads = [0] * 4
    stop = threading.Event()

    def read(number: int) -> None:
        try:
            while not stop.is_set():
                result = index.search("common word", limit=100)
                assert_one_state([hit.text for hit in result.hits])
                reads[number] += 1
        except BaseException as exc:  # a thread's, asserted by the test
            errors.append(exc)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for number in range(40):
        index.upsert("pages", pages(f"n{number}"))
    wait_until(lambda: bool(errors) or all(reads))
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def _in_child(work: object) -> None:
    """Run `work` in a forked child that leaves as processes do; fails if it did."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert callable(work)
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.req("A-24", "A-30")
def test_a_forked_child_searches_and_the_parent_keeps_its_lock_and_connections(
    index: Index,
) -> None:
    index.upsert("pages", pages("one"))
    assert index.search("common").generation == 1
    file = IndexFile.open(index.path, make=False, busy_timeout_ms=1_000)

    def child() -> None:
        assert (
            assert_one_state([hit.text for hit in index.search("common", limit=100).hits]) == "one"
        )
        index.close()

    with file.writing("holding") as writer, writer.transaction() as connection:
        connection.execute("INSERT INTO setting VALUES('probe', 'kept')")
        _in_child(child)
        # The child's exit let nothing go: neither the lock file's lock nor SQLite's.
        assert sqlindex("init", "--db", index.path, "--embedder", "none").code == 4
    file.close()
    assert shell_lines(index.path, "SELECT value FROM setting WHERE name = 'probe'") == ["kept"]
    assert index.upsert("pages", pages("two")).generation == 2
    assert index.search("common").generation == 2


@pytest.mark.req("A-24", "A-30")
def test_a_forked_child_holds_locks_of_its_own_when_the_parent_lets_go(
    tmp_path: Path, shell: object
) -> None:
    db = tmp_path / "index.db"
    with Index.open(db, create=True) as made:
        made.upsert("pages", pages("one"))
    index = Index.open(db)
    assert index.search("common").generation == 1

    def child() -> None:
        # The parent's handles must not be inherited: SQLite would count their locks as the child's.
        assert index.search("common").generation == 1
        ready.write_text("")
        wait_until(go.exists)
        result = index.search("common", limit=100)
        assert result.generation == 2, result.generation
        assert assert_one_state([hit.text for hit in result.hits]) == "two"

    ready, go = tmp_path / "ready", tmp_path / "go"
    child_id = os.fork()
    if child_id == 0:
        code = 1
        try:
            child()
            code = 0
        finally:
            os._exit(code)
    wait_until(ready.exists)
    index.close()
    # The shell, as the last connection that it sees, would remove the log under the child.
    shell_lines(db, "PRAGMA user_version; SELECT count(*) FROM head;", writes=True)
    with Index.open(db) as other:
        other.upsert("pages", pages("two"))
    go.write_text("")
    assert os.waitstatus_to_exitcode(os.waitpid(child_id, 0)[1]) == 0
