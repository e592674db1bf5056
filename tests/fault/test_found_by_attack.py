"""Faults that attacks on the store have found; each was wrong once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sqlindex import Index, Retention
from sqlindex.config import IndexConfig
from sqlindex.errors import (
    BuildChangedError,
    CorruptIndexError,
    EmbedderError,
    StaleCursorError,
    UsageError,
)
from sqlindex.sources.memory import Document
from sqlindex.store import held
from sqlindex.store.collect import _OLD_TEXTS
from sqlindex.store.connection import IndexFile
from sqlindex.store.driver import connect
from sqlindex.store.restore import _BRING_BACK
from sqlindex.testing import HashingEmbedder
from tests.damage import Damage, inflict
from tests.faults import shell_lines, sqlindex

Shell = Callable[[Path, str], list[str]]


def _damaged(db: Path, sql: str) -> None:
    """Run SQL past the triggers that guard the rows."""
    kept = shell_lines(db, "SELECT sql || ';' FROM sqlite_schema WHERE type = 'trigger'")
    names = shell_lines(db, "SELECT name FROM sqlite_schema WHERE type = 'trigger'")
    dropped = "".join(f"DROP TRIGGER {name};" for name in names)
    shell_lines(db, "\n".join(["BEGIN;", dropped, f"{sql};", *kept, "COMMIT;"]), writes=True)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """An index of four documents with vectors, one word each."""
    path = tmp_path / "index.db"
    with Index.open(path, create=True, embedder=HashingEmbedder(16)) as index:
        words = ("alpha", "beta", "gamma", "delta")
        index.upsert("host", [Document(f"d{n}", f"{word} {n}") for n, word in enumerate(words)])
    return path


_SWAPPED = """
    UPDATE document_version SET parse_id = (SELECT parse_id FROM document_version WHERE document_id = 'd2')
    WHERE document_id = 'd1'
"""


@pytest.mark.req("A-29")
def test_a_version_that_points_to_the_text_of_another_is_an_error_and_lost(db: Path) -> None:
    _damaged(db, _SWAPPED)
    embedder = HashingEmbedder(16)
    with Index.open(db, embedder=embedder) as index:
        with pytest.raises(CorruptIndexError):
            index.get("d1")
        assert index.check() != []
        assert index.repair().needs_refresh
        assert index.check() == []
        assert {hit.document_id for hit in index.search("gamma", mode="lexical").hits} == {"d2"}
        index.upsert("host", [Document("d1", "beta 1")])
        assert [hit.document_id for hit in index.search("beta", mode="lexical").hits] == ["d1"]


@pytest.mark.req("A-29")
def test_a_chunk_whose_embedding_text_was_lost_is_found_and_given_it_back(db: Path) -> None:
    _damaged(db, "UPDATE chunk SET text_id = NULL WHERE parse_id = 2")
    with Index.open(db, embedder=HashingEmbedder(16)) as index:
        assert any("key of their text" in finding.invariant for finding in index.check())
        index.repair()
        assert index.check() == []
        assert len(index.search("beta", mode="semantic").hits) == 4


@pytest.mark.req("A-29")
@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM document_version WHERE document_id = 'd1'",
        "UPDATE document_version SET died = 2 WHERE document_id = 'd1'",
    ],
)
def test_repair_says_that_documents_are_missing(damage: str, db: Path) -> None:
    with Index.open(db, embedder=HashingEmbedder(16)) as index:
        index.upsert("more", [Document("more", "epsilon")])
    _damaged(db, damage)
    done = sqlindex("repair", "--db", db)
    assert done.code == 5, done
    assert "said 5 documents" in done.out


@pytest.mark.req("A-29", "C-7")
def test_a_damaged_retention_stops_no_publish_and_can_be_set_anew(db: Path) -> None:
    shell_lines(
        db, "INSERT OR REPLACE INTO setting VALUES('retention_generations', 'zero')", writes=True
    )
    with Index.open(db, embedder=HashingEmbedder(16)) as index:
        assert index.upsert("host", [Document("d9", "zeta")]).generation == 2
        with pytest.raises(CorruptIndexError, match="retention"):
            index.collect()
    assert sqlindex("gc", "--db", db).code == 6
    done = sqlindex("gc", "--db", db, "--keep", "5", "--keep-days", "0", "--vector-days", "30")
    assert done.code == 0, done


@pytest.mark.req("A-24", "D-13")
def test_a_cursor_is_refused_when_a_purge_has_changed_its_generation(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder(16)) as index:
        index.upsert("host", [Document(f"d{n}", f"pump {n}") for n in range(8)])
        index.tag("first")
        index.upsert("host", [Document("e", "pump e")])
        page = index.search("pump", mode="semantic", limit=3, at="first")
        index.purge([page.hits[0].document_id])
        with pytest.raises(StaleCursorError):
            index.search("pump", cursor=page.cursor)


@pytest.mark.req("C-7")
def test_a_hold_where_nothing_can_be_locked_frees_no_other_hold(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(held, "_open_to_hold", lambda *_: None)
        loose = held.hold(db, 1)
    real = held.hold(db, 1)
    loose.release()
    with held.excluded(db, [1]) as free:
        assert free == []
    real.release()
    with held.excluded(db, [1]) as free:
        assert free == [1]


_WRITES = """
import os, sys
from sqlindex import Document, Index
from sqlindex.testing import HashingEmbedder
index = Index.open(sys.argv[1], embedder=HashingEmbedder(16))
index.search("alpha", mode="lexical")
print("open", flush=True)
sys.stdin.readline()
index.upsert("host", [Document("later", "written into the old backup")])
os._exit(9)
"""


@pytest.mark.req("D-13")
def test_a_backup_over_one_that_is_open_elsewhere_stays_sound(db: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    with Index.open(db, embedder=HashingEmbedder(16)) as index:
        index.backup(target)
        other = subprocess.Popen(
            [sys.executable, "-c", _WRITES, str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert other.stdout is not None
        assert other.stdin is not None
        with other.stdout, other.stdin:
            assert other.stdout.readline() == "open\n"
            inode = os.stat(target).st_ino
            index.upsert("host", [Document("d4", "epsilon 4")])
            index.backup(target, force=True)
            assert os.stat(target).st_ino == inode
            other.stdin.write("go\n")
            other.stdin.flush()
            other.wait()
    with Index.open(target) as copied:
        assert copied.check() == []
        assert copied.status().documents == 6


@pytest.mark.req("D-2")
def test_a_rollback_can_be_undone_whatever_is_kept(db: Path) -> None:
    with Index.open(db, embedder=HashingEmbedder(16)) as index:
        index.tag("good")
        index.upsert("host", [Document("d9", "zeta")])
        index.collect(Retention(generations=1))
        report = index.rollback("good")
        assert report.previous == 2
        assert index.rollback(report.previous).is_published
        assert index.status().documents == 5


@pytest.mark.req("A-29", "C-6", "D-11")
def test_a_plan_fails_where_the_refresh_would(tmp_path: Path, folder: Path) -> None:
    class Broken(HashingEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            raise RuntimeError("away")

    for number in range(5):
        (folder / f"{number}.txt").write_text(f"word {number}")
    path = tmp_path / "index.db"
    with Index.open(path, create=True, embedder=Broken(8)) as index:
        index.add_source(folder, name="notes")
        with pytest.raises(EmbedderError):
            index.refresh()
    with Index.open(path, embedder=HashingEmbedder(16)) as index:
        with pytest.raises(BuildChangedError):
            index.plan()
        assert index.plan(restart=True).embedding_inputs == 5
        assert index.refresh(restart=True).embedded == 5


@pytest.mark.req("A-29")
def test_history_names_the_embedder_of_a_space_that_is_gone_as_none(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    for width in (8, 16, 24):
        with Index.open(path, create=True, embedder=HashingEmbedder(width)) as index:
            index.upsert("host", [Document("a", "alpha")])
            if width == 16:
                index.collect(Retention(generations=1, vector_days=0))
    spaces = shell_lines(
        path, "SELECT generation || ' ' || space_id FROM generation WHERE generation > 0"
    )
    assert len({line.split()[1] for line in spaces}) == 3


@pytest.mark.req("A-14")
def test_an_error_of_the_hosts_progress_is_no_damage_of_the_index(db: Path) -> None:
    def broken(_: object) -> None:
        b"\xff".decode()

    with Index.open(db, embedder=HashingEmbedder(16), config=IndexConfig()) as index:
        with pytest.raises(UsageError, match="progress callback failed"):
            index.upsert("host", [Document("d9", "zeta")], progress=broken)
        assert index.check() == []


@pytest.mark.req("A-18")
@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        (_OLD_TEXTS, {"before": "9", "step": 1}),
        (_BRING_BACK, {"generation": 1, "build_id": 1}),
    ],
    ids=["old texts", "rollback"],
)
def test_a_statement_of_every_publish_uses_its_index(
    sql: str, parameters: dict[str, str | int], db: Path
) -> None:
    file = IndexFile.open(db, make=False, busy_timeout_ms=1_000)
    with file.writing("explain") as writer:
        rows = writer.connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()
    file.close()
    steps = [row[3] for row in rows]
    assert not any(step.startswith("SCAN") for step in steps), steps


@pytest.mark.req("A-29")
@pytest.mark.parametrize("change", ["norm = norm * 1.5", "norm = norm * (1 + 1e-9)"])
def test_a_vector_whose_norm_was_changed_is_an_error_and_no_other_ranking(
    db: Path, change: str
) -> None:
    embedder = HashingEmbedder(16)
    with Index.open(db, create=True, embedder=embedder) as index:
        index.upsert("notes", [Document("a.md", "a pump"), Document("b.md", "a valve")])
    with closing(connect(db, "rw")) as connection:
        connection.execute(
            f"UPDATE vector SET {change} WHERE rowid = (SELECT max(rowid) FROM vector)"
        )
    with Index.open(db, embedder=embedder) as index:
        with pytest.raises(CorruptIndexError, match="vector"):
            index.search("pump", mode="semantic")
        assert index.search("pump", mode="lexical").hits


@pytest.mark.req("A-29")
@pytest.mark.parametrize("cut", ["substr(f32, 1, 32)", "x''"])
def test_vectors_that_are_all_damaged_alike_are_made_again(db: Path, cut: str) -> None:
    embedder = HashingEmbedder(16)
    notes = [Document("a.md", "a pump"), Document("b.md", "a valve")]
    with Index.open(db, create=True, embedder=embedder) as index:
        index.upsert("notes", notes)
        found = index.search("pump", mode="semantic").hits
    inflict(db, Damage("alike", [f"UPDATE vector SET f32 = {cut}"], "vectors"))
    with Index.open(db, embedder=embedder) as index:
        index.repair()
        assert index.check() == []
        index.upsert("notes", notes)
        assert index.search("pump", mode="semantic").hits == found
