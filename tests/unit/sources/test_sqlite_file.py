"""A database file read by a child process: it changes nothing, and whatever goes wrong is told."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sqlindex.errors import SourceError, UsageError
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.model.ids import DocumentId
from sqlindex.sources.sqlite_file import SqliteFileSource, canonical_database
from sqlindex.sources.sqlite_reader import serve
from sqlindex.sources.table_frames import encoded, read_frame, write_frame
from sqlindex.sources.table_selection import SqliteTable

sqlite3 = pytest.importorskip("sqlite3")

needs_proc = pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="looks for children in /proc"
)


def make(path: Path, rows: int = 3, *, wal: bool = False) -> Path:
    """A database with a table `page`."""
    connection = sqlite3.connect(path, isolation_level=None)
    if wal:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE page(id INTEGER PRIMARY KEY, body TEXT)")
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO page VALUES(?, ?)", ((n, f"text {n}") for n in range(1, rows + 1))
    )
    connection.execute("COMMIT")
    connection.close()
    return path


def source_of(path: Path, wanted: SqliteTable | None = None, **options: Any) -> SqliteFileSource:
    table = SqliteTable(table="page") if wanted is None else wanted
    return SqliteFileSource("s", canonical_database(path), table, **options)


def texts(source: SqliteFileSource) -> dict[str, str]:
    found = {}
    for entry in source.list():
        assert isinstance(entry, DocumentRef)
        raw = source.read(entry)
        assert isinstance(raw, RawDocument)
        found[entry.document_id] = raw.data.decode()
    return found


def ref(document_id: str) -> DocumentRef:
    return DocumentRef(DocumentId(document_id), document_id, "txt")


def children() -> set[int]:
    """Processes that this one has started and not waited for, ended ones too."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found.update(int(pid) for pid in (task / "children").read_text().split())
    return found


EXPECTED = {"1": "text 1", "2": "text 2", "3": "text 3"}


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    "name",
    ["a b.db", "100%.db", "what?.db", "a#b.db", "ü.db", b"\xff.db", "a\nb.db", "a'\"b", "x\\y"],
)
def test_a_file_of_any_name_is_read(name: str | bytes, tmp_path: Path) -> None:
    path = make(tmp_path / os.fsdecode(name))
    assert texts(source_of(path)) == EXPECTED


@pytest.mark.req("A-4")
@pytest.mark.parametrize("wal", [False, True])
def test_reading_changes_no_byte_of_the_file(wal: bool, tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", wal=wal)
    before = (sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns)
    source = source_of(path)
    assert texts(source) == EXPECTED
    assert isinstance(source.read(ref("2")), RawDocument)
    assert (sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) == before
    if not wal:
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.req("A-4")
def test_rows_of_every_kind_come_through_the_pipe(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t(k, body, x)")
    rows: list[tuple[Any, ...]] = [
        (1, "a\0b\u2028\x1b\U0001f600", 2**63 - 1),
        ("ü", "größer".encode(), -1.5),
        ("bad", b"\xff", None),
        ("inf", "x", float("inf")),
        (None, "x", None),
        (b"blob", "x", None),
    ]
    connection.executemany("INSERT INTO t VALUES(?, ?, ?)", rows)
    connection.execute("INSERT INTO t VALUES('text', CAST(x'ff' AS TEXT), 0)")
    connection.commit()
    connection.close()
    source = source_of(path, SqliteTable(table="t", id="k", text=("body",), metadata=("x",)))
    found = {e.document_id: e if isinstance(e, Refusal) else source.read(e) for e in source.list()}
    assert found["1"] == RawDocument(rows[0][1].encode(), metadata={"x": 2**63 - 1})
    assert found["ü"] == RawDocument("größer".encode(), metadata={"x": -1.5})
    assert found["inf"] == RawDocument(b"x", metadata={"x": None})
    refused = {i: raw.reason for i, raw in found.items() if isinstance(raw, Refusal)}
    assert refused == {
        "bad": RefusalReason.ENCODING,
        "row 5": RefusalReason.ID,
        "row 6": RefusalReason.ID,
        "text": RefusalReason.ENCODING,
    }
    for document_id in ("1", "ü", "bad"):
        assert source.read(ref(document_id)) == found[document_id]


@pytest.mark.req("A-2", "A-4")
def test_the_longest_row_fits_into_a_message_and_a_longer_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t(id TEXT, body TEXT)")
    limit = 8 * 1024 * 1024
    worst = "\x01" * (limit - 4)  # six bytes each in JSON
    rows = [("fits", worst), ("long", "x" * limit), ("x" * limit, "y"), ("last", "z")]
    connection.executemany("INSERT INTO t VALUES(?, ?)", rows)
    connection.commit()
    connection.close()
    source = source_of(path, SqliteTable(table="t", id="id", text=("body",)))
    found = {e.document_id: e if isinstance(e, Refusal) else source.read(e) for e in source.list()}
    assert list(found) == ["fits", "long", "row 3", "last"]
    assert found["fits"] == RawDocument(worst.encode())
    for document_id in ("long", "row 3"):
        refusal = found[document_id]
        assert isinstance(refusal, Refusal)
        assert refusal.reason is RefusalReason.TOO_LARGE


@pytest.mark.req("A-4")
def test_a_missing_file_and_what_is_no_file_are_refused_at_registration(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, what in (("no.db", "does not exist"), ("fifo", "regular"), (".", "regular")):
        with pytest.raises(UsageError, match=what):
            canonical_database(tmp_path / name)


def _missing(path: Path) -> None:
    path.unlink()


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def _text_file(path: Path) -> None:
    path.write_text("id,body\n1,text\n" * 500)


def _encrypted(path: Path) -> None:
    path.write_bytes(bytes(byte ^ 0x5A for byte in path.read_bytes()))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:4_096])


def _damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4_096:] = b"\xff" * (len(data) - 4_096)
    path.write_bytes(data)


@pytest.mark.req("A-4", "A-14")
@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (_missing, "cannot be opened: No such file"),
        (_fifo, "is not a regular file"),
        (_folder, "is not a regular file"),
        (_link, "symbolic link"),
        (_text_file, "is not an SQLite database"),
        (_encrypted, "is not an SQLite database"),
        (_empty, "there is no table 'page'"),
        (_cut, "is damaged"),
        (_damaged, "is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_source_error_that_says_why(
    damage: Callable[[Path], None], cause: str, tmp_path: Path
) -> None:
    path = make(tmp_path / "a.db", 2_000)
    source = source_of(path)
    damage(path)
    with pytest.raises(SourceError, match=cause) as error:
        list(source.list())
    assert str(path) in str(error.value) or "no table" in cause
    assert error.value.hint
    with pytest.raises(SourceError, match=cause):
        source.read(ref("1"))


@pytest.mark.req("A-4")
def test_a_locked_database_is_waited_for_and_then_named(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db")
    host = sqlite3.connect(path, isolation_level=None)
    host.execute("BEGIN EXCLUSIVE")
    with pytest.raises(SourceError, match="is locked by another program") as error:
        list(source_of(path, busy_timeout_ms=50).list())
    assert error.value.retryable
    # This process never opened the file beside the host, so the host's lock is still there.
    program = (
        "import sqlite3, sys\n"
        "sqlite3.connect(sys.argv[1], timeout=0).execute('INSERT INTO page(body) VALUES(1)')"
    )
    other = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert "database is locked" in other.stderr
    host.execute("ROLLBACK")
    assert texts(source_of(path)) == EXPECTED


@pytest.mark.req("A-4")
def test_a_hot_journal_is_explained_and_left_alone(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", 2_000)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA cache_size=1")
    writer.execute("BEGIN")
    writer.execute("UPDATE page SET body = body || 'more'")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for suffix in ("", "-journal"):
        shutil.copy(f"{path}{suffix}", crashed / f"a.db{suffix}")
    writer.execute("ROLLBACK")
    before = {file.name: file.read_bytes() for file in crashed.iterdir()}
    with pytest.raises(SourceError, match="in the middle of a write") as error:
        list(source_of(crashed / "a.db").list())
    assert error.value.hint == "open it once with the program it belongs to"
    assert {file.name: file.read_bytes() for file in crashed.iterdir()} == before


def answers(path: Path, on_write: Callable[[], object] = lambda: None) -> list[Any]:
    """What the reader answers when it runs in this process, whose user tests can change.

    Args:
        path: a database with a table `page`.
        on_write: called before each message.
    """

    class Replies(io.BytesIO):
        def write(self, data: Any, /) -> int:
            on_write()
            return super().write(data)

    requests, replies = io.BytesIO(), Replies()
    opening = {"path": os.fspath(path), "table": {"table": "page"}, "timeout_ms": 50}
    for message in (opening, {}):
        write_frame(requests, encoded(message))
    requests.seek(0)
    serve(requests, replies)
    replies.seek(0)
    return list(iter(lambda: read_frame(replies), None))


def bodies(messages: list[Any]) -> list[str]:
    return [row[-1] for message in messages for row in message.get("rows", ())]


@pytest.mark.req("A-4")
@pytest.mark.needs_root
@pytest.mark.parametrize("folder_mode", [0o777, 0o755])
def test_another_users_log_mode_database_gets_no_sidecars(
    folder_mode: int, root: Path, as_ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    path = make(root / "a.db", wal=True)
    root.chmod(folder_mode)
    with as_ordinary_user():
        messages = answers(path)
    assert bodies(messages) == list(EXPECTED.values())
    assert messages[-1] == {"end": True}
    assert os.listdir(root) == ["a.db"]


@pytest.mark.req("A-4")
@pytest.mark.needs_root
def test_another_users_log_is_read_with_the_file_or_the_reason_is_told(
    root: Path, as_ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    path = make(root / "a.db", wal=True)
    owner = sqlite3.connect(path, isolation_level=None)
    owner.execute("INSERT INTO page VALUES(4, 'only in the log')")
    crashed = root / "crashed"
    crashed.mkdir(mode=0o755)
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", crashed / f"a.db{suffix}")
    owner.close()
    for file in crashed.iterdir():
        file.chmod(0o644)
    before = sorted(crashed.iterdir())
    with as_ordinary_user():
        (message,) = answers(crashed / "a.db")
    assert "cannot be opened" in message["error"]
    assert "its log" in message["hint"]
    assert sorted(crashed.iterdir()) == before
    (crashed / "a.db").chmod(0o600)
    with as_ordinary_user():
        (message,) = answers(crashed / "a.db")
    assert "Permission denied" in message["error"]
    # Its owner, and root for the owner, reads the log too.
    assert bodies(answers(crashed / "a.db")) == [*EXPECTED.values(), "only in the log"]


@pytest.mark.req("A-4")
@pytest.mark.needs_root
def test_a_file_read_without_locks_that_changes_meanwhile_is_an_error(
    root: Path, as_ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    path = make(root / "a.db", wal=True)
    owner = sqlite3.connect(path, isolation_level=None)
    owner.execute("INSERT INTO page VALUES(4, 'text 4')")
    owner.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for suffix in ("-wal", "-shm"):
        os.chmod(f"{path}{suffix}", 0o600)
    with as_ordinary_user():
        assert bodies(answers(path)) == [*EXPECTED.values(), "text 4"]
        messages = answers(path, lambda: owner.execute("UPDATE page SET body = 'new'"))
    assert "changed while it was read without locks" in messages[-1]["error"]
    assert not messages[-1]["is_usage"]
    owner.close()


@pytest.mark.req("A-4")
def test_the_owner_may_write_meanwhile_and_the_listing_is_one_snapshot(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", 100_000, wal=True)
    source = source_of(path)
    listing = source.list()
    next(listing)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("UPDATE page SET body = 'new'")
    writer.execute("DELETE FROM page WHERE id > 50000")
    old = 1
    for entry in listing:
        assert isinstance(entry, DocumentRef)
        raw = source.read(entry)
        assert isinstance(raw, RawDocument)
        old += raw.data.startswith(b"text ")
    assert old == 100_000
    assert set(texts(source).values()) == {"new"}


@pytest.mark.req("A-4")
def test_a_query_can_only_read(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db")
    for query, cause in (
        ("SELECT load_extension('x') AS id, 'x' AS body", "load_extension"),
        ("SELECT user_version AS id, 'x' AS body FROM pragma_user_version", "not authorized"),
        ("SELECT file AS id, 'x' AS body FROM pragma_database_list", "not authorized"),
        ("WITH n AS (SELECT 1) DELETE FROM page RETURNING id, body", "syntax error"),
        ("SELECT nope AS id FROM page", "no such column: nope"),
    ):
        with pytest.raises((UsageError, SourceError), match=cause):
            source_of(path, SqliteTable(query=query, id="id", text=("body",))).check()
    assert texts(source_of(path)) == EXPECTED


@pytest.mark.req("A-4")
def test_full_text_tables_and_views_are_read(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE VIRTUAL TABLE note USING fts5(body)")
    connection.execute("INSERT INTO note(rowid, body) VALUES(7, 'läuft heiß')")
    connection.execute("CREATE VIEW big AS SELECT id, upper(body) AS body FROM page")
    connection.commit()
    connection.close()
    assert texts(source_of(path, SqliteTable(table="note", text=("body",)))) == {"7": "läuft heiß"}
    found = "SELECT rowid AS id, body FROM note WHERE note MATCH 'heiß'"
    assert texts(source_of(path, SqliteTable(query=found, id="id"))) == {"7": "läuft heiß"}
    view = SqliteTable(table="big", id="id", text=("body",))
    assert texts(source_of(path, view)) == {"1": "TEXT 1", "2": "TEXT 2", "3": "TEXT 3"}


@pytest.mark.req("A-4")
def test_a_changed_schema_is_an_error_that_names_column_and_table(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db")
    source = source_of(path, SqliteTable(table="page", text=("body",)))
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE page RENAME COLUMN body TO content")
    connection.close()
    with pytest.raises(SourceError, match=r"'s'.*table 'page' has no column 'body'") as error:
        list(source.list())
    assert error.value.hint == "its columns: id, content"
    with pytest.raises(UsageError, match="no column 'body'"):
        source.check()


@pytest.mark.req("A-4")
def test_the_working_folder_and_its_modules_play_no_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "a.db")
    for name in ("json", "sqlite3", "sqlindex", "base64"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')")
    source = source_of(path)
    monkeypatch.chdir(tmp_path)
    assert texts(source) == EXPECTED


@pytest.mark.req("A-4")
@needs_proc
def test_the_child_ends_with_the_listing_and_leaves_no_zombie(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", 100_000)
    before = children()
    source = source_of(path)
    listing = source.list()
    next(listing)
    assert len(children() - before) == 1
    del listing
    assert children() == before
    assert len(list(source.list())) == 100_000
    assert children() == before
    source.check()
    assert children() == before
    assert isinstance(source.read(ref("5")), RawDocument)
    assert len(children() - before) == 1
    del source
    assert children() == before


@pytest.mark.req("A-4", "A-14")
@needs_proc
def test_a_killed_child_is_an_error_and_no_end_of_the_listing(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", 200_000)
    before = children()
    source = source_of(path)
    listing = source.list()
    next(listing)
    (child,) = children() - before
    os.kill(child, signal.SIGKILL)
    with pytest.raises(SourceError, match="signal 9"):
        list(listing)
    assert children() == before
    assert isinstance(source.read(ref("5")), RawDocument)
    (child,) = children() - before
    os.kill(child, signal.SIGKILL)
    with pytest.raises(SourceError, match="signal 9"):
        source.read(ref("6"))
    assert isinstance(source.read(ref("6")), RawDocument)


@pytest.mark.req("A-4")
@needs_proc
def test_a_silent_child_is_ended_when_a_limit_is_asked_for(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 'x' AS body FROM n WHERE i < 0"
    before = children()
    wanted = SqliteTable(query=endless, id="id", text=("body",))
    with pytest.raises(SourceError, match=r"silent for 1\.0 s"):
        list(source_of(path, wanted, timeout_s=1.0).list())
    assert children() == before


@pytest.mark.req("A-4")
@needs_proc
def test_the_child_of_a_killed_program_ends_by_itself(tmp_path: Path) -> None:
    path = make(tmp_path / "a.db", 200_000)
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from sqlindex.sources.sqlite_file import SqliteFileSource, canonical_database\n"
        "from sqlindex.sources.table_selection import SqliteTable\n"
        "source = SqliteFileSource('s', canonical_database(sys.argv[1]), SqliteTable(table='page'))\n"
        "listing = source.list()\n"
        "next(listing)\n"
        "print(listing.gi_running, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline()
    (child,) = (
        int(pid)
        for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    )
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(600):
        if not Path(f"/proc/{child}").exists():
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("the child went on")


@pytest.mark.req("A-4")
def test_the_rows_of_a_large_table_are_not_held(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE page(id INTEGER PRIMARY KEY, body TEXT)")
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
        " INSERT INTO page SELECT i, printf('%.1000c', 'x') FROM n"
    )
    connection.commit()
    connection.close()
    source = source_of(path)
    tracemalloc.start()
    try:
        rows = 0
        for entry in source.list():
            assert isinstance(entry, DocumentRef)
            raw = source.read(entry)
            assert isinstance(raw, RawDocument)
            rows += len(raw.data) == 1_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows == 100_000
    assert peak < 4_000_000


@pytest.mark.req("A-4")
def test_the_child_loads_no_heavy_package() -> None:
    program = (
        "import sys, sqlindex.sources.sqlite_reader\n"
        "heavy = {'numpy', 'click', 'rich', 'sqlite_utils', 'yaml', 'markdown_it', 'pathspec'}\n"
        "print(*heavy & set(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "\n"
