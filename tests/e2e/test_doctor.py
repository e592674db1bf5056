"""`sqlindex doctor` tells what an index is like inside, and who keeps its log."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sqlindex import Document, Index
from sqlindex.store.driver import connect
from tests.damage import Damage, inflict
from tests.faults import sqlindex

READER = """
import sys, time
from pathlib import Path
from sqlindex.store.driver import connect
connection = connect(Path(sys.argv[1]), "rw")
connection.execute("INSERT INTO setting VALUES('noise', 'x')")  # a frame of the log that no checkpoint copied
connection.execute("BEGIN")
connection.execute("SELECT * FROM head").fetchall()
print("reading", flush=True)
time.sleep(60)
"""


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "index.db"
    with Index.open(path, create=True) as index:
        index.upsert("notes", [Document("1", "alpha " * 20_000), Document("2", "beta")])
    return path


def _states(db: Path) -> dict[str, tuple[str, str, str]]:
    diagnoses = sqlindex("doctor", "--json", "--db", db).json["diagnoses"]
    return {each["part"]: (each["state"], each["found"], each["why"]) for each in diagnoses}


@pytest.mark.req("C-2")
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux tells who holds a lock")
def test_the_doctor_names_the_process_that_keeps_the_log(db: Path) -> None:
    assert "copied into the file" in _states(db)["log"][2]
    reader = subprocess.Popen([sys.executable, "-c", READER, str(db)], stdout=subprocess.PIPE)
    try:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reading\n"
        assert f"while process {reader.pid} reads" in _states(db)["log"][2]
    finally:
        reader.kill()
        reader.communicate()
    assert "copied into the file" in _states(db)["log"][2]


@pytest.mark.req("C-2")
def test_the_doctor_tells_of_free_pages_history_and_what_was_interrupted(db: Path) -> None:
    before = _states(db)
    assert before["journal"][:2] == ("ok", "wal")
    assert before["history"][1:] == ("2 generations kept", "none is tagged")
    assert not {"unfinished", "collection", "sidecars"} & before.keys()
    connection = connect(db, "rw")
    for statement in (
        "INSERT INTO tag VALUES('start', 0, '2026-11-30T12:00:00Z')",
        "INSERT INTO collection VALUES(1, '2026-11-30T12:00:00Z')",
        "INSERT INTO build(base_generation, started_at) VALUES(1, '2026-11-30T12:00:00Z')",
        "CREATE TABLE big AS SELECT zeroblob(100000) AS filling",
        "DROP TABLE big",
    ):
        connection.execute(statement)
    connection.close()
    after = _states(db)
    assert after["history"][2] == "tagged: start"
    assert after["collection"][0] == after["unfinished"][0] == "note"
    assert int(after["free pages"][1].split(" ")[0].replace(",", "")) > 100_000


@pytest.mark.req("C-2")
def test_the_doctor_notes_a_copy_and_a_fault(db: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy.db"
    shutil.copyfile(db, copied)
    os.chmod(copied, 0o600)
    connection = connect(copied, "rw")
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    connection.close()
    assert _states(copied)["journal"][0] == "note"
    inflict(copied, Damage("count", ["UPDATE generation SET documents = 7"], ""))
    told = sqlindex("doctor", "--db", copied)
    assert told.code == 1
    assert "sqlindex repair" in told.out


@pytest.mark.needs_root
def test_the_doctor_notes_sidecars_of_another_user(db: Path) -> None:
    os.chown(db, 4711, 4711)
    state = _states(db)["sidecars"]
    assert state[0] == "note"
    assert "index.db-lock" in state[1]
