"""Snapshots: a generation stays readable and the same until the last one is closed."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlindex import Index, Retention, Snapshot
from sqlindex.errors import (
    GenerationGoneError,
    LexicalHistoryError,
    NoIndexError,
    StorageError,
    UnknownDocumentError,
    UnknownGenerationError,
    UsageError,
)
from sqlindex.sources.memory import Document
from sqlindex.store import held
from sqlindex.testing import HashingEmbedder

WORDS = ("pump", "valve", "motor", "pipe", "seal")


@pytest.fixture
def index(tmp_path: Path):  # type: ignore[no-untyped-def]  # a fixture
    with Index.open(tmp_path / "i.db", create=True, embedder=HashingEmbedder(32)) as opened:
        yield opened
        assert opened.check() == []


def _publish(index: Index, number: int) -> None:
    texts = [
        Document(f"d{i}", f"{WORDS[i % 5]} {WORDS[(i * number) % 5]} part {number if i % 2 else i}")
        for i in range(10)
    ]
    index.upsert("plant", texts)


def _answers(snapshot: Snapshot) -> bytes:
    """Everything that semantic searches of it answer, to the bit."""
    results = [snapshot.search(word, mode="semantic", limit=100) for word in WORDS]
    return repr([(result.generation, result.hits) for result in results]).encode()


def _collect_all(index: Index) -> tuple[int, ...]:
    return index.collect(Retention(generations=1, vector_days=0)).generations


@pytest.mark.req("A-24", "C-7", "D-2")
def test_a_pinned_generation_is_the_same_to_the_bit_after_20_refreshes_and_a_collection(
    index: Index,
) -> None:
    _publish(index, 1)
    with index.snapshot() as snapshot:
        before = _answers(snapshot)
        documents = list(snapshot.documents())
        texts = [snapshot.get(d.document_id).text for d in documents]
        for number in range(2, 22):
            _publish(index, number)
        index.collect(Retention(generations=1, vector_days=0))
        assert [g.number for g in index.history()] == [21, 1]
        assert _answers(snapshot) == before
        assert list(snapshot.documents()) == documents
        assert [snapshot.get(d.document_id).text for d in documents] == texts
        with (
            Index.open(index.path, embedder=HashingEmbedder(32)) as cold,
            cold.snapshot(1) as again,
        ):
            assert _answers(again) == before
    assert _collect_all(index) == (1,)
    with pytest.raises(GenerationGoneError):
        index.snapshot(1)


@pytest.mark.req("A-24", "D-2")
def test_a_snapshot_reads_everything_of_its_generation(index: Index) -> None:
    index.upsert(
        "n", [Document("a.md", "# A\n\n[b](b.md)\n", type_name="md"), Document("b.md", "B")]
    )
    with index.snapshot() as snapshot:
        chunk = snapshot.chunks("a.md")[0]
        hybrid = snapshot.search("b")
        assert hybrid.mode == "hybrid"
        index.upsert("n", [Document("a.md", "gone"), Document("c", "C")])
        assert (snapshot.generation, snapshot.count, snapshot.info().is_head) == (1, 2, False)
        assert [d.document_id for d in snapshot.documents(source="n")] == ["a.md", "b.md"]
        assert snapshot.links("a.md")[0].leads_to is not None
        assert snapshot.backlinks("b.md")[0].document_id == "a.md"
        assert snapshot.get_chunk(chunk.chunk_id).text == chunk.text
        assert snapshot.search("b").mode == "semantic"
        with pytest.raises(LexicalHistoryError):
            snapshot.search("b", mode="hybrid")
        with pytest.raises(UnknownDocumentError):
            snapshot.get("c")
        page = snapshot.search("b", limit=1)
        assert snapshot.search("b", cursor=page.cursor).hits[0].rank == 2
        other = index.search("b", mode="semantic", limit=1).cursor
        with pytest.raises(UsageError, match="goes on in generation 2"):
            snapshot.search("b", cursor=other)
        assert repr(snapshot).startswith("<Snapshot of generation 1 of ")
    for ask in (
        snapshot.documents,
        snapshot.info,
        lambda: snapshot.search("b"),
        snapshot.__reduce__,
    ):
        with pytest.raises(StorageError, match="was closed"):
            ask()
    snapshot.close()


@pytest.mark.req("C-7", "D-2")
def test_a_forgotten_snapshot_lets_its_generation_go(index: Index) -> None:
    _publish(index, 1)
    snapshot = index.snapshot()
    _publish(index, 2)
    assert _collect_all(index) == (0,)
    circle: list[object] = [snapshot]
    circle.append(circle)
    del snapshot, circle
    gc.collect()
    assert _collect_all(index) == (1,)


@pytest.mark.req("C-7")
def test_a_snapshot_that_goes_while_holds_are_changed_is_released_with_the_next_one(
    index: Index,
) -> None:
    _publish(index, 1)
    snapshot = index.snapshot()
    _publish(index, 2)
    with held._guard:  # as if the garbage collector ran within
        del snapshot
        gc.collect()
    assert 1 in index.collect(Retention(generations=1)).held
    index.snapshot().close()
    assert _collect_all(index) == (1,)


@pytest.mark.req("A-24", "D-2")
def test_a_snapshot_of_what_is_gone_leaves_no_hold_behind(index: Index) -> None:
    _publish(index, 1)
    _publish(index, 2)
    _collect_all(index)
    with pytest.raises(GenerationGoneError):
        index.snapshot(1)
    with pytest.raises(UnknownGenerationError):
        index.snapshot(9)
    assert held._descriptions == {}


_CHILD = """
import pickle, sys
with pickle.loads(sys.stdin.buffer.read()) as snapshot:
    results = [snapshot.search(word, mode="semantic", limit=100) for word in {words!r}]
    sys.stdout.buffer.write(repr([(r.generation, r.hits) for r in results]).encode())
    sys.stdout.flush()
    sys.stdin.close()
    open({gate!r}).read()  # until the test has collected
    assert snapshot.get("d1").text
"""


@pytest.mark.req("A-24", "A-30", "D-2")
def test_a_pickled_snapshot_pins_its_generation_in_the_other_process(
    index: Index, tmp_path: Path
) -> None:
    _publish(index, 1)
    snapshot = index.snapshot()
    before = _answers(snapshot)
    _publish(index, 2)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD.format(words=WORDS, gate=str(gate))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(pickle.dumps(snapshot))
    child.stdin.close()
    assert child.stdout.read(len(before)) == before
    snapshot.close()
    assert _collect_all(index) == (0,), "the child holds generation 1"
    gate.write_text("go on")
    assert child.wait(30) == 0
    child.stdout.close()
    assert _collect_all(index) == (1,)


@pytest.mark.req("D-2")
def test_a_pickle_that_comes_too_late_or_to_no_index_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with Index.open(path, create=True, embedder=HashingEmbedder(32)) as index:
        _publish(index, 1)
        with index.snapshot() as snapshot:
            pickled = pickle.dumps(snapshot)
            with pickle.loads(pickled) as copy:
                assert _answers(copy) == _answers(snapshot)
        _publish(index, 2)
        _collect_all(index)
        with pytest.raises(GenerationGoneError):
            pickle.loads(pickled)
    path.rename(tmp_path / "moved.db")
    with pytest.raises(NoIndexError):
        pickle.loads(pickled)


@pytest.mark.req("D-2")
def test_an_embedder_that_cannot_travel_is_named(tmp_path: Path) -> None:
    class Local(HashingEmbedder):
        pass

    with Index.open(tmp_path / "i.db", create=True, embedder=Local()) as index:
        index.upsert("n", [Document("a", "one")])
        with index.snapshot() as snapshot, pytest.raises(UsageError, match="Local") as told:
            pickle.dumps(snapshot)
        assert "other process" in told.value.hint


def _in_fork(work: Callable[[], bytes]) -> bytes:
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            sender.send_bytes(work())
        finally:
            os._exit(0)
    sender.close()
    try:
        return receiver.recv_bytes()
    finally:
        os.waitpid(child, 0)


@pytest.mark.req("A-24", "A-30", "D-2")
def test_a_forked_child_holds_anew_when_it_reads(index: Index) -> None:
    _publish(index, 1)
    snapshot = index.snapshot()
    before = _answers(snapshot)
    _publish(index, 2)
    assert _in_fork(lambda: _answers(snapshot)) == before
    # The child's end does not take the parent's hold away.
    assert _collect_all(index) == (0,)
    assert _answers(snapshot) == before

    def read_then_lose_the_parents_hold() -> bytes:
        first = snapshot.get("d1").text
        os.write(to_parent, b".")
        os.read(from_parent, 1)
        return f"{first}|{snapshot.get('d1').text}".encode()

    from_child, to_parent = os.pipe()
    from_parent, to_child = os.pipe()
    collected: list[tuple[int, ...]] = []
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            sender.send_bytes(read_then_lose_the_parents_hold())
        finally:
            os._exit(0)
    sender.close()
    os.read(from_child, 1)
    snapshot.close()
    collected.append(_collect_all(index))
    os.write(to_child, b".")
    first, second = receiver.recv_bytes().decode().split("|")
    os.waitpid(child, 0)
    assert first == second
    assert collected == [()], "the child held it"
    assert _collect_all(index) == (1,)
    for descriptor in (from_child, to_parent, from_parent, to_child):
        os.close(descriptor)
