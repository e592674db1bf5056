"""Processes that parse and embed for the one writer, and what is done when one of them dies."""

from __future__ import annotations

import pickle
import sys
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, BinaryIO

from sqlindex.cancellation import POLL_S, CancelToken
from sqlindex.child_process import ChildProcess
from sqlindex.errors import SqlindexError, WorkerDiedError
from sqlindex.indexing.crew_member import EMBED, PARSE, UNABLE, read_frame, write_frame
from sqlindex.indexing.inference import Inferred, is_of_a_text
from sqlindex.indexing.prepare import Parsed, Workshop
from sqlindex.ports import Embedder, PortionedEmbedder

PARSES_AHEAD = 32
"""Texts that wait at a worker to be parsed, so that it has work while the writer stores."""

PARSED_CHARS_AHEAD = 4_000_000
"""Past so many characters on their way no other text is handed out."""

_TRIES = 2
"""So many workers may die of the same work."""


@dataclass(slots=True)
class _Task:
    """Work of a worker.

    Attributes:
        what: for messages.
        request: as it is sent.
        chars: of a text to be parsed.
        deaths: workers that died while they had it in hand.
    """

    number: int
    what: str
    request: bytes
    chars: int = 0
    deaths: int = 0


class Crew:
    """Up to `count` processes, started when there is work; they end with the block.

    Each has a pipe to this process and opens no file of the index. One that dies is replaced, and
    what it had in hand is done again by its successor: at most one batch of texts is embedded twice.
    A context manager in one thread; it must not cross a fork.

    Attributes:
        embeds: whether the workers have the embedder; if not, it cannot be pickled.
        parses: whether they have the parsers.
    """

    def __init__(
        self, count: int, workshop: Workshop, embedder: Embedder | None, cancel: CancelToken
    ) -> None:
        self._count = count
        self._cancel = cancel
        self._opening, self.embeds = _packed(workshop, embedder)
        self.parses = self._opening is not None
        self._members: list[_Member] = []
        self._results: SimpleQueue[tuple[_Member, Any]] = SimpleQueue()

    def can_take(self, kind: str) -> bool:
        """Whether a worker has room for another text to parse, or another batch to embed."""
        if len(self._members) < self._count:
            return True
        least = min(len(member.in_hand) for member in self._members)
        if kind == EMBED:
            return least == 0
        chars = sum(task.chars for member in self._members for task in member.in_hand)
        return least == 0 or (least < PARSES_AHEAD and chars < PARSED_CHARS_AHEAD)

    def start(self, number: int, what: str, request: tuple[Any, ...], *, chars: int = 0) -> None:
        """Give work to the worker that has least of it."""
        if len(self._members) < self._count:
            self._members.append(self._new_member())
            member = self._members[-1]
        else:
            member = min(self._members, key=lambda member: len(member.in_hand))
        member.take(_Task(number, what, pickle.dumps(request, pickle.HIGHEST_PROTOCOL), chars))

    def finished(self) -> tuple[int, bool, Any]:
        """Wait for some work to be done: its number, whether it worked, and the value or exception.

        Raises:
            CancelledError: cancelled while waiting.
            WorkerDiedError: two workers have died of the same work, or none can be started.
        """
        while True:
            member, message = self._next_message()
            if message is None:
                self._replace(member)
                continue
            has_worked, value = message
            if has_worked == UNABLE:
                raise WorkerDiedError(
                    f"a worker cannot load what it needs: {value}",
                    hint="let embedder and parsers be of modules that can be imported, or use no workers",
                )
            return member.in_hand.popleft().number, has_worked, value

    def _next_message(self) -> tuple[_Member, Any]:
        while True:
            self._cancel.check()
            with suppress(Empty):
                return self._results.get(timeout=POLL_S)

    def _new_member(self) -> _Member:
        assert self._opening is not None
        return _Member(self._opening, self._results)

    def _replace(self, dead: _Member) -> None:
        """Let a new worker do what a dead one had in hand."""
        how = dead.end()
        if not dead.in_hand:
            self._members.remove(dead)  # another one is started when there is work
            return
        task = dead.in_hand[0]
        task.deaths += 1
        if task.deaths >= _TRIES:
            raise WorkerDiedError(
                f"{task.deaths} workers have died over {task.what}, the last one {how}",
                hint="call again, which goes on behind what is stored; is there memory enough?",
            )
        successor = self._new_member()
        self._members[self._members.index(dead)] = successor
        for task in dead.in_hand:
            successor.take(task)

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self._members:
            member.end()
        self._members = []


class _Member:
    """One process, and the threads that write to it and read from it."""

    def __init__(self, opening: bytes, results: SimpleQueue[tuple[_Member, Any]]) -> None:
        self.in_hand: deque[_Task] = deque()
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        try:
            self._child = ChildProcess("sqlindex.indexing.crew_member")
        except OSError as exc:
            raise WorkerDiedError(
                f"no worker can be started: {exc}", hint="use no workers: all is done here then"
            ) from exc
        for body in (pickle.dumps(sys.path), opening):
            self._requests.put(body)
        for target, arguments in (
            (_write, (self._child.requests, self._requests)),
            (_read, (self._child.answers, weakref.ref(self), results)),
        ):
            threading.Thread(
                target=target, args=arguments, name="sqlindex crew", daemon=True
            ).start()

    def take(self, task: _Task) -> None:
        """Send it some work."""
        self.in_hand.append(task)
        self._requests.put(task.request)

    def end(self) -> str:
        """Kill the process, if it runs, and wait for it; how it has ended, the first time."""
        self._requests.put(None)
        return self._child.end()


def _write(stream: BinaryIO, requests: SimpleQueue[bytes | None]) -> None:
    with suppress(OSError):  # if the process is dead, the reading thread says so
        while (body := requests.get()) is not None:
            write_frame(stream, body)
    with suppress(OSError):
        stream.close()


def _read(
    stream: BinaryIO,
    of_member: weakref.ref[_Member],
    results: SimpleQueue[tuple[_Member, Any]],
) -> None:
    is_first = True
    while True:
        body = read_frame(stream)
        member = of_member()
        if member is None:
            break
        message = None
        with suppress(Exception):  # what cannot be read is as good as a death
            message = None if body is None else pickle.loads(body)
        if message is None or not is_first or message[0] == UNABLE:
            results.put((member, message))
        if message is None:
            break
        is_first = False
        del member
    stream.close()


def _packed(workshop: Workshop, embedder: Embedder | None) -> tuple[bytes | None, bool]:
    """What workers need, pickled, or None; and whether the embedder is part of it.

    What the host's own script defines cannot be imported by another process.
    """
    mine = embedder.for_worker() if isinstance(embedder, PortionedEmbedder) else embedder
    limit = workshop.token_limit
    if limit is not None:
        counter: Any = mine
        # The same object as the embedder, so that a worker loads one model.
        workshop = replace(workshop, token_limit=replace(limit, count_tokens=counter.count_tokens))
    for taken in (mine, None) if mine is not None else (None,):
        try:
            packed = pickle.dumps((workshop, taken), pickle.HIGHEST_PROTOCOL)
        except Exception:  # pickling fails with whatever it meets
            continue
        if b"__main__" not in packed:
            return packed, taken is not None
    return None, False


class CrewHands:
    """Batches embedded by the workers of a crew, one at a time each; implements `Hands`."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    @property
    def is_free(self) -> bool:
        """Whether a worker has nothing to do."""
        return self._crew.can_take(EMBED)

    def start(self, number: int, texts: Sequence[str]) -> None:
        """Begin with a batch."""
        self._crew.start(number, f"the embedding of {len(texts)} texts", (EMBED, list(texts)))

    def finished(self) -> tuple[int, Inferred | Exception]:
        """Wait for a batch; see `Hands`."""
        number, has_worked, value = self._crew.finished()
        if isinstance(value, SqlindexError) and not is_of_a_text(value):
            raise value
        return number, Inferred(*value) if has_worked else value


class CrewParsing:
    """Texts parsed by the workers of a crew; implements `Parsing`."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    @property
    def is_free(self) -> bool:
        """Whether another text can be started."""
        return self._crew.can_take(PARSE)

    def start(self, number: int, document_id: str, type_name: str, text: str) -> None:
        """Begin with a text."""
        request = (PARSE, type_name, text)
        self._crew.start(number, f"the parsing of {document_id!r}", request, chars=len(text))

    def finished(self) -> tuple[int, Parsed | Exception]:
        """Wait for a text; see `Parsing`."""
        number, _, value = self._crew.finished()
        return number, value
