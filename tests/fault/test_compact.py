"""Compacting changes nothing but the size: whatever fails, whoever reads, nothing is lost or mixed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sqlindex import Document, Index
from sqlindex.cancellation import CancelToken
from sqlindex.config import Retention
from sqlindex.errors import CancelledError, HeadMovedError, StorageError
from sqlindex.indexing.report import Progress
from sqlindex.store import compact as compact_module
from sqlindex.store import driver
from sqlindex.store.compact import CompactMode
from sqlindex.testing import HashingEmbedder
from tests.faults import (
    KILLED,
    FaultPlan,
    State,
    clean_environment,
    copy_index,
    faulty_writer,
    folder_in_memory,
    killed_at_statement,
    observe,
    shell_lines,
    sqlindex,
)

QUERIES = ("pump", "edition")
MODES: tuple[CompactMode, ...] = ("incremental", "full")


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_COPY_STEP_PAGES", 8)
    monkeypatch.setattr(compact_module, "_STEP_PAGES", 16)


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Like `tmp_path`, without the cost of syncs."""
    with folder_in_memory(tmp_path) as folder:
        yield folder


def _open(db: Path, *, create: bool = False) -> Index:
    return Index.open(db, create=create, embedder=HashingEmbedder(16))


def _edition(number: int, documents: int = 10) -> list[Document]:
    body = " ".join(f"w{number}x{i}" for i in range(150))
    return [
        Document(f"{i}.md", f"# Pump {i}\n\nedition {number}\n\n{body} {i}\n", type_name="md")
        for i in range(documents)
    ]


@dataclass(frozen=True, slots=True)
class Loose:
    """An index with free pages, closed, and what it shows."""

    db: Path
    state: State
    history: tuple[str, ...]
    scratch: Path

    def copy(self, number: int) -> Path:
        return copy_index(self.db, self.scratch / str(number))

    def assert_same(self, db: Path) -> None:
        assert observe(db, QUERIES, HashingEmbedder(16)) == self.state
        assert _history(db) == self.history
        with _open(db) as index:
            assert index.check() == []


_HISTORY = """
    SELECT generation, cause, is_kept FROM generation;
    SELECT version_id, born, died, document_id, hex(check8) FROM document_version;
    SELECT piece_id, body FROM content_piece;
    SELECT parse_id, ord, hex(fingerprint), text_id FROM chunk;
    SELECT vector_id, hex(f32) FROM vector;
"""


def _history(db: Path) -> tuple[str, ...]:
    """Documents, texts, chunks and vectors of every generation."""
    return tuple(shell_lines(db, _HISTORY))


@pytest.fixture
def loose(quick_path: Path) -> Loose:
    """Ten documents left of forty; three generations kept."""
    db = quick_path / "before" / "index.db"
    db.parent.mkdir()
    with _open(db, create=True) as index:
        index.collect(Retention(generations=3, vector_days=0))
        index.upsert("notes", _edition(1, 40))
        index.upsert("notes", _edition(2, 40))
        index.remove("notes", [f"{i}.md" for i in range(10, 40)])
        for number in (3, 4):
            index.upsert("notes", _edition(number))
    state = observe(db, QUERIES, HashingEmbedder(16))
    return Loose(db, state, _history(db), quick_path / "copies")


def _compact(db: Path, mode: CompactMode) -> int:
    with _open(db) as index:
        return index.compact(mode).freed_bytes


@pytest.mark.req("A-17")
@pytest.mark.parametrize("mode", MODES)
def test_compacting_gives_space_back_and_changes_nothing_else(
    mode: CompactMode, loose: Loose
) -> None:
    db = loose.copy(1)
    before = db.stat()
    freed = _compact(db, mode)
    after = db.stat()
    assert freed == before.st_size - after.st_size > 50_000
    assert after.st_ino == before.st_ino
    assert not Path(f"{db}-wal").stat().st_size
    assert shell_lines(db, "PRAGMA freelist_count; PRAGMA auto_vacuum") == ["0", "2"]
    assert {path.name for path in db.parent.iterdir()} == {
        f"index.db{suffix}" for suffix in ("", "-wal", "-shm", "-lock")
    }
    loose.assert_same(db)
    assert _compact(db, mode) == 0


@pytest.mark.req("A-17")
def test_a_deleted_document_is_gone_from_the_file_after_retention_and_a_full_compact(
    tmp_path: Path,
) -> None:
    db = tmp_path / "index.db"
    secret = Document(
        "zz/quokka.md", "# Quokka\n\nquokka words\n", type_name="md", tags=("quokka",)
    )
    with _open(db, create=True) as index:
        index.collect(Retention(generations=1, vector_days=0))
        index.upsert("notes", [*_edition(1), secret])
        index.remove("notes", ["zz/quokka.md"])
        assert not index.search("quokka", mode="lexical").hits
    assert _holds(tmp_path, "quokka")  # the control
    with _open(db) as index:
        report = index.compact("full")
    assert report.log_bytes == 0
    assert _holds(tmp_path, "quokka") == []
    assert _holds(tmp_path, "edition")


def _holds(folder: Path, word: str) -> list[str]:
    found = subprocess.run(
        ["grep", "-a", "-i", "-l", "-r", word, folder], capture_output=True, text=True, check=False
    )
    assert found.returncode in (0, 1), found.stderr
    return found.stdout.splitlines()


@pytest.mark.req("A-14")
@pytest.mark.parametrize("mode", MODES)
def test_a_failing_statement_of_a_compact_loses_nothing(mode: CompactMode, loose: Loose) -> None:
    failed = 0
    for number in range(1, 1_000):
        db = loose.copy(number)
        error: Exception | None = None
        with _open(db) as index, faulty_writer(FaultPlan(number)) as plan:
            try:
                index.compact(mode)
            except StorageError as exc:
                error = exc
        if not plan.has_fired:
            assert error is None
            break
        failed += error is not None
        assert not list(db.parent.glob(".*")), plan.statements[-1]
        if number % 7 == 0 or "VACUUM" in plan.statements[-1]:
            loose.assert_same(db)
            _compact(db, mode)
            loose.assert_same(db)
        else:
            assert _history(db) == loose.history, plan.statements[-1]
    else:
        pytest.fail("it never passed")
    assert failed > 20


@pytest.mark.req("A-14")
@pytest.mark.parametrize("mode", MODES)
def test_a_process_killed_at_any_statement_of_a_compact_loses_nothing(
    mode: CompactMode, loose: Loose
) -> None:
    kills = 0
    for number in range(1, 1_000):
        db = loose.copy(number)
        if not killed_at_statement(FaultPlan(number), lambda db=db: _compact(db, mode)):  # type: ignore[misc]  # a bound default
            break
        kills += 1
        assert _history(db) == loose.history
        if number % 7 == 0:
            _compact(db, mode)
            loose.assert_same(db)
            assert not list(db.parent.glob(".*"))
    else:
        pytest.fail("it never passed")
    assert kills > 20


def _killed_at_step(db: Path, number: int) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            steps = iter(range(1, 10_000))

            def die(_: Progress) -> None:
                if next(steps) == number:
                    os._exit(KILLED)

            with _open(db) as index:
                index.compact("full", progress=die)
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED)
    return code == KILLED


@pytest.mark.req("A-14")
def test_a_kill_or_cancel_at_any_step_of_the_copy_back_loses_nothing(loose: Loose) -> None:
    kills = 0
    for number in range(1, 1_000):
        db = loose.copy(number)
        if not _killed_at_step(db, number):
            break
        kills += 1
        loose.assert_same(db)
        # What the dead process left is taken away by the next one.
        assert list(db.parent.glob(".*"))
        cancel = CancelToken()
        with _open(db) as index, pytest.raises(CancelledError):
            index.compact("full", cancel=cancel, progress=lambda _, c=cancel: c.cancel())  # type: ignore[misc]  # a bound default
        assert not list(db.parent.glob(".*"))
        loose.assert_same(db)
    assert kills > 5


class _SoonCancelled(CancelToken):
    """Cancelled while SQLite is at work: at the n-th look."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    @property
    def is_cancelled(self) -> bool:
        self.looks -= 1
        if self.looks < 0:
            self.cancel()
        return super().is_cancelled


@pytest.mark.req("A-14")
def test_cancelling_ends_the_writing_of_the_second_file(
    loose: Loose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "STEPS_PER_CHECK", 100)
    cancel = _SoonCancelled(10)
    db = loose.copy(1)
    with _open(db) as index, pytest.raises(CancelledError):
        index.compact("full", cancel=cancel)
    assert not list(db.parent.glob(".*"))
    loose.assert_same(db)


@pytest.mark.req("A-14")
def test_a_full_disk_is_told_by_a_compact_and_loses_nothing(loose: Loose) -> None:
    db = loose.copy(1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with _open(db) as index:
                limit = loose.db.stat().st_size // 3
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                try:
                    index.compact("full")
                except StorageError:
                    code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not list(db.parent.glob(".*"))
    loose.assert_same(db)


@pytest.mark.req("A-14")
def test_what_another_program_writes_meanwhile_is_not_lost(
    loose: Loose, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = loose.copy(1)
    copy_back = compact_module._copy_back

    def write_first(scratch: Path, path: Path, step: object) -> None:
        shell_lines(path, "INSERT INTO setting VALUES('host', 'kept')", writes=True)
        copy_back(scratch, path, step)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(compact_module, "_copy_back", write_first)
    with _open(db) as index, pytest.raises(HeadMovedError, match="another program wrote"):
        index.compact("full")
    assert shell_lines(db, "SELECT value FROM setting WHERE name = 'host'") == ["kept"]
    loose.assert_same(db)


@pytest.mark.req("A-15")
def test_a_reader_that_stays_keeps_what_it_sees_and_the_file_shrinks_afterwards(
    loose: Loose,
) -> None:
    db = loose.copy(1)
    size = db.stat().st_size
    with _open(db) as index:
        with index._file.reading(is_new=True) as reader:
            seen = reader.execute(
                "SELECT count(*), sum(length(body)) FROM content_piece"
            ).fetchone()
            report = index.compact("full")
            again = reader.execute(
                "SELECT count(*), sum(length(body)) FROM content_piece"
            ).fetchone()
            assert again == seen
            assert reader.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        assert report.log_bytes > 0
        assert db.stat().st_size == size
        assert index.compact().log_bytes == 0
    assert db.stat().st_size < size
    loose.assert_same(db)


READER = """
import sys
from pathlib import Path
from sqlindex.store.driver import connect
connection = connect(Path(sys.argv[1]), "ro")

def ask():
    table = connection.execute("SELECT lexical FROM head").fetchone()[0]
    match = f"SELECT count(*) FROM chunk_fts_{table} WHERE chunk_fts_{table} MATCH 'edition'"
    rows = connection.execute("SELECT text FROM v_chunk").fetchall()
    editions = {text.split("edition ")[1].split()[0] for text, in rows}
    return len(rows), connection.execute(match).fetchone()[0], *editions

for _ in sys.stdin:
    try:
        connection.execute("BEGIN")
        print(*ask(), flush=True)
        connection.execute("COMMIT")
    except Exception as exc:  # told to the test, which expects none
        print("error", exc, flush=True)
"""


class _Reader:
    """A process that opened the file once and reads the whole head whenever asked."""

    def __init__(self, db: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", READER, str(db)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )

    def ask(self) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("read\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.communicate()


@pytest.mark.req("A-15")
def test_readers_of_other_processes_see_whole_generations_across_full_compacts(
    loose: Loose,
) -> None:
    db = loose.copy(1)
    reader = _Reader(db)
    try:
        first = reader.ask()
        chunks = first.split()[0]
        assert first == f"{chunks} {chunks} 4"
        with _open(db) as index:
            for number in (5, 6, 7):
                answers: list[str] = []
                index.compact("full", progress=lambda _, a=answers: a.append(reader.ask()))  # type: ignore[misc]  # a bound default
                assert len(answers) > 5
                assert set(answers) == {f"{chunks} {chunks} {number - 1}"}
                index.upsert("notes", _edition(number))
                assert reader.ask() == f"{chunks} {chunks} {number}"
    finally:
        reader.close()


@pytest.mark.req("A-15")
def test_a_file_put_in_the_place_of_the_index_would_mix_with_its_log(loose: Loose) -> None:
    """Why the file keeps its inode: the control of the test above."""
    db = loose.copy(1)
    new = loose.copy(2)
    _compact(new, "full")
    reader = _Reader(db)
    try:
        chunks = reader.ask().split()[0]
        os.replace(new, db)
        with _open(db) as index:
            index.upsert("notes", _edition(5))
            assert reader.ask() != f"{chunks} {chunks} 5"
    finally:
        reader.close()


@pytest.mark.req("A-17")
def test_the_command_says_what_the_file_lost(loose: Loose) -> None:
    db = loose.copy(1)
    done = sqlindex("compact", "--db", db, "--json")
    assert done.code == 0, done.err
    assert done.json["mode"] == "incremental"
    assert done.json["freed_bytes"] > 50_000
    assert done.json["freed_bytes"] == done.json["file_bytes_before"] - db.stat().st_size
    assert sqlindex("compact", "--full", "--db", db).err.startswith("the file had ")
    loose.assert_same(db)
