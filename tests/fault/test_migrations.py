"""Indexes of every released schema: migrated whole or not at all, with equal results, and a copy."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import logging
import re
import resource
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sqlindex import Document, Index
from sqlindex.errors import NewerSchemaError, StorageError
from sqlindex.store import backup as backup_module
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.store.migrate import migrations
from sqlindex.testing import HashingEmbedder
from tests.faults import (
    FaultPlan,
    assert_told,
    faulty_writer,
    folder_in_memory,
    killed_at_statement,
    shell_lines,
    sqlindex,
)

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "indexes"
VERSIONS = sorted(int(p.name.split("-")[1].split(".")[0]) for p in FIXTURES.glob("*.db.gz"))
OLDER = [version for version in VERSIONS if version < SCHEMA_VERSION]

RELEASED = {
    "0001_catalog": "e16675a87f97aa01",
    "0002_generations": "ae64a63bc214b4c3",
    "0003_vectors": "05fa70ade831d6a0",
    "0004_lexical": "2b3dd25a47f0a04a",
    "0005_inspection_views": "a14fd3f6bbe1f69f",
    "0006_history": "19b3228bb1b139e5",
    "0007_questions": "f603edddd682c515",
}
"""BLAKE2b of the migrations that indexes out there have run: they stay as they are."""

_ROWS = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Like `tmp_path`, without the cost of syncs."""
    with folder_in_memory(tmp_path) as folder:
        yield folder


@cache
def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_indexes", FIXTURES / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _unpack(version: int, folder: Path) -> Path:
    folder.mkdir(parents=True)
    db = folder / "index.db"
    db.write_bytes(gzip.decompress((FIXTURES / f"schema-{version}.db.gz").read_bytes()))
    db.chmod(0o600)
    return db


def _expected(version: int) -> Any:
    return json.loads((FIXTURES / f"schema-{version}.json").read_text(encoding="utf-8"))


def _open(db: Path) -> Index:
    return Index.open(db, embedder=HashingEmbedder(16))


def _migrate(db: Path) -> None:
    """Any write does."""
    with _open(db) as index:
        index.set_embedder(None)


def _schema(db: Path) -> list[str]:
    return shell_lines(db, _ROWS)


def _shape(db: Path) -> list[str]:
    """Columns and checks of every table, and the text of everything else.

    ALTER TABLE writes a new column behind the text of its table, so texts of tables differ.
    """
    columns = """
        SELECT m.name, x.cid, x.name, x.type, x."notnull", x.dflt_value, x.pk, x.hidden
        FROM sqlite_schema m JOIN pragma_table_xinfo(m.name) x WHERE m.type = 'table'
        ORDER BY m.name, x.cid
    """
    objects = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type <> 'table' ORDER BY type, name"
    tables = "SELECT name, wr, strict FROM pragma_table_list WHERE schema = 'main' ORDER BY name"
    checks = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    return [
        *shell_lines(db, columns),
        *shell_lines(db, objects),
        *shell_lines(db, tables),
        *sorted(re.findall(r"CHECK *\([^\n]*", "\n".join(shell_lines(db, checks)))),
    ]


@pytest.mark.req("A-31")
def test_there_is_an_index_of_the_present_schema_and_of_one_before() -> None:
    assert VERSIONS[-1] == SCHEMA_VERSION, "add one: python fixtures/indexes/make.py"
    assert OLDER


@pytest.mark.req("A-31")
@pytest.mark.parametrize("version", VERSIONS)
def test_an_index_of_a_released_schema_shows_what_it_showed(version: int, tmp_path: Path) -> None:
    db = _unpack(version, tmp_path / "old")
    _migrate(db)
    assert _maker().shown(db) == _expected(version)
    with _open(db) as index:
        assert index.status().schema_version == SCHEMA_VERSION
        assert index.check() == []
        # It goes on as before: vectors are reused, generations counted on.
        report = index.upsert("cards", [Document("card/9", "A quartz watch.", title="Watch 9")])
        assert (report.generation, report.embedded) == (6, 0)
        assert index.check() == []


@pytest.mark.req("A-31")
@pytest.mark.parametrize("version", OLDER)
def test_a_migrated_index_has_the_schema_of_a_fresh_one(version: int, tmp_path: Path) -> None:
    db = _unpack(version, tmp_path / "old")
    assert _shape(db) != _shape(_unpack(SCHEMA_VERSION, tmp_path / "new"))
    _migrate(db)
    Index.open(tmp_path / "fresh.db", create=True).close()
    assert _shape(db) == _shape(tmp_path / "fresh.db")


@pytest.mark.req("A-31")
@pytest.mark.parametrize("version", OLDER)
def test_a_copy_of_how_it_was_is_kept_and_told(
    version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    db = _unpack(version, tmp_path / "old")
    (tmp_path / "old" / f"index.db.schema{version - 1}.bak").write_bytes(b"an earlier one")
    before = shell_lines(db, ".dump")
    with caplog.at_level(logging.WARNING):
        _migrate(db)
    kept = tmp_path / "old" / f"index.db.schema{version}.bak"
    assert f"from schema {version} to {SCHEMA_VERSION}" in caplog.text
    assert kept.name in caplog.text
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert sorted(path.name for path in db.parent.iterdir() if "bak" in path.name) == [kept.name]
    assert shell_lines(kept, ".dump") == before
    # A copy of the copy is an index as well.
    again = tmp_path / "again.db"
    again.write_bytes(kept.read_bytes())
    _migrate(again)
    assert _maker().shown(again) == _expected(version)


@pytest.mark.req("A-31")
@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize("kind", ["error", "kill"])
def test_a_migration_that_ends_anywhere_leaves_the_old_schema_or_the_new_one(
    version: int, kind: str, quick_path: Path
) -> None:
    origin = _unpack(version, quick_path / "origin")
    old, expected = shell_lines(origin, ".dump"), _expected(version)
    ended = 0
    for number in range(1, 1_000):
        db = _unpack(version, quick_path / str(number))
        if kind == "kill":
            if not killed_at_statement(FaultPlan(number), lambda db=db: _migrate(db)):  # type: ignore[misc]  # a bound default
                break
        else:
            with faulty_writer(FaultPlan(number)) as plan, suppress(StorageError):
                _migrate(db)
            if not plan.has_fired:
                break
        if shell_lines(db, "PRAGMA user_version") == [str(version)]:
            ended += 1
            assert shell_lines(db, ".dump") == old
            with pytest.raises(StorageError, match=f"older schema {version}"), _open(db) as index:
                index.search("pump")
        _migrate(db)
        if number % 5 == 0:
            assert _maker().shown(db) == expected
            with _open(db) as index:
                assert index.check() == []
    else:
        pytest.fail("it never passed")
    assert ended > 15


@pytest.mark.req("A-31")
def test_a_migration_in_several_transactions_would_be_noticed(quick_path: Path) -> None:
    """The control: what is compared above differs after a part of the statements."""
    db = _unpack(OLDER[-1], quick_path / "part")
    old = shell_lines(db, ".dump")
    statement = "CREATE TABLE question(position INTEGER PRIMARY KEY) STRICT"
    shell_lines(db, statement, writes=True)
    assert shell_lines(db, ".dump") != old


@pytest.mark.req("A-31")
def test_without_space_for_the_copy_the_index_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = _unpack(OLDER[-1], tmp_path / "old")
    before = shell_lines(db, ".dump")
    copy_to = backup_module.copy_to

    def limited(connection: Any, temporary: Path, target: Path, step: Any) -> None:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            copy_to(connection, temporary, target, step)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    with monkeypatch.context() as patch:
        patch.setattr(backup_module, "copy_to", limited)
        with pytest.raises(StorageError, match="bak"):
            _migrate(db)
    assert shell_lines(db, ".dump") == before
    assert [path.name for path in db.parent.iterdir() if "bak" in path.name] == []
    _migrate(db)


@pytest.mark.req("A-31")
def test_a_newer_index_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    db = _unpack(SCHEMA_VERSION, tmp_path / "new")
    shell_lines(db, f"PRAGMA user_version = {SCHEMA_VERSION + 1}", writes=True)
    before = db.read_bytes()
    with pytest.raises(NewerSchemaError, match=f"schema {SCHEMA_VERSION + 1}"):
        _open(db)
    for command in (("search", "pump"), ("refresh",), ("compact",), ("check",)):
        assert_told(sqlindex(*command, "--db", db), 8, "newer version")
    assert db.read_bytes() == before
    assert [path.name for path in db.parent.iterdir()] == [db.name]


@pytest.mark.req("A-31")
def test_the_command_says_that_it_migrated_and_a_search_says_how(tmp_path: Path) -> None:
    db = _unpack(OLDER[-1], tmp_path / "old")
    assert_told(
        sqlindex("search", "pump", "--db", db), 1, f"older schema {OLDER[-1]}", "sqlindex refresh"
    )
    done = sqlindex("compact", "--db", db)
    assert done.code == 0
    assert f"index.db.schema{OLDER[-1]}.bak" in done.err
    assert sqlindex("search", "pump", "--db", db, "--mode", "lexical").code == 0


@pytest.mark.req("A-31")
def test_a_released_migration_stays_as_it_is() -> None:
    found = {
        f"{m.number:04}_{m.name}": hashlib.blake2b(m.sql.encode(), digest_size=8).hexdigest()
        for m in migrations()
    }
    assert found == RELEASED, "correct a released migration by a new one, and add that one here"
