"""Faults on purpose and one oracle: what a search may see after a failed or killed write.

Statements fail, or the process ends at them, through a connection that stands between the writer
and SQLite. Whatever happened, an index must show exactly one published state: `observe` takes it,
`assert_whole` compares it with the states that were published.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest

from sqlindex import Index
from sqlindex.errors import SqlindexError
from sqlindex.model.requests import MODES, Mode
from sqlindex.ports import Embedder
from sqlindex.store import driver
from sqlindex.store.driver import Connection, Cursor, Parameters

FaultKind = Literal["error", "rollback", "kill"]
"""The statement is not run and raises; SQLite also rolled back by itself; the process ends."""

KILLED = 99
"""Exit code of a child that was ended at a statement."""


@dataclass(slots=True)
class FaultPlan:
    """At which of the writer's statements something happens.

    Attributes:
        at: number of the statement, from 1; 0 for none.
        kind: what happens there.
        splits_publish: commit just before the head moves, as a careless publish would.
        count: statements seen so far.
        has_fired: whether the statement was reached.
        statements: what was run, for messages.
    """

    at: int = 0
    kind: FaultKind = "error"
    splits_publish: bool = False
    count: int = 0
    has_fired: bool = False
    statements: list[str] = field(default_factory=list)

    @property
    def durable_steps(self) -> int:
        """Commits and checkpoints before the fault: between two of them the file stays the same."""
        return sum(
            sql == "COMMIT" or "wal_checkpoint" in sql
            for sql in self.statements[: -1 if self.has_fired else None]
        )


class FailingConnection:
    """A writer's connection that follows a plan."""

    def __init__(self, inner: Connection, plan: FaultPlan) -> None:
        self._inner = inner
        self._plan = plan

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def execute(self, sql: str, parameters: Parameters = (), /) -> Cursor:
        self._before(sql)
        return self._inner.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Parameters], /) -> Cursor:
        self._before(sql)
        return self._inner.executemany(sql, parameters)

    def set_progress_handler(self, handler: Callable[[], int] | None, n: int, /) -> None:
        self._inner.set_progress_handler(handler, n)

    def backup(self, target: FailingConnection, **options: Any) -> None:
        target._before("backup")
        inner: Any = self._inner
        inner.backup(target._inner, **options)

    def close(self) -> None:
        self._inner.close()

    def _before(self, sql: str) -> None:
        plan = self._plan
        plan.count += 1
        plan.statements.append(" ".join(sql.split())[:60])
        if plan.splits_publish and "UPDATE head SET" in sql:
            self._inner.execute("COMMIT")
            self._inner.execute("BEGIN IMMEDIATE")
        if plan.count != plan.at:
            return
        plan.has_fired = True
        if plan.kind == "kill":
            os._exit(KILLED)
        if plan.kind == "rollback" and self._inner.in_transaction:
            self._inner.execute("ROLLBACK")
        raise operational_error("database or disk is full")


def operational_error(message: str) -> Exception:
    """The driver's own exception, as SQLite's failing calls give it."""
    error: Exception = importlib.import_module(driver.driver_name).OperationalError(message)
    return error


Connect = Callable[..., Connection]
"""What opens a file for the store: `driver.connect` and its stand-ins."""


@contextmanager
def connecting_by(connect: Connect) -> Iterator[None]:
    """Let everything in the store that opens a file use `connect` instead of the driver's."""
    real = driver.connect
    # All of them imported before the first patch: one imported after it would keep the patched name.
    modules = list(_store_modules())
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            if getattr(module, "connect", None) is real:
                patch.setattr(module, "connect", connect)
        yield


def _store_modules() -> Iterator[ModuleType]:
    from sqlindex import store

    for found in pkgutil.iter_modules(store.__path__, f"{store.__name__}."):
        yield importlib.import_module(found.name)


@contextmanager
def faulty_writer(plan: FaultPlan) -> Iterator[FaultPlan]:
    """Let every connection that may write and is opened in the block follow `plan`."""
    real = driver.connect

    def connect(path: Path, mode: str, **options: Any) -> Connection:
        # Reading connections are wrapped too: one copies its pages to a writing one.
        return FailingConnection(real(path, mode, **options), plan if mode == "rw" else FaultPlan())

    with connecting_by(connect):
        yield plan


def killed_at_statement(plan: FaultPlan, work: Callable[[], object]) -> bool:
    """Run `work` in a forked child that ends at the plan's statement; whether it got there.

    A death at a statement boundary differs from the other deaths between the same statements only
    in memory, which goes with the process.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with faulty_writer(replace(plan, kind="kill")):
                work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED), f"the child ended with {code}"
    return code == KILLED


@dataclass(frozen=True, slots=True)
class State:
    """What an index shows of one generation.

    Attributes:
        generation: number of the head.
        chunks: every chunk of the head with its provenance and text, as the shell prints `v_chunk`.
        found: for each mode and query the hits in order, with their scores.
        tags: names of generations.
    """

    generation: int
    chunks: tuple[str, ...]
    found: tuple[str, ...]
    tags: tuple[str, ...] = ()

    def content(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What equals a fresh build of the same documents."""
        return self.chunks, self.found


_CHUNKS = """
    SELECT json_array(source, document_id, path, ord, start_line, end_line, start_char, end_char,
      heading, language, text) FROM v_chunk ORDER BY source, document_id, ord
"""
_TAGS = "SELECT name || ' ' || generation FROM tag ORDER BY name"


def observe(db: Path, queries: Sequence[str], *embedders: Embedder | None) -> State:
    """The state that a newly opened index shows, by search and by the views for people.

    Args:
        embedders: the one that made the head's vectors searches them; none of these, and only the
            lexical channel is looked at.
    """
    with Index.open(db) as index:
        status = index.status()
    embedder = next((e for e in embedders if e is not None and e.identity == status.space), None)
    with Index.open(db, embedder=embedder) as index:
        found = searched(index, queries, embedder is not None)
    with closing(driver.connect(db, "ro")) as connection:
        chunks, tags = (
            tuple(row[0] for row in connection.execute(sql)) for sql in (_CHUNKS, _TAGS)
        )
    return State(status.generation, chunks, found, tags)


def verify(
    db: Path,
    allowed: Sequence[State],
    look: Callable[[Path], State],
    go_on: Callable[[Path, State], object] | None = None,
) -> State:
    """The one oracle of all fault tests: the state that an index shows after whatever happened.

    The index opens, `check` finds nothing, it shows exactly one of the allowed states, and the next
    write completes and leaves a sound file.

    Args:
        allowed: the published states that are not yet superseded by an acknowledged one.
        look: takes the state of an index, as `observe` does.
        go_on: the next write; called with the state that was seen; may assert what it leads to.

    Raises:
        AssertionError: one of these does not hold; errors of the index are its cause.
    """
    try:
        _assert_sound(db)
        seen = look(db)
        assert_whole(seen, *allowed)
        if go_on is not None:
            go_on(db, seen)
            _assert_sound(db)
    except SqlindexError as exc:
        raise AssertionError(f"the index fails with {type(exc).__name__}: {exc}") from exc
    return seen


def is_sound(db: Path) -> bool:
    """Whether `check` finds nothing."""
    with Index.open(db) as index:
        return not index.check()


def _assert_sound(db: Path) -> None:
    with Index.open(db) as index:
        findings = index.check()
    assert findings == [], findings[:5]


def searched(index: Index, queries: Sequence[str], has_embedder: bool) -> tuple[str, ...]:
    """One line for each mode and query: documents, places and scores of all hits."""
    lines = []
    modes: tuple[Mode, ...] = MODES if has_embedder else ("lexical",)
    for mode in modes:
        for query in queries:
            result = index.search(query, mode=mode, limit=100)
            hits = [
                (
                    hit.source,
                    hit.document_id,
                    hit.start_char,
                    None if hit.lexical_score is None else round(hit.lexical_score, 9),
                    None if hit.semantic_score is None else round(hit.semantic_score, 6),
                )
                for hit in result.hits
            ]
            lines.append(json.dumps([mode, query, hits]))
    return tuple(lines)


def assert_whole(seen: State, *published: State) -> None:
    """Fail unless `seen` is exactly one of the published states."""
    assert seen in published, (
        f"generation {seen.generation} with {len(seen.chunks)} chunks is none of the published states "
        f"{[(state.generation, len(state.chunks)) for state in published]}"
    )


def shell_lines(db: Path, sql: str, *, writes: bool = False) -> list[str]:
    """Lines of the `sqlite3` shell's answer, run in a process of its own."""
    program = shutil.which("sqlite3")
    if program is None:
        pytest.skip("the sqlite3 shell is not installed: apt-get install sqlite3")
    options = () if writes else ("-readonly",)
    answer = subprocess.run(
        [program, *options, str(db), sql], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()


@contextmanager
def folder_in_memory(otherwise: Path) -> Iterator[Path]:
    """A folder whose syncs cost nothing: for faults of statements, not of the disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield otherwise
        return
    folder = Path(tempfile.mkdtemp(prefix="sqlindex-test-", dir=memory))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_index(origin: Path, folder: Path) -> Path:
    """A copy of an index that no process has open, in a new folder."""
    folder.mkdir(parents=True)
    for suffix in ("", "-wal"):
        if origin.with_name(origin.name + suffix).exists():
            shutil.copyfile(f"{origin}{suffix}", folder / f"{origin.name}{suffix}")
    os.chmod(folder / origin.name, 0o600)
    return folder / origin.name


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Its one JSON object."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


def command_line(*arguments: str | Path) -> list[str]:
    """The words that run the installed program."""
    return [sys.executable, "-m", "sqlindex", *map(str, arguments)]


def sqlindex(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    user: int | None = None,
    timeout_s: float = 60,
) -> CommandResult:
    """Run the program as its users do, in a process of its own.

    Args:
        env: added to the environment.
        user: id to run as; needs root.
    """
    prefix: list[str] = []
    if user is not None:
        prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    done = subprocess.run(
        [*prefix, *command_line(*arguments)],
        cwd=cwd,
        env=clean_environment(env),
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def clean_environment(added: Mapping[str, str] | None = None) -> dict[str, str]:
    """This environment without settings of the program."""
    kept = {name: value for name, value in os.environ.items() if name != "SQLINDEX_DB"}
    return {**kept, **(added or {})}


def assert_told(result: CommandResult, code: int, *words: str) -> None:
    """Fail unless the command ended with `code`, one error line and a hint, and no traceback."""
    assert result.code == code, (result.code, result.err)
    assert "Traceback" not in result.err + result.out
    lines = result.err.splitlines()
    assert len(lines) == 2, lines
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint: ")
    for word in words:
        assert word in result.err, (word, result.err)


@contextmanager
def running(
    *arguments: str | Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The program while the block runs, as leader of its own process group; killed at the end."""
    process = subprocess.Popen(
        command_line(*arguments),
        env=clean_environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_until(
    condition: Callable[[], bool], *, timeout_s: float = 30, pause_s: float = 0.002
) -> None:
    """Return as soon as `condition` holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(pause_s)
