"""`Index` for asyncio: the same methods as coroutines, each run in a thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlindex.cancellation import CancelToken
from sqlindex.errors import StorageError
from sqlindex.index import Index
from sqlindex.model.history import ListedDocument

_P = ParamSpec("_P")
_T = TypeVar("_T")

THREADS = 16
"""Calls of one index that run at the same time; more of them wait for their turn."""

_CALLBACKS = ("progress", "step")
"""Arguments that are called while the work goes on."""


def _coroutine(
    method: Callable[Concatenate[Index, _P], _T],
) -> Callable[Concatenate[AsyncIndex, _P], Coroutine[Any, Any, _T]]:
    """The method of `AsyncIndex` that runs this one of `Index`, with its signature and docstring."""
    is_cancellable = "cancel" in inspect.signature(method).parameters

    @wraps(method)
    async def call(self: AsyncIndex, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._run(method, args, kwargs, is_cancellable=is_cancellable)

    return call


def _opening(open_index: Callable[_P, Index]) -> Callable[_P, Opening]:
    """`AsyncIndex.open`, with the signature and docstring of `Index.open`."""

    @wraps(open_index)
    def open_async(*args: _P.args, **kwargs: _P.kwargs) -> Opening:
        return Opening(partial(open_index, *args, **kwargs))

    return open_async


@wraps(Index.documents)
def _all_documents(
    index: Index, at: int | str | None = None, *, source: str | None = None
) -> Iterator[ListedDocument]:
    return iter(list(index.documents(at, source=source)))  # all of it in the thread


class AsyncIndex:
    """`Index` for asyncio: open it with `async with AsyncIndex.open(path) as index`.

    Every method of `Index` is a coroutine here, with the same arguments, results and errors. It runs
    in a thread of this object, so the loop is never blocked, and searches run in parallel and beside
    a refresh. A cancelled task (`Task.cancel`, `asyncio.timeout`) gets its `CancelledError` of
    asyncio at once; the work is cancelled like by a token and winds down in its thread.

    `progress` and `step` are called in the loop's thread, in order and before the method returns, and
    not after a cancel; an exception of theirs goes to the loop's exception handler. Iterables that
    are handed in, sources and embedders are called in the threads.

    It belongs to the loop that opened it, and does not cross a fork.
    """

    def __init__(self, index: Index, threads: ThreadPoolExecutor) -> None:
        self._index = index
        self._threads = threads
        self._is_closed = False

    open = staticmethod(_opening(Index.open))

    @property
    def path(self) -> Path:
        """The index file."""
        return self._index.path

    async def close(self) -> None:
        """Wait for the calls that run, then close the file, and the model if the index loaded it.

        Later calls fail; closing twice is fine.
        """
        self._is_closed = True
        await asyncio.to_thread(self._close)

    async def __aenter__(self) -> AsyncIndex:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # A public method of `Index` is one line here; a test names those that are missing.

    add_source = _coroutine(Index.add_source)
    add_table = _coroutine(Index.add_table)
    remove_source = _coroutine(Index.remove_source)
    move_source = _coroutine(Index.move_source)
    set_embedder = _coroutine(Index.set_embedder)
    service = _coroutine(Index.service)
    set_chunks = _coroutine(Index.set_chunks)
    refresh = _coroutine(Index.refresh)
    plan = _coroutine(Index.plan)
    reindex = _coroutine(Index.reindex)
    publish = _coroutine(Index.publish)
    discard = _coroutine(Index.discard)
    upsert = _coroutine(Index.upsert)
    remove = _coroutine(Index.remove)
    rollback = _coroutine(Index.rollback)
    collect = _coroutine(Index.collect)
    retention = _coroutine(Index.retention)
    search = _coroutine(Index.search)
    get = _coroutine(Index.get)
    chunks = _coroutine(Index.chunks)
    links = _coroutine(Index.links)
    backlinks = _coroutine(Index.backlinks)
    get_chunk = _coroutine(Index.get_chunk)
    questions = _coroutine(Index.questions)
    add_question = _coroutine(Index.add_question)
    remove_questions = _coroutine(Index.remove_questions)
    import_questions = _coroutine(Index.import_questions)
    status = _coroutine(Index.status)
    unreachable = _coroutine(Index.unreachable)
    file_status = _coroutine(Index.file_status)
    refused = _coroutine(Index.refused)
    check = _coroutine(Index.check)
    history = _coroutine(Index.history)
    tag = _coroutine(Index.tag)
    untag = _coroutine(Index.untag)
    tags = _coroutine(Index.tags)
    diff = _coroutine(Index.diff)
    documents = _coroutine(_all_documents)
    snapshot = _coroutine(Index.snapshot)
    backup = _coroutine(Index.backup)
    import_vectors = _coroutine(Index.import_vectors)
    export_vectors = _coroutine(Index.export_vectors)
    compact = _coroutine(Index.compact)
    purge = _coroutine(Index.purge)
    repair = _coroutine(Index.repair)
    salvage = _coroutine(Index.salvage)
    condition = _coroutine(Index.condition)
    language_signs = _coroutine(Index.language_signs)

    async def _run(
        self,
        method: Callable[..., _T],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        is_cancellable: bool,
    ) -> _T:
        if self._is_closed:
            raise StorageError(f"index {self.path} was closed", hint="open it again")
        loop = asyncio.get_running_loop()
        token = CancelToken(kwargs.get("cancel"))
        given = dict(kwargs)
        if is_cancellable:
            given["cancel"] = token
        for name in _CALLBACKS:
            if given.get(name) is not None:
                given[name] = _on_loop(loop, given[name], token)
        work = partial(copy_context().run, method, self._index, *args, **given)
        try:
            return await asyncio.wrap_future(self._threads.submit(work), loop=loop)
        except asyncio.CancelledError:
            token.cancel()
            raise

    def _close(self) -> None:
        self._threads.shutdown(wait=True)
        self._index.close()


class Opening:
    """An index that is being opened: await it, or use it with `async with`."""

    def __init__(self, open_index: Callable[[], Index]) -> None:
        self._open_index = open_index
        self._opened: AsyncIndex | None = None

    def __await__(self) -> Generator[Any, None, AsyncIndex]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncIndex:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._opened is not None
        await self._opened.close()

    async def _open(self) -> AsyncIndex:
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sqlindex")
        opened = threads.submit(self._open_index)
        try:
            return AsyncIndex(await asyncio.wrap_future(opened), threads)
        except BaseException:
            # Cancelled while it was being opened: nobody else will close it.
            opened.add_done_callback(_close_opened)
            threads.shutdown(wait=False)
            raise


def _close_opened(opened: Future[Index]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()


def _on_loop(
    loop: asyncio.AbstractEventLoop, callback: Callable[[Any], object], token: CancelToken
) -> Callable[[Any], None]:
    """A callback that may be called in any thread and runs in the loop's."""

    def run(argument: Any) -> None:
        if not token.is_cancelled:
            callback(argument)

    def schedule(argument: Any) -> None:
        loop.call_soon_threadsafe(run, argument)

    return schedule
