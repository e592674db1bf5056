"""Hostile and foreign files: each is refused with a code, and stays as it is."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlindex import CancelToken, Document, Index
from sqlindex.errors import (
    CancelledError,
    CorruptIndexError,
    DeadlineError,
    ForeignSchemaError,
    NewerSchemaError,
    SharedFileSystemError,
    SqlindexError,
    StorageError,
    UnsafeFileError,
)
from sqlindex.store import connection, expected_schema, reader, writer
from sqlindex.store.connection import IndexFile
from sqlindex.store.driver import connect, connect_memory, driver_name
from sqlindex.store.expected_schema import OBJECT_NAMES, SCHEMA_FINGERPRINT, expected_objects
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.store.migrate import apply_pending
from tests.faults import assert_told, copy_index, shell_lines, sqlindex

Work = Callable[[Index], object]

WORKS: dict[str, Work] = {
    "search": lambda index: index.search("pump"),
    "check": lambda index: index.check(),
    "status": lambda index: index.status(),
    "upsert": lambda index: index.upsert("notes", [Document("b", "valve")]),
    "refresh": lambda index: index.refresh(),
}

READER_ID, THIRD_ID = 65_533, 65_534


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with one document, that no process has open."""
    path = tmp_path_factory.mktemp("origin") / "i.db"
    with Index.open(path, create=True) as index:
        index.upsert("notes", [Document("a", "the pump runs at low pressure")])
    return path


@pytest.fixture
def db(origin: Path, tmp_path: Path) -> Path:
    """A copy of it, alone in its folder."""
    copy = copy_index(origin, tmp_path / "place")
    copy.with_name("i.db-wal").unlink(missing_ok=True)
    return copy


def digest(path: Path) -> str:
    # Nobody has the file open here.
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refusals(db: Path, *, trust_owner: bool = False) -> dict[str, SqlindexError | None]:
    """How each kind of work on the index ends."""
    answers: dict[str, SqlindexError | None] = {}
    for name, work in WORKS.items():
        answers[name] = None
        try:
            with Index.open(db, trust_owner=trust_owner) as index:
                work(index)
        except SqlindexError as exc:
            answers[name] = exc
    return answers


# The schema


HOSTILE = {
    "a trigger of ours changed": (
        "DROP TRIGGER version_kept; CREATE TRIGGER version_kept BEFORE DELETE ON document_version BEGIN SELECT 1; END",
        "version_kept",
    ),
    "a trigger added": (
        "CREATE TRIGGER spy AFTER INSERT ON content BEGIN DELETE FROM content_piece; END",
        "spy",
    ),
    "a trigger on a foreign table": (
        "CREATE TABLE theirs(x); CREATE TRIGGER spy AFTER INSERT ON theirs BEGIN DELETE FROM head; END",
        "spy",
    ),
    "a view added": ("CREATE VIEW spy AS SELECT * FROM content_piece", "spy"),
    "a view of ours changed": (
        "DROP VIEW v_head; CREATE VIEW v_head AS SELECT 1 AS generation",
        "v_head",
    ),
    "a table replaced by a view": (
        "DROP TABLE setting; CREATE VIEW setting AS SELECT 'embedder' AS name, 'x' AS value",
        "setting",
    ),
    "a generated column in a table of ours": (
        "ALTER TABLE setting ADD COLUMN spy TEXT GENERATED ALWAYS AS (upper(value))",
        "setting",
    ),
    "a generated column in a foreign table": (
        "CREATE TABLE theirs(x, y AS (abs(x)))",
        "theirs",
    ),
    "a column in a shadow table": ("ALTER TABLE chunk_fts_a_data ADD COLUMN spy", "chunk_fts_a"),
    "a row in a shadow table": (
        "INSERT INTO chunk_fts_a_config VALUES('rank', 'spy(10.0)')",
        "rank",
    ),
    "a shadow table added": ("CREATE TABLE chunk_fts_a_content(id, c0)", "chunk_fts_a_content"),
    "an index on a table of ours": ("CREATE INDEX spy ON content(chars)", "spy"),
    "a partial index with a function": (
        "CREATE INDEX spy ON setting(name) WHERE length(value) > 1",
        "spy",
    ),
    "a partial index of a foreign table": (
        "CREATE TABLE theirs(x); CREATE INDEX spy ON theirs(x) WHERE abs(x) > 1",
        "spy",
    ),
    "an index on an expression of a foreign table": (
        "CREATE TABLE theirs(x); CREATE INDEX spy ON theirs(abs(x))",
        "spy",
    ),
    "a virtual table": ("CREATE VIRTUAL TABLE spy USING fts5(x)", "spy"),
    "an unknown virtual table": (
        "PRAGMA writable_schema=ON; INSERT INTO sqlite_schema VALUES"
        "('table', 'spy', 'spy', 0, 'CREATE VIRTUAL TABLE spy USING no_such_module(x)')",
        "spy",
    ),
    "a table of statistics that is none": (
        "PRAGMA writable_schema=ON; INSERT INTO sqlite_schema VALUES"
        "('view', 'sqlite_stat1', 'sqlite_stat1', 0, 'CREATE VIEW sqlite_stat1 AS SELECT 1')",
        "sqlite_stat1",
    ),
    "a check removed": (
        "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, ' CHECK(singleton = 1)', '')"
        " WHERE name = 'head'",
        "head",
    ),
    "an index missing": ("DROP INDEX version_path", "version_path"),
    "a view missing": ("DROP VIEW v_chunk", "v_chunk"),
}


@pytest.mark.req("A-30", "A-31")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_with_another_schema_is_refused_and_left_as_it_is(name: str, db: Path) -> None:
    sql, named = HOSTILE[name]
    shell_lines(db, sql, writes=True)
    before = digest(db)
    for work, error in refusals(db).items():
        assert isinstance(error, ForeignSchemaError), (work, error)
        assert (error.code, error.exit_code) == ("foreign_schema", 6)
        assert named in str(error)
        assert error.hint
    assert digest(db) == before


@pytest.mark.req("A-30")
def test_statistics_and_plain_tables_of_others_are_tolerated(db: Path) -> None:
    shell_lines(
        db,
        "ANALYZE; CREATE TABLE theirs(x PRIMARY KEY, y UNIQUE, z); CREATE INDEX their_z ON theirs(z, y);"
        " INSERT INTO theirs VALUES(1, 2, 3); ANALYZE",
        writes=True,
    )
    assert [error for error in refusals(db).values() if error] == []
    with Index.open(db) as index:
        assert index.check() == []
        assert {hit.document_id for hit in index.search("valve").hits} == {"b"}
    assert shell_lines(db, "SELECT * FROM theirs") == ["1|2|3"]


@pytest.mark.req("A-30")
def test_a_foreign_trigger_would_run_if_the_schema_were_not_compared(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell_lines(
        db,
        "CREATE TABLE theirs(body); CREATE TRIGGER spy AFTER INSERT ON content_piece"
        " BEGIN INSERT INTO theirs VALUES(NEW.body); END",
        writes=True,
    )
    with Index.open(db) as index, pytest.raises(ForeignSchemaError, match="spy"):
        index.upsert("notes", [Document("b", "secret valve")])
    assert shell_lines(db, "SELECT body FROM theirs") == []
    for module in (reader, writer):
        monkeypatch.setattr(module, "verify_schema", lambda *_: None)
    with Index.open(db) as index:
        index.upsert("notes", [Document("b", "secret valve")])
    assert shell_lines(db, "SELECT body FROM theirs") == ["secret valve"]


@pytest.mark.req("A-30")
def test_a_change_of_the_schema_is_seen_by_an_index_that_is_open(db: Path) -> None:
    with Index.open(db) as index:
        assert index.search("pump").hits
        shell_lines(db, "CREATE TABLE theirs(x)", writes=True)
        assert index.search("pump").hits
        shell_lines(db, "CREATE VIEW spy AS SELECT 1", writes=True)
        with pytest.raises(ForeignSchemaError, match="spy"):
            index.search("pump")
        shell_lines(db, f"DROP VIEW spy; PRAGMA user_version={SCHEMA_VERSION + 1}", writes=True)
        shell_lines(db, "CREATE TABLE more(x)", writes=True)
        with pytest.raises(NewerSchemaError):
            index.search("pump")


@pytest.mark.req("A-31")
def test_the_constants_of_the_schema_are_what_the_migrations_make() -> None:
    objects = expected_objects(SCHEMA_VERSION)
    assert {name for _, name in objects} == OBJECT_NAMES
    assert expected_schema.fingerprint(list(objects.values())) == SCHEMA_FINGERPRINT


def older_index(path: Path, version: int) -> Path:
    """An empty index as an older program made it."""
    Index.open(path, create=True).close()
    made = connect_memory()
    apply_pending(made, from_version=0, to_version=version)
    header = "PRAGMA application_id=1936812408; PRAGMA user_version={}; PRAGMA journal_mode=WAL;"
    dump = [
        sql
        for (sql,) in made.execute(
            "SELECT sql FROM sqlite_schema WHERE sql NOT NULL AND name NOT GLOB 'chunk_fts_?_*'"
            " AND name NOT GLOB 'sqlite_*' ORDER BY rowid"
        )
    ]
    made.close()
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    rows = (
        "INSERT INTO generation VALUES(0, 0, '', 'created', NULL, '', 0, 0, 0, 0, 0, 0, 0, 0, 1);"
        "INSERT INTO head VALUES(1, 0, 1, 'a');"
    )
    shell_lines(path, ";\n".join(dump) + ";\n" + rows + header.format(version), writes=True)
    return path


@pytest.mark.req("A-31")
def test_an_older_schema_is_compared_with_the_older_one_before_it_is_migrated(
    tmp_path: Path,
) -> None:
    path = older_index(tmp_path / "i.db", 5)
    with Index.open(path) as index:
        with pytest.raises(StorageError, match="older schema 5"):
            index.search("pump")
        index.upsert("notes", [Document("a", "pump")])
        assert index.search("pump").hits
    assert shell_lines(path, "PRAGMA user_version") == [str(SCHEMA_VERSION)]


@pytest.mark.req("A-31")
@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("CREATE TRIGGER spy AFTER INSERT ON generation BEGIN SELECT 1; END", "spy"),
        ("CREATE TABLE tag(name)", "tag"),  # a name that the migration needs
    ],
)
def test_a_tampered_older_schema_is_not_migrated(sql: str, named: str, tmp_path: Path) -> None:
    path = older_index(tmp_path / "i.db", 5)
    shell_lines(path, sql, writes=True)
    before = digest(path)
    with Index.open(path) as index, pytest.raises(ForeignSchemaError, match=f"'{named}'"):
        index.upsert("notes", [Document("a", "pump")])
    assert digest(path) == before
    assert shell_lines(path, "PRAGMA user_version") == ["5"]


# D24: files of newer versions and of other programs


STRANGE = {
    "newer": f"PRAGMA user_version={SCHEMA_VERSION + 1}; CREATE TABLE unknown_to_us(x)",
    "version 0": "PRAGMA user_version=0",
    "negative version": "PRAGMA user_version=-1",
    "foreign": "PRAGMA application_id=0",
}


@pytest.mark.req("A-31")
@pytest.mark.parametrize("name", STRANGE)
def test_d24_a_newer_or_foreign_file_is_refused_by_every_command_and_stays_as_it_is(
    name: str, db: Path
) -> None:
    shell_lines(db, STRANGE[name], writes=True)
    before = digest(db)
    assert [path.name for path in db.parent.iterdir()] == ["i.db"]
    words = "made by a newer version" if name == "newer" else "not a sqlindex file"
    for command in (["search", "pump"], ["refresh"], ["check"]):
        assert_told(sqlindex(*command, "--db", db), 8, words)
    for error in refusals(db).values():
        assert error is not None
        assert error.code == ("newer_schema" if name == "newer" else "not_an_index")
    assert digest(db) == before
    assert [path.name for path in db.parent.iterdir()] == ["i.db"]


@pytest.mark.req("A-31")
def test_d24_a_newer_version_that_only_the_log_tells_of_is_refused_and_stays_there(
    db: Path,
) -> None:
    program = (
        "import os, sys; from pathlib import Path; from sqlindex.store.driver import connect\n"
        "c = connect(Path(sys.argv[1]), 'rw'); c.execute('PRAGMA journal_mode=WAL')\n"
        f"c.execute('PRAGMA user_version={SCHEMA_VERSION + 1}'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(db)], check=True)
    log = db.with_name("i.db-wal")
    before = digest(db), digest(log)
    for error in refusals(db).values():
        assert isinstance(error, NewerSchemaError)
    assert (digest(db), digest(log)) == before


# Sidecars and owners


def link_to_other_file(sidecar: Path, target: Path) -> None:
    sidecar.symlink_to(target)


def second_name(sidecar: Path, target: Path) -> None:
    sidecar.hardlink_to(target)


def pipe(sidecar: Path, _: Path) -> None:
    os.mkfifo(sidecar)


def folder(sidecar: Path, _: Path) -> None:
    sidecar.mkdir()


@pytest.mark.req("A-30")
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal", "-lock"])
@pytest.mark.parametrize("plant", [link_to_other_file, second_name, pipe, folder])
def test_a_sidecar_that_is_no_file_of_its_own_is_refused(
    suffix: str, plant: Callable[[Path, Path], None], db: Path
) -> None:
    target = db.parent / "precious"
    target.write_text("precious")
    plant(Path(f"{db}{suffix}"), target)
    before = digest(db)
    for work, error in refusals(db).items():
        assert isinstance(error, UnsafeFileError), (work, error)
        assert error.code == "unsafe_file"
        assert suffix in str(error)
    assert (digest(db), target.read_text()) == (before, "precious")


@pytest.mark.req("A-30")
def test_a_planted_lock_would_be_written_if_files_were_not_looked_at(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = db.parent / "precious"
    target.write_text("precious")
    second_name(db.with_name("i.db-lock"), target)
    monkeypatch.setattr(connection, "verify_files", lambda *_, **__: None)
    with Index.open(db) as index:
        index.upsert("notes", [Document("b", "valve")])
    assert "process" in target.read_text()


@pytest.mark.req("A-30")
def test_a_sidecar_that_is_planted_later_is_refused_by_the_next_connection(db: Path) -> None:
    with Index.open(db) as index:
        db.with_name("i.db-wal").symlink_to(db.parent / "elsewhere")
        with pytest.raises(UnsafeFileError, match="-wal"):
            index.search("pump")


@pytest.mark.needs_root
@pytest.mark.req("A-30")
def test_another_users_index_is_read_and_written_only_if_that_user_is_trusted(db: Path) -> None:
    for path in (db, db.parent):
        os.chown(path, THIRD_ID, THIRD_ID)
    answers = refusals(db)
    assert {name for name, error in answers.items() if error} == {"upsert", "refresh"}
    for error in filter(None, answers.values()):
        assert isinstance(error, UnsafeFileError)
        assert "another user" in str(error)
    assert [error for error in refusals(db, trust_owner=True).values() if error] == []
    assert_told(sqlindex("refresh", "--db", db), 1, "another user", "--trust-owner")
    assert sqlindex("refresh", "--db", db, "--trust-owner").code == 0


@pytest.mark.needs_root
@pytest.mark.req("A-30")
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal", "-lock"])
def test_a_sidecar_of_a_third_user_is_refused(suffix: str, db: Path) -> None:
    sidecar = Path(f"{db}{suffix}")
    sidecar.touch()
    os.chown(sidecar, THIRD_ID, THIRD_ID)
    for error in refusals(db).values():
        assert isinstance(error, UnsafeFileError)
        assert "third user" in str(error)
    assert [error for error in refusals(db, trust_owner=True).values() if error] == []


@pytest.mark.needs_root
@pytest.mark.req("A-30")
def test_a_shared_index_is_read_by_another_user_beside_the_owners_sidecars(
    db: Path, open_folder: Path
) -> None:
    shared = copy_index(db, open_folder / "shared")
    with Index.open(shared) as index:
        index.upsert("notes", [Document("b", "valve")])
    shared.parent.chmod(0o755)
    for path in shared.parent.iterdir():
        path.chmod(0o644)
    assert "valve" in sqlindex("search", "valve", "--db", shared, user=READER_ID).out
    os.chown(f"{shared}-shm", THIRD_ID, THIRD_ID)
    told = sqlindex("search", "valve", "--db", shared, user=READER_ID)
    assert_told(told, 1, "third user", "-shm")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter, which pytest's own are not."""
    import shutil
    import tempfile

    made = Path(tempfile.mkdtemp(prefix="sqlindex-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


# What statements may do, and for how long


@pytest.mark.req("A-30")
@pytest.mark.parametrize("mode", ["ro", "immutable", "rw"])
@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '{other}' AS other",
        "VACUUM INTO '{other}'",
        "SELECT load_extension('{other}')",
        "PRAGMA writable_schema=ON",
        "PRAGMA trusted_schema=ON",
        "PRAGMA locking_mode=EXCLUSIVE",
    ],
)
def test_no_statement_reaches_another_file_loads_code_or_loosens_a_setting(
    mode: str, sql: str, db: Path, tmp_path: Path
) -> None:
    opened = connect(db, mode)
    try:
        with pytest.raises(Exception, match=r"not authori[sz]ed|denied|too many attached"):
            opened.execute(sql.format(other=tmp_path / "other.db")).fetchall()
    finally:
        opened.close()
    assert not (tmp_path / "other.db").exists()


@pytest.mark.req("A-30")
@pytest.mark.parametrize(
    "sql",
    ["DELETE FROM setting", "CREATE TABLE x(y)", "CREATE TEMP TABLE x(y)", "DROP VIEW v_head"],
)
def test_a_reader_writes_nothing(sql: str, db: Path) -> None:
    file = IndexFile.open(db, make=False, busy_timeout_ms=100)
    with pytest.raises(SqlindexError), file.reading() as reading:
        reading.execute(sql)
    with file.reading(is_new=True) as reading:
        reading.execute("CREATE TEMP TABLE x(y)")
        reading.execute("INSERT INTO x VALUES(1)")
        assert reading.execute("SELECT y FROM x").fetchall() == [(1,)]
    file.close()


@pytest.mark.req("A-30")
def test_a_copy_is_written_where_it_was_announced_and_nowhere_else(
    db: Path, tmp_path: Path
) -> None:
    copy, elsewhere = str(tmp_path / "copy.db"), str(tmp_path / "elsewhere.db")
    copying = connect(db, "ro", copies_to=copy)
    with pytest.raises(Exception, match=r"authoriz"):
        copying.execute("VACUUM INTO ?", (elsewhere,))
    copying.execute("VACUUM INTO ?", (copy,))
    copying.close()
    assert not Path(elsewhere).exists()
    with Index.open(copy) as index:
        assert index.search("pump").hits
        assert index.check() == []


COUNTING = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?) SELECT max(i) FROM n
"""
ENDLESS, LONG = -1, 1_000_000


@pytest.mark.req("A-30")
def test_a_statement_that_does_not_end_is_ended_at_the_deadline(db: Path) -> None:
    file = IndexFile.open(db, make=False, busy_timeout_ms=100, deadline_ms=100)
    started = time.monotonic()
    with pytest.raises(DeadlineError) as caught, file.reading() as reading:
        reading.execute(COUNTING, (ENDLESS,)).fetchall()
    assert time.monotonic() - started < 5
    assert (caught.value.code, caught.value.retryable) == ("deadline", True)
    # Without a deadline the same statement would have gone on: a long one ends by itself.
    with pytest.raises(DeadlineError), file.reading() as reading:
        reading.execute(COUNTING, (LONG,)).fetchall()
    with file.reading(is_timed=False) as reading:
        assert reading.execute(COUNTING, (LONG,)).fetchall() == [(LONG,)]
    file.close()


@pytest.mark.req("A-30")
def test_what_a_caller_does_between_statements_does_not_count_for_the_deadline(db: Path) -> None:
    file = IndexFile.open(db, make=False, busy_timeout_ms=100, deadline_ms=1_000)
    with file.reading() as reading:
        for _ in range(3):
            time.sleep(0.4)
            reading.execute(COUNTING, (50_000,)).fetchall()
    file.close()


@pytest.mark.req("A-14")
def test_a_cancel_ends_a_statement_while_it_runs(db: Path) -> None:
    file = IndexFile.open(db, make=False, busy_timeout_ms=100)
    token = CancelToken()
    timer = threading.Timer(0.1, token.cancel)
    timer.start()
    started = time.monotonic()
    with pytest.raises(CancelledError), file.reading(cancel=token) as reading:
        reading.execute(COUNTING, (ENDLESS,)).fetchall()
    assert time.monotonic() - started < 2
    with file.reading() as reading:  # the next reading has a watch of its own
        reading.execute(COUNTING, (50_000,)).fetchall()
    file.close()


# Values larger than any that are written


HUGE_BYTES = 100_000_000

_SEARCH_AND_MEASURE = """
import json, sys
from sqlindex import Index
from sqlindex.errors import SqlindexError
from sqlindex.store import driver

def peak_kib():  # ru_maxrss starts at the parent's peak, which survives exec
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0])

if sys.argv[2] == "unlimited":
    driver._LIMITS = {}
with Index.open(sys.argv[1]) as index:
    before = peak_kib()
    try:
        index.search("pump")
        code = None
    except SqlindexError as exc:
        code = exc.code
print(json.dumps([code, (peak_kib() - before) * 1024]))
"""


@pytest.mark.skipif(driver_name != "sqlite3", reason="pysqlite3 has no setlimit")
@pytest.mark.req("A-29")
def test_a_huge_value_is_damage_and_takes_no_memory(db: Path) -> None:
    shell_lines(
        db,
        "PRAGMA journal_mode=DELETE; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
        f" UPDATE content_piece SET check8 = zeroblob({HUGE_BYTES})",
        writes=True,
    )
    with Index.open(db) as index:
        with pytest.raises(CorruptIndexError, match="more than 64 MB") as caught:
            index.search("pump")
        assert caught.value.code == "corrupt"

    def searched(limits: str) -> tuple[str | None, int]:
        done = subprocess.run(
            [sys.executable, "-c", _SEARCH_AND_MEASURE, str(db), limits],
            capture_output=True,
            text=True,
            check=True,
        )
        code, grown_bytes = json.loads(done.stdout)
        return code, grown_bytes

    code, grown_bytes = searched("limited")
    assert code == "corrupt"
    assert grown_bytes < 30_000_000
    _, grown_bytes = searched("unlimited")
    assert grown_bytes > HUGE_BYTES * 0.9


# Making an index


@pytest.mark.req("A-30")
def test_what_a_killed_process_left_while_making_the_index_is_removed_later(
    tmp_path: Path,
) -> None:
    old = [f".i.db.{'0' * 12}.new", f".i.db.{'a' * 12}.new-wal"]
    kept = [f".i.db.{'1' * 12}.new", f".other.db.{'0' * 12}.new", ".i.db.new", ".i.db.draft.new"]
    for name in (*old, *kept):
        (tmp_path / name).touch()
        if name != kept[0]:  # another process may be making the index just now
            os.utime(tmp_path / name, (time.time() - 7_200,) * 2)
    Index.open(tmp_path / "i.db", create=True).close()
    assert sorted(path.name for path in tmp_path.glob(".*")) == sorted(kept)


@pytest.mark.req("A-30")
def test_a_process_killed_while_making_an_index_leaves_none_and_the_next_one_makes_it(
    tmp_path: Path,
) -> None:
    program = (
        "import os, sys; from sqlindex import Index\n"
        "os.link = lambda *_: os._exit(9)\n"
        "Index.open(sys.argv[1], create=True)"
    )
    path = tmp_path / "i.db"
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 9
    (left,) = tmp_path.iterdir()
    os.utime(left, (time.time() - 7_200,) * 2)
    Index.open(path, create=True).close()
    assert not left.exists()


# Places


@pytest.fixture
def mounted_read_only(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    """A folder bound to a second place, where nothing can be written."""

    def mount(there: Path) -> Path:
        place = tmp_path / "read-only"
        place.mkdir()
        subprocess.run(["mount", "--bind", str(there), str(place)], check=True)
        request.addfinalizer(lambda: subprocess.run(["umount", str(place)], check=True))
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
        return place

    return mount


def leave_hot_log(db: Path) -> None:
    """Let a writer die after its commit, so that the last documents are in the log only."""
    program = (
        "import os, sys; from sqlindex import Document, Index\n"
        "from sqlindex.store.writer import Writer\n"
        "Writer.close = lambda self: os._exit(0)\n"
        "Index.open(sys.argv[1]).upsert('notes', [Document('b', 'the valve')])"
    )
    subprocess.run([sys.executable, "-c", program, str(db)], check=True)
    assert db.with_name("i.db-wal").stat().st_size > 0


@pytest.mark.needs_root
@pytest.mark.req("A-30")
def test_a_closed_index_on_a_read_only_mount_is_searched_and_nothing_is_made_there(
    db: Path, mounted_read_only: Callable[[Path], Path]
) -> None:
    place = mounted_read_only(db.parent) / "i.db"
    answers = refusals(place)
    assert {name for name, error in answers.items() if error} == {"upsert", "refresh"}
    assert all(isinstance(answers[name], StorageError) for name in ("upsert", "refresh"))
    assert [path.name for path in db.parent.iterdir()] == ["i.db"]
    # Whoever may write there can: readers of the read-only place see what they did.
    with Index.open(place) as index:
        assert not index.search("valve").hits
        with Index.open(db) as other:
            other.upsert("notes", [Document("b", "the valve")])
        assert index.search("valve").hits


@pytest.mark.needs_root
@pytest.mark.req("A-30")
def test_a_log_that_cannot_be_read_in_a_read_only_place_is_told_and_not_left_out(
    db: Path, mounted_read_only: Callable[[Path], Path]
) -> None:
    leave_hot_log(db)
    place = mounted_read_only(db.parent) / "i.db"
    with Index.open(place) as index:
        assert index.search("valve").hits  # by a private index of the log
    db.with_name("i.db-shm").unlink()
    with Index.open(place) as index, pytest.raises(StorageError, match="unsaved changes"):
        index.search("valve")
    # An immutable reader would not see the document.
    blind = connect(place, "immutable")
    assert blind.execute("SELECT generation FROM head").fetchone() == (1,)
    blind.close()


@pytest.mark.needs_root
@pytest.mark.req("A-30")
def test_a_log_that_another_user_cannot_read_is_told(db: Path, open_folder: Path) -> None:
    shared = copy_index(db, open_folder / "shared")
    leave_hot_log(shared)
    shared.with_name("i.db-shm").unlink()
    shared.parent.chmod(0o755)
    for path in shared.parent.iterdir():
        path.chmod(0o644)
    assert_told(sqlindex("search", "valve", "--db", shared, user=READER_ID), 1, "unsaved changes")
    assert "valve" in sqlindex("search", "valve", "--db", shared).out


@pytest.mark.req("A-30")
def test_an_index_on_a_network_file_system_is_read_while_it_is_closed_and_never_written(
    db: Path,
) -> None:
    file = IndexFile(db, busy_timeout_ms=100, shared="nfs4")
    with file.reading() as reading:
        assert reading.execute("SELECT generation FROM head").fetchone() == (1,)
    with pytest.raises(SharedFileSystemError, match="nfs4") as caught, file.writing("test"):
        pass
    assert "--allow-network" in caught.value.hint
    assert [path.name for path in db.parent.iterdir()] == ["i.db"]
    leave_hot_log(db)
    with pytest.raises(SharedFileSystemError, match="nfs4"), file.reading():
        pass
    file.close()
    with Index.open(db) as index:
        assert index.search("valve").hits


@pytest.mark.req("A-30")
def test_an_index_is_made_on_a_network_file_system_only_if_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlindex import mounts

    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 8:1 / / rw - ext4 x rw\n2 1 0:9 / {tmp_path} rw - nfs4 s:/x rw\n")
    monkeypatch.setattr(mounts, "MOUNT_TABLE", str(table))
    monkeypatch.setattr(connection, "is_on_block_device", lambda _: False)
    path = tmp_path / "i.db"
    with pytest.raises(SharedFileSystemError, match="nfs4"):
        Index.open(path, create=True)
    assert [found.name for found in tmp_path.iterdir()] == ["mountinfo"]
    with Index.open(path, create=True, allow_network=True) as index:
        index.upsert("notes", [Document("a", "pump")])
    with Index.open(path) as index:
        assert index.search("pump").hits
        with pytest.raises(SharedFileSystemError):
            index.upsert("notes", [Document("b", "valve")])


def test_the_command_line_has_the_options_of_places(db: Path) -> None:
    for option in ("--allow-network", "--trust-owner"):
        assert sqlindex("search", "pump", "--db", db, option).code == 0
