"""Held generations and collection: what goes, what stays, and what is reused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlindex import Index, Retention
from sqlindex.cancellation import CancelToken
from sqlindex.errors import CancelledError, GenerationGoneError
from sqlindex.sources.memory import Document
from sqlindex.store import collect as module
from sqlindex.store.collect import collect
from sqlindex.store.connection import IndexFile
from sqlindex.testing import HashingEmbedder

Shell = Callable[[Path, str], list[str]]

_KEPT = "SELECT generation FROM generation WHERE is_kept = 1 ORDER BY 1"
_COUNTS = "SELECT (SELECT count(*) FROM {}) || ' ' || (SELECT count(*) FROM {})"


def _publish(index: Index, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        index.upsert("host", [Document("page.md", f"# Page\n\nword{number} and more\n")])


def _open(path: Path) -> IndexFile:
    return IndexFile.open(path, make=False, busy_timeout_ms=1_000)


@pytest.mark.req("A-17", "C-7", "D-2")
def test_the_last_five_generations_are_kept_and_the_rest_is_deleted(
    index: Index, shell: Shell
) -> None:
    _publish(index, 12)
    assert shell(index.path, _KEPT) == ["8", "9", "10", "11", "12"]
    tables = ("document_version", "parse", "content", "content_piece", "unused_parse", "collection")
    counts = [shell(index.path, f"SELECT count(*) FROM {table}")[0] for table in tables]
    assert counts == ["5", "5", "5", "5", "0", "0"]
    assert shell(index.path, "SELECT count(*) FROM generation") == ["13"]


@pytest.mark.req("C-7", "D-2")
def test_a_tag_keeps_its_generation_and_nothing_around_it(index: Index, shell: Shell) -> None:
    _publish(index, 2)
    file = _open(index.path)
    with file.writing("tag") as writer, writer.transaction() as connection:
        connection.execute("INSERT INTO tag VALUES('first', 1, '2026-11-30T12:00:00Z')")
    file.close()
    _publish(index, 10, start=2)
    assert shell(index.path, _KEPT) == ["1", "8", "9", "10", "11", "12"]
    assert shell(index.path, "SELECT born FROM document_version ORDER BY 1") == [
        "1", "8", "9", "10", "11", "12"
    ]  # fmt: skip


@pytest.mark.req("A-24", "C-7")
def test_a_held_generation_stays_until_it_is_released(index: Index, shell: Shell) -> None:
    _publish(index, 1)
    file = _open(index.path)
    first, second = file.hold(1), file.hold(1)
    _publish(index, 9, start=1)
    assert shell(index.path, _KEPT) == ["1", "6", "7", "8", "9", "10"]
    assert index.collect().held == (1,)
    first.release()
    first.release()
    assert index.collect().held == (1,), "the second hold still counts"
    second.release()
    assert index.collect().generations == (1,)
    with pytest.raises(GenerationGoneError, match="generation 1 has been collected"):
        file.hold(1)
    with pytest.raises(GenerationGoneError, match="never published"):
        file.hold(99)
    file.close()


@pytest.mark.req("C-7", "D-2")
@pytest.mark.parametrize("name", ["generations", "days", "vector_days"])
def test_the_greatest_retention_is_what_a_statement_takes(index: Index, name: str) -> None:
    _publish(index, 2)
    for number in (2**63, 10**4_000):
        with pytest.raises(ValueError, match=f"{name} must be at most"):
            Retention(**{name: number})
    index.collect(Retention(**{name: 2**63 - 1}))
    _publish(index, 2, start=2)
    assert index.collect().vectors == 0
    assert getattr(index.retention(), name) == 2**63 - 1


_HOLDER = """
import sys, time
from pathlib import Path
from sqlindex.store.connection import IndexFile
file = IndexFile.open(Path(sys.argv[1]), make=False, busy_timeout_ms=1000)
held = file.hold(1)
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.req("A-24", "C-7")
def test_the_hold_of_another_process_counts_and_ends_with_it(index: Index) -> None:
    _publish(index, 1)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(index.path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    with holder.stdout:
        try:
            assert holder.stdout.readline() == "held\n"
            _publish(index, 6, start=1)
            assert index.collect().held == (1,)
        finally:
            holder.kill()
            holder.wait()
    assert index.collect().generations == (1,)


@pytest.mark.req("A-24", "C-7")
def test_a_forked_child_neither_has_nor_frees_the_hold_of_its_parent(index: Index) -> None:
    _publish(index, 1)
    file = _open(index.path)
    held = file.hold(1)
    child = os.fork()
    if child == 0:
        held.release()
        os._exit(0 if not held.is_held else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert held.is_held
    _publish(index, 6, start=1)
    assert index.collect().held == (1,)
    held.release()
    assert index.collect().generations == (1,)
    file.close()


@pytest.mark.req("C-7")
def test_a_cancelled_collection_leaves_a_marker_and_the_next_one_goes_on(
    index: Index, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STEP_ROWS", 1)
    index.collect(Retention(generations=100))
    _publish(index, 8)
    file = _open(index.path)
    token = CancelToken()
    steps = 0

    def check() -> None:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise CancelledError("cancelled")

    monkeypatch.setattr(token, "check", check)
    with file.writing("collect") as writer:
        module.put_retention(writer.connection, Retention())
        with pytest.raises(CancelledError):
            collect(writer, token)
    file.close()
    assert shell(index.path, _KEPT) == ["4", "5", "6", "7", "8"]
    assert shell(index.path, "SELECT count(*) FROM collection") == ["1"]
    left = int(shell(index.path, "SELECT count(*) FROM document_version")[0])
    assert left > 5
    assert index.check() == []
    assert index.collect().versions == left - 5
    assert shell(index.path, "SELECT count(*) FROM collection") == ["0"]
    assert shell(index.path, "SELECT count(*) FROM parse") == ["5"]


@pytest.mark.req("A-16", "C-7", "D-2")
def test_unused_vectors_stay_for_their_days_and_come_back_without_inference(
    tmp_path: Path, shell: Shell
) -> None:
    db = tmp_path / "index.db"
    embedder = HashingEmbedder(16)
    with Index.open(db, create=True, embedder=embedder) as index:
        index.upsert("host", [Document("old.md", "an old text that goes")])
        _publish(index, 8)
        texts = "SELECT count(*) FROM unused_text"
        assert shell(db, texts) == ["3"]
        vectors = "SELECT count(*) FROM vector"
        assert shell(db, vectors) == ["9"], "old.md still lives, three pages are out of use"
        embedder.document_inputs.clear()
        index.upsert("host", [Document("back.md", "# Page\n\nword0 and more\n")])
        assert embedder.document_inputs == []
        index.collect(Retention(generations=1, vector_days=0))
        assert shell(db, vectors) == ["3"]
        assert shell(db, texts) == ["0"]
        assert shell(db, "SELECT count(*) FROM embedding_text") == ["3"]
        assert len(index.search("word", mode="semantic").hits) == 3
        assert index.check() == []


@pytest.mark.req("A-29", "C-7")
def test_the_vectors_of_a_space_out_of_use_are_collected_after_their_days(
    tmp_path: Path, shell: Shell
) -> None:
    db = tmp_path / "index.db"
    with Index.open(db, create=True, embedder=HashingEmbedder(16)) as index:
        _publish(index, 2)
    with Index.open(db, embedder=HashingEmbedder(8)) as index:
        _publish(index, 1, start=2)
        assert shell(db, "SELECT count(*) FROM vector_space") == ["2"]
        index.collect(Retention(generations=1))
        assert shell(db, "SELECT count(*) FROM vector_space") == ["2"]
        index.collect(Retention(generations=1, vector_days=0))
        assert shell(db, "SELECT dimensions FROM v_vector") == ["8"]
        assert shell(db, "SELECT count(*) FROM vector_space") == ["1"]
        assert len(index.search("word", mode="semantic").hits) == 1
        assert index.check() == []


@pytest.mark.req("C-7")
def test_a_text_that_other_versions_share_stays(index: Index, shell: Shell) -> None:
    shared = "# Shared\n\nthe same words\n"
    index.upsert("host", [Document("a.md", shared), Document("b.md", shared)])
    index.upsert("host", [Document("a.md", "other words\n")])
    index.collect(Retention(generations=1))
    assert shell(index.path, "SELECT count(*) FROM content") == ["2"]
    assert [hit.document_id for hit in index.search("same").hits] == ["b.md"]
    index.remove("host", ["b.md"])
    assert shell(index.path, "SELECT count(*) FROM content") == ["1"]


@pytest.mark.req("C-7")
def test_a_damaged_text_is_not_deleted_with_pieces_of_another(index: Index) -> None:
    file = _open(index.path)
    index.upsert("host", [Document("a.md", "first words\n"), Document("b.md", "second words\n")])
    with file.writing("damage") as writer, writer.transaction() as connection:
        connection.execute("UPDATE content SET chars = 16384 + 13 WHERE content_id = 1")
    index.remove("host", ["a.md"])
    index.collect(Retention(generations=1))
    assert index.get("b.md").text == "second words\n"
    with file.writing("mend") as writer, writer.transaction() as connection:
        connection.execute("DELETE FROM content_piece WHERE piece_id = 1")
        connection.execute("DELETE FROM content WHERE content_id = 1")
    file.close()


@pytest.mark.req("A-30")
@pytest.mark.needs_root
def test_the_lock_file_that_root_makes_belongs_to_the_owner_of_the_index(index: Index) -> None:
    Path(f"{index.path}-lock").unlink(missing_ok=True)
    os.chown(index.path, 65_534, 65_534)
    file = IndexFile.open(index.path, make=False, busy_timeout_ms=1_000, trust_owner=True)
    with file.writing("as root"):
        assert os.stat(f"{index.path}-lock").st_uid == 65_534
    file.close()
    for suffix in ("", "-wal", "-shm", "-lock"):
        os.chown(f"{index.path}{suffix}", 0, 0)
