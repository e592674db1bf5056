"""The file: created whole, private, refused when foreign or newer; texts with checksums."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex import Document, Index, IndexConfig
from sqlindex.errors import CorruptIndexError, LockedError, NoIndexError, StorageError
from sqlindex.store.connection import IndexFile
from sqlindex.store.contents import PIECE_CHARS, put_content, read_content, read_span
from sqlindex.store.driver import Connection, connect_memory
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.store.lock import WriterLock
from sqlindex.store.migrate import apply_pending, migrations, split_statements

Shell = Callable[[Path, str], list[str]]


@pytest.mark.req("A-30")
def test_an_index_is_private_from_its_first_moment(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with Index.open(tmp_path / "i.db", create=True) as index:
            index.upsert("n", [Document("1", "alpha")])
    finally:
        os.umask(old)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


def test_making_an_index_leaves_no_temporary_file(tmp_path: Path) -> None:
    Index.open(tmp_path / "i.db", create=True).close()
    assert {path.name for path in tmp_path.iterdir()} <= {
        "i.db",
        "i.db-wal",
        "i.db-shm",
        "i.db-lock",
    }


def test_opening_without_create_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NoIndexError, match="there is no index"):
        Index.open(tmp_path / "i.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("D-6")
def test_the_file_says_what_it_is(tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "i.db"
    Index.open(path, create=True).close()
    assert shell(
        path, "PRAGMA application_id; PRAGMA user_version; PRAGMA journal_mode; PRAGMA auto_vacuum"
    ) == [
        str(0x73716978),
        str(SCHEMA_VERSION),
        "wal",
        "2",
    ]


def test_the_last_migration_is_the_schema_version() -> None:
    assert migrations()[-1].number == SCHEMA_VERSION


def test_every_table_is_strict_and_has_a_comment() -> None:
    for migration in migrations():
        for statement in split_statements(migration.sql):
            body = statement.strip()
            if "CREATE TABLE" in body:
                assert body.endswith((") STRICT;", ") STRICT, WITHOUT ROWID;")), body
                assert body.startswith("--"), body


def test_a_migration_is_split_at_its_statements_and_not_inside_a_trigger() -> None:
    sql = "CREATE TABLE a(x);\nCREATE TRIGGER t BEFORE DELETE ON a\nBEGIN SELECT 1; SELECT 2; END;\n-- end\n"
    assert len(list(split_statements(sql))) == 2
    with pytest.raises(StorageError, match="middle of a statement"):
        list(split_statements("CREATE TABLE a(x"))


@pytest.mark.req("D-6")
def test_versions_of_documents_are_immutable(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    with Index.open(path, create=True) as index:
        index.upsert("n", [Document("1", "alpha"), Document("2", "beta")])
        index.remove("n", ["2"])
    file = IndexFile.open(path, make=False, busy_timeout_ms=100)
    attempts = (
        "UPDATE document_version SET died = 9 WHERE died IS NULL",
        "UPDATE document_version SET died = NULL WHERE died IS NOT NULL",
        "UPDATE document_version SET title = 'x'",
        "UPDATE document_version SET born = 2 WHERE born = 1",
        "DELETE FROM document_version WHERE died IS NULL",
        "INSERT OR REPLACE INTO document_version SELECT * FROM document_version WHERE died IS NULL",
    )
    for sql in attempts:
        with (
            pytest.raises(CorruptIndexError, match=r"immutable|cannot be deleted|staged first"),
            file.writing("test") as writer,
            writer.transaction() as connection,
        ):
            connection.execute(sql)
    file.close()


@pytest.fixture
def memory() -> Connection:
    connection = connect_memory()
    apply_pending(connection, from_version=0)
    return connection


@pytest.mark.req("A-12")
@given(
    text=st.text(max_size=60),
    repeat=st.sampled_from([1, 700, PIECE_CHARS]),
    cut=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
)
def test_a_stored_text_is_read_back_whole_and_in_any_part(
    text: str, repeat: int, cut: tuple[int, int]
) -> None:
    connection = connect_memory()
    apply_pending(connection, from_version=0)
    text = text.encode("utf-8", "ignore").decode() * repeat
    content_id = put_content(connection, text)
    assert put_content(connection, text) == content_id
    assert read_content(connection, content_id) == text
    first = connection.execute(
        "SELECT first_piece FROM content WHERE content_id = ?", (content_id,)
    ).fetchone()[0]
    start, end = sorted(at % (len(text) + 1) for at in cut)
    assert read_span(connection, first, start, end) == text[start:end]
    connection.close()


@pytest.mark.req("A-29")
def test_a_damaged_piece_is_an_error_that_names_it(memory: Connection) -> None:
    content_id = put_content(memory, "alpha" * 10_000)
    memory.execute("UPDATE content_piece SET body = 'x' || substr(body, 2) WHERE piece_id = 2")
    with pytest.raises(CorruptIndexError, match="text piece 2"):
        read_content(memory, content_id)
    memory.execute("DELETE FROM content_piece WHERE piece_id = 2")
    with pytest.raises(CorruptIndexError, match="incomplete"):
        read_content(memory, content_id)


@pytest.mark.req("A-30")
def test_the_lock_is_released_by_the_kernel_when_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    program = (
        "import sys, time; from pathlib import Path; from sqlindex.store.lock import WriterLock\n"
        f"WriterLock(Path({str(path)!r})).acquire('test'); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    lock = WriterLock(path)
    with pytest.raises(LockedError, match=f"process {holder.pid} "):
        lock.acquire("test")
    holder.kill()
    holder.wait()
    lock.acquire("test", wait_s=5)
    lock.release()


@pytest.mark.req("A-30")
def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / "i.db")
    lock.acquire("test")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    lock.release()
    again = WriterLock(tmp_path / "i.db")
    again.acquire("test")
    again.release()
    os.write(writing, b"x")
    os.waitpid(child, 0)


@pytest.mark.req("A-31")
def test_migrations_are_found_in_a_checkout(tmp_path: Path) -> None:
    names = [f"{m.number:04d}_{m.name}.sql" for m in migrations()]
    folder = Path(__file__).resolve().parents[3] / "migrations"
    assert names == sorted(path.name for path in folder.glob("*.sql"))


def test_the_log_is_bounded_while_a_large_build_is_staged(tmp_path: Path) -> None:
    longest = 0
    path = tmp_path / "i.db"

    def watch(_: object) -> None:
        nonlocal longest
        longest = max(longest, os.stat(f"{path}-wal").st_size)

    config = IndexConfig(staged_fts_chunks=100)
    with Index.open(path, create=True, config=config) as index:
        documents = [Document(str(i), f"wort{i} " * 2_000) for i in range(3_000)]
        index.upsert("n", documents, progress=watch)
        assert longest > 0
        assert longest < 24_000_000
        assert os.stat(f"{path}-wal").st_size == 0
