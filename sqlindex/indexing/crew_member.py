"""A worker's process: parses texts and embeds batches until its pipe closes.

It opens no index. What it is asked for and what it answers are pickles behind eight bytes of length;
both ends are this program. When the other end is gone, also killed, it ends at once, whatever it
is doing.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlindex.indexing.prepare import Workshop
    from sqlindex.ports import Embedder

READY = "ready"
UNABLE = "unable"
PARSE = "parse"
EMBED = "embed"

_LENGTH_BYTES = 8

_NICENESS = 10
"""Searches, and the process that stores what comes of the work, go first."""


def write_frame(stream: IO[bytes], body: bytes) -> None:
    """Send one message at once."""
    stream.write(len(body).to_bytes(_LENGTH_BYTES, "big"))
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next message; None if the stream has ended, also inside of one."""
    head = stream.read(_LENGTH_BYTES)
    size = int.from_bytes(head, "big")
    body = stream.read(size) if len(head) == _LENGTH_BYTES else b""
    return body if len(head) == _LENGTH_BYTES and len(body) == size else None


def main() -> None:
    """Serve the process at the other end of stdin and stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the other end that ends this process
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    # What an embedder prints must not get between the messages.
    replies = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    inbox: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests, inbox), daemon=True).start()
    try:
        sys.path[:] = pickle.loads(inbox.get())
        workshop, embedder = pickle.loads(inbox.get())
    except Exception as exc:  # unpickling fails with whatever it meets
        write_frame(replies, pickle.dumps((UNABLE, f"{type(exc).__name__}: {exc}")))
        return
    write_frame(replies, pickle.dumps((READY, None)))
    while True:
        kind, *arguments = pickle.loads(inbox.get())
        write_frame(replies, _answer(workshop, embedder, kind, arguments))


def _listen(requests: IO[bytes], inbox: SimpleQueue[bytes]) -> None:
    while (body := read_frame(requests)) is not None:
        inbox.put(body)
    os._exit(0)


def _answer(workshop: Workshop, embedder: Embedder | None, kind: str, arguments: Any) -> bytes:
    """The pickled outcome: (True, value), or (False, the exception)."""
    try:
        if kind == PARSE:
            return pickle.dumps((True, workshop.parsed(*arguments)), pickle.HIGHEST_PROTOCOL)
        from sqlindex.indexing.inference import infer

        assert embedder is not None
        vectors, over_long = infer(embedder, *arguments)
        answer = vectors, over_long, embedder.identity, embedder.dimensions
        return pickle.dumps((True, answer), pickle.HIGHEST_PROTOCOL)
    except Exception as exc:  # a parser or an embedder may raise anything
        return _pickled_error(exc)


def _pickled_error(exc: Exception) -> bytes:
    try:
        pickled = pickle.dumps((False, exc))
        pickle.loads(pickled)
    except Exception:  # of a kind that cannot be pickled
        return pickle.dumps((False, RuntimeError(f"{type(exc).__name__}: {exc}")))
    return pickled
