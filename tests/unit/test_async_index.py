"""`AsyncIndex`: the whole of `Index` as coroutines that block nothing and can be cancelled."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from sqlindex import AsyncIndex, CancelToken, Document, Index, Progress, RefreshReport, SearchResult
from sqlindex.async_index import Opening
from sqlindex.errors import CancelledError, NoIndexError, StorageError
from sqlindex.testing import HashingEmbedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DOCUMENTS = [Document(f"d{n}", f"The pump number {n} is hot.") for n in range(40)]
PUBLIC = sorted(name for name in vars(Index) if not name.startswith("_"))


class Gated(HashingEmbedder):
    """Its calls wait at a gate that is open at first."""

    def __init__(self) -> None:
        super().__init__(16)
        self.gate = threading.Event()
        self.gate.set()
        self.has_come = threading.Event()

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.has_come.set()
        assert self.gate.wait(60)
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        self.has_come.set()
        assert self.gate.wait(60)
        return super().embed_query(text)

    def shut(self) -> None:
        self.gate.clear()
        self.has_come.clear()

    async def someone_waits(self) -> None:
        while not self.has_come.is_set():
            await asyncio.sleep(0.005)


@pytest.fixture
def embedder() -> Iterator[Gated]:
    made = Gated()
    yield made
    made.gate.set()


@pytest.fixture
def db(tmp_path: Path, embedder: Gated) -> Path:
    path = tmp_path / "index.db"
    with Index.open(path, create=True, embedder=embedder) as index:
        index.upsert("notes", DOCUMENTS)
    return path


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 30))


def test_every_public_method_of_the_index_is_here_with_its_signature_and_docs() -> None:
    missing = [name for name in PUBLIC if name not in vars(AsyncIndex)]
    lines = "\n".join(f"    {name} = _coroutine(Index.{name})" for name in missing)
    assert not missing, f"add to AsyncIndex in sqlindex/async_index.py:\n{lines}"
    more = [name for name in vars(AsyncIndex) if not name.startswith("_") and name not in PUBLIC]
    assert more == []
    for name in PUBLIC:
        ours, theirs = getattr(AsyncIndex, name), getattr(Index, name)
        if name == "path":
            assert (type(ours), ours.__doc__) == (type(theirs), theirs.__doc__)
            continue
        assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters, name
        if name == "open":
            assert ours.__doc__ == theirs.__doc__
            continue
        assert inspect.iscoroutinefunction(ours), name
        assert ours.__doc__ == theirs.__doc__ or name == "close"


def test_an_index_is_opened_with_and_without_await(db: Path, embedder: Gated) -> None:
    async def main() -> None:
        async with AsyncIndex.open(db, embedder=embedder) as index:
            result = await index.search("pump", limit=3)
            assert_type(result, SearchResult)
            assert len(result.hits) == 3
        async with await AsyncIndex.open(db) as index:
            report = await index.refresh(drop_vectors=True)
            assert_type(report, RefreshReport)
            assert index.path == db
            assert (await index.status()).documents == len(DOCUMENTS)
            assert await index.check() == []
        with pytest.raises(NoIndexError):
            await AsyncIndex.open(db.parent / "nothing.db")

    run(main())


@pytest.mark.req("A-24")
def test_searches_run_in_parallel_and_beside_a_refresh_and_the_loop_goes_on(
    db: Path, embedder: Gated
) -> None:
    together = threading.Barrier(4)
    inner = embedder.embed_query

    def embed_query(text: str) -> npt.NDArray[np.float32]:
        together.wait(20)
        return inner(text)

    async def main() -> None:
        async with AsyncIndex.open(db, embedder=embedder) as index:
            embedder.shut()
            refresh = asyncio.create_task(index.upsert("notes", [Document("new", "A valve.")]))
            await embedder.someone_waits()
            lexical = await index.search("pump", mode="lexical")
            assert lexical.generation == 1
            assert not refresh.done()
            embedder.gate.set()
            assert (await refresh).generation == 2
            embedder.embed_query = embed_query  # type: ignore[method-assign]  # all come or none passes
            results = await asyncio.gather(*(index.search("pump") for _ in range(4)))
            assert {result.mode for result in results} == {"hybrid"}

    run(main())


@pytest.mark.req("A-14", "A-24")
@pytest.mark.parametrize("work", ["upsert", "search"])
def test_a_cancelled_task_ends_at_once_and_its_work_soon(
    work: str, db: Path, embedder: Gated
) -> None:
    async def main() -> None:
        async with AsyncIndex.open(db, embedder=embedder) as index:
            embedder.shut()
            call: Coroutine[Any, Any, object] = (
                index.search("pump")
                if work == "search"
                else index.upsert("notes", [Document("new", "A valve.")])
            )
            task = asyncio.create_task(call)
            await embedder.someone_waits()
            since = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - since < 0.5
            # Its work has let the writer's lock go: the next write does not wait for the embedder.
            report = await index.remove("notes", ["d0"], wait_s=2)
            assert report.generation == 2
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await index.search("pump", mode="semantic")
        assert time.monotonic() - since < 4  # closing waited for no embedder either

    run(main())


@pytest.mark.req("A-24")
def test_the_hosts_own_token_cancels_too_and_is_left_alone_by_a_cancelled_task(
    db: Path, embedder: Gated
) -> None:
    async def main() -> None:
        async with AsyncIndex.open(db, embedder=embedder) as index:
            token = CancelToken()
            embedder.shut()
            task = asyncio.create_task(index.search("pump", cancel=token))
            await embedder.someone_waits()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not token.is_cancelled
            embedder.shut()
            task = asyncio.create_task(index.search("pump", cancel=token))
            await embedder.someone_waits()
            token.cancel()
            with pytest.raises(CancelledError):
                await task

    run(main())


@pytest.mark.req("A-14")
def test_progress_is_told_in_the_loops_thread_in_order_before_the_end(
    db: Path, embedder: Gated
) -> None:
    async def main() -> None:
        loop_thread = threading.current_thread()
        seen: list[Progress] = []
        steps: list[str] = []

        def told(progress: Progress) -> None:
            assert threading.current_thread() is loop_thread
            seen.append(progress)

        async with AsyncIndex.open(db, embedder=embedder) as index:
            more = [Document(f"more{n}", f"A valve {n}.") for n in range(100)]
            await index.upsert("notes", more, progress=told)
            assert seen[-1] == Progress("publish", 1, 1)
            assert [p.done for p in seen if p.phase == "embed"] == [0, 32, 64, 96, 100]
            await index.check(step=steps.append)
            assert steps[0] == "the database file is well-formed"

    run(main())


@pytest.mark.req("A-14")
def test_closing_waits_for_what_runs_and_refuses_what_comes(db: Path, embedder: Gated) -> None:
    async def main() -> None:
        index = await AsyncIndex.open(db, embedder=embedder)
        embedder.shut()
        write = asyncio.create_task(index.upsert("notes", [Document("new", "A valve.")]))
        await embedder.someone_waits()
        closing = asyncio.create_task(index.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        with pytest.raises(StorageError, match="was closed"):
            await index.search("pump")
        embedder.gate.set()
        await closing
        assert (await write).generation == 2
        await index.close()

    run(main())
    assert [t.name for t in threading.enumerate() if t.name.startswith("sqlindex")] == []


def test_an_index_whose_opening_is_cancelled_is_closed(db: Path) -> None:
    opened: list[Index] = []
    may_open = threading.Event()

    def slow() -> Index:
        assert may_open.wait(10)
        opened.append(Index.open(db))
        return opened[0]

    async def main() -> None:
        async def open_it() -> None:
            await Opening(slow)

        task = asyncio.create_task(open_it())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_open.set()
        while not opened:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        with pytest.raises(StorageError, match="was closed"):
            opened[0].status()

    run(main())


def test_context_variables_reach_the_embedder(db: Path, embedder: Gated) -> None:
    request = ContextVar("request", default="none")
    seen: list[str] = []
    inner = embedder.embed_query

    def embed_query(text: str) -> npt.NDArray[np.float32]:
        seen.append(request.get())
        return inner(text)

    embedder.embed_query = embed_query  # type: ignore[method-assign]  # a host's instrumented one

    async def main() -> None:
        async with AsyncIndex.open(db, embedder=embedder) as index:
            request.set("42")
            await index.search("pump")

    run(main())
    assert seen == ["42"]
