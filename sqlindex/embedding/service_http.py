"""One HTTP exchange with a service, ended at a deadline and bounded in bytes, whatever the service does.

A socket's timeout begins anew with each byte, so a service that sends one a second would never run
into it. Here a second handle of the socket shuts it down when the time is up, or when somebody else
ends the call; both also interrupt a TLS handshake. Nothing is redirected, decompressed or taken from
proxy settings of the environment.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sqlindex.embedding.api_key import ApiKey
from sqlindex.embedding.stopping import SocketHandle, Stop

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse
    from urllib3.connection import HTTPConnection

CONNECT_TIMEOUT_S = 5.0
"""For each address of the host."""

_BLOCK_BYTES = 1 << 16
_MAX_ERROR_BYTES = 1 << 14
_LEFT_OUT = b'{"message": "its words are left out, they repeat the key"}'
_WAIT_HEADERS = ("retry-after-ms", "retry-after")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the service.

    Attributes:
        status: of HTTP.
        body: whole for status 200; else its beginning.
        waits: the headers that say when to ask again, by lower-case name.
    """

    status: int
    body: bytes
    waits: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Broken:
    """No answer; `why` says what came instead, and `is_final` that asking again brings the same."""

    why: str
    is_final: bool = False


class ServiceHttp:
    """Connections to one service, kept open between exchanges. Safe to share between threads."""

    def __init__(self, url: str, *, read_timeout_s: float) -> None:
        parts = urlsplit(url)
        self._is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._path = parts.path
        self._read_timeout_s = read_timeout_s
        self._lock = threading.Lock()
        self._idle: list[tuple[HTTPConnection, SocketHandle]] = []
        self._is_closed = False
        self._tls: ssl.SSLContext | None = None

    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        key: ApiKey | None,
        max_bytes: int,
        ends_at: float,
        stop: Stop,
    ) -> Reply | Broken:
        """Send one request and read its answer.

        Nothing is raised for what the network or the service does, so that no traceback leads to a
        frame with the key.

        Args:
            path: appended to the service's address.
            max_bytes: of the body; a longer one is not read.
            ends_at: on the monotonic clock.
        """
        from urllib3.exceptions import HTTPError

        late = threading.Event()
        try:
            outcome = self._exchange(method, path, body, key, max_bytes, ends_at, stop, late)
            return outcome if key is None else _without(key, outcome)
        except (HTTPError, HTTPException, OSError, ValueError) as exc:
            why = "no whole answer in time" if late.is_set() else _words(exc)
        return Broken("the exchange broke" if key is not None and key.is_in(why) else why)

    def close(self) -> None:
        """Close the connections that nobody uses; one in use is closed when its exchange ends."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection, handle in idle:
            _close(connection, handle)

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        key: ApiKey | None,
        max_bytes: int,
        ends_at: float,
        stop: Stop,
        late: threading.Event,
    ) -> Reply | Broken:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        headers["User-Agent"] = "sqlindex"
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Authorization"] = key.authorization()
        connection, handle = self._connection()
        is_whole = False

        def end() -> None:
            late.set()
            handle.shut()

        timer = threading.Timer(max(0.0, ends_at - time.monotonic()), end)
        timer.daemon = True
        timer.start()
        try:
            with stop.ends(handle):
                if not connection.is_connected:
                    connection.timeout = min(
                        CONNECT_TIMEOUT_S, max(0.01, ends_at - time.monotonic())
                    )
                    connection.connect()
                connection.timeout = self._read_timeout_s
                if connection.sock is not None:
                    connection.sock.settimeout(self._read_timeout_s)
                connection.request(method, self._path + path, body, headers, preload_content=False)
                response = connection.getresponse()
                answer = _read(response, max_bytes)
                if late.is_set():  # a body without a length ends wherever the socket does
                    raise TimeoutError
                is_whole = isinstance(answer, Reply) and answer.status == 200
                return answer
        finally:
            timer.cancel()
            self._give_back(connection, handle, is_reusable=is_whole and not late.is_set())

    def _connection(self) -> tuple[HTTPConnection, SocketHandle]:
        while True:
            with self._lock:
                found = self._idle.pop() if self._idle else None
            if found is None:
                return self._new_connection()
            if found[0].is_connected:
                return found
            _close(*found)

    def _new_connection(self) -> tuple[HTTPConnection, SocketHandle]:
        from urllib3.connection import HTTPConnection, HTTPSConnection

        handle = SocketHandle()

        class Plain(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                return handle.of(super()._new_conn())

        class Tls(HTTPSConnection):
            def _new_conn(self) -> socket.socket:
                return handle.of(super()._new_conn())

        if not self._is_tls:
            return Plain(self._host, self._port), handle
        with self._lock:
            if self._tls is None:
                self._tls = ssl.create_default_context()
        return Tls(self._host, self._port, ssl_context=self._tls), handle

    def _give_back(
        self, connection: HTTPConnection, handle: SocketHandle, *, is_reusable: bool
    ) -> None:
        # After an answer that was not read to its end the connection holds the rest of it.
        if is_reusable and connection.is_connected:
            with self._lock:
                if not self._is_closed:
                    self._idle.append((connection, handle))
                    return
        _close(connection, handle)


def _read(response: BaseHTTPResponse, max_bytes: int) -> Reply | Broken:
    """The answer with its body, unless that is longer than it can be."""
    waits = {name: response.headers[name] for name in _WAIT_HEADERS if name in response.headers}
    if response.status != 200:
        return Reply(response.status, _read_up_to(response, _MAX_ERROR_BYTES), waits)
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity":
        return Broken("a compressed body, which was not asked for", is_final=True)
    too_long = Broken(f"a body of more than {max_bytes:,} bytes", is_final=True)
    length = response.headers.get("Content-Length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > max_bytes):
        return too_long
    body = _read_up_to(response, max_bytes + 1)
    return too_long if len(body) > max_bytes else Reply(200, body, waits)


def _read_up_to(response: BaseHTTPResponse, most: int) -> bytes:
    blocks, missing = [], most
    while missing > 0:
        block = response.read(min(missing, _BLOCK_BYTES), decode_content=False)
        if not block:
            break
        blocks.append(block)
        missing -= len(block)
    return b"".join(blocks)


def _without(key: ApiKey, outcome: Reply | Broken) -> Reply | Broken:
    """The same without the key, if the service repeats it: nobody behind this sees what it said."""
    if isinstance(outcome, Broken):
        return outcome
    waits = outcome.waits
    if any(key.is_in(value) for value in waits.values()):
        waits = {}
    body = outcome.body
    if outcome.status == 200:
        if key.is_whole_in(body):
            return Broken("a body that repeats the key", is_final=True)
    elif key.is_in(body.decode("latin-1")):
        body = _LEFT_OUT
    return Reply(outcome.status, body, waits)


def _close(connection: HTTPConnection, handle: SocketHandle) -> None:
    connection.close()
    handle.close()


def _words(exc: Exception) -> str:
    """What an exception says, in one line."""
    text = " ".join(str(exc).split())
    return f"{type(exc).__name__}: {text[:200]}" if text else type(exc).__name__
