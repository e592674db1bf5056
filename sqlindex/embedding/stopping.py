"""Ending exchanges from another thread: a second handle of each socket, and what shuts them all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SocketHandle:
    """A second handle of a connection's socket, with which any thread can end it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_shut = False

    def of(self, made: socket.socket) -> socket.socket:
        """The same socket, of which this is a handle from now on."""
        with self._lock:
            self._socket = made.dup()
            is_shut = self._is_shut
        if is_shut:
            self.shut()
        return made

    def shut(self) -> None:
        """End what is sent and received, now or as soon as there is a socket."""
        with self._lock:
            self._is_shut = True
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:  # the other side was first
                    return

    def close(self) -> None:
        """Give the handle back; the socket itself is its owner's to close."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None


class Stop:
    """Ends all exchanges of a call: those that wait, run or begin later."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._handles: set[SocketHandle] = set()

    @property
    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._event.is_set()

    def set(self) -> None:
        """End the exchanges; returns at once."""
        self._event.set()
        with self._lock:
            handles = list(self._handles)
        for handle in handles:
            handle.shut()

    def wait(self, seconds: float) -> bool:
        """Sleep, or True as soon as `set` is called."""
        return self._event.wait(seconds)

    @contextmanager
    def ends(self, handle: SocketHandle) -> Iterator[None]:
        """Shut a handle if `set` is called in the block, or was before."""
        with self._lock:
            self._handles.add(handle)
        if self._event.is_set():
            handle.shut()
        try:
            yield
        finally:
            with self._lock:
                self._handles.discard(handle)
