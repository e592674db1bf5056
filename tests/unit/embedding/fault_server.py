"""An embedding service on the loopback address: real HTTP, with faults on request."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sqlindex.testing import HashingEmbedder

MODEL = "tiny"
DIMENSIONS = 16

_BOMB = gzip.compress(b" " * (16 << 20), 1)

Fault = Callable[["Handler", "Service", dict[str, Any]], None]
"""Answers a request for vectors in place of the service."""


@dataclass
class Service:
    """What the server does and what it was asked.

    Attributes:
        revision: reported in the list of models; '' for a plain service without extensions.
        reply_revision: reported in replies; None for `revision`.
        entry: more of the model's entry, beside its id.
        has_list: whether `/models` is there.
        closes: whether it closes the connection behind each reply, without saying so.
        knows_base64: whether it heeds `encoding_format`; `refuses_format` answers 400 to it.
        answers_as: the model's name in replies.
        key: asked for, if not ''.
        faults: the next requests for vectors are answered by these, one each.
        at_text: a fault for every request with a text that contains the key of the mapping.
        requests: bodies of the requests for vectors, in order; `lists` counts those for models.
        headers: of all requests, in order.
        most_at_once: requests for vectors that were answered at the same time.
    """

    revision: str = "r1"
    reply_revision: str | None = None
    entry: dict[str, Any] = field(default_factory=dict)
    has_list: bool = True
    closes: bool = False
    knows_base64: bool = True
    refuses_format: bool = False
    answers_as: str = MODEL
    key: str = ""
    delay_s: float = 0.0
    faults: list[Fault] = field(default_factory=list)
    at_text: dict[str, Fault] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    lists: int = 0
    connections: int = 0
    most_at_once: int = 0
    url: str = ""
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    running: int = 0

    @property
    def texts(self) -> list[str]:
        """All texts that were asked for, the one that tells the width left out."""
        return [t for request in self.requests for t in request["input"] if t != "dimensions"]


class Handler(BaseHTTPRequestHandler):
    """Answers for a `Service`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    service: Service

    def setup(self) -> None:
        super().setup()
        self.service.connections += 1

    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle(self) -> None:
        with suppress(ConnectionError, ValueError):  # a client may leave at any time
            super().handle()

    def finish(self) -> None:
        with suppress(ConnectionError, ValueError):
            super().finish()

    def do_GET(self) -> None:
        service = self.service
        service.headers.append(dict(self.headers))
        service.lists += 1
        if not service.has_list:
            self.refuse(404, "no such page")
            return
        if service.key and self.headers.get("Authorization") != f"Bearer {service.key}":
            self.refuse(401, "wrong key")
            return
        entry: dict[str, Any] = {"id": MODEL, "object": "model", **service.entry}
        if service.revision:
            own = {"revision": service.revision, **service.entry.get("embedding", {})}
            entry["embedding"] = own
        self.answer(200, {"object": "list", "data": [{"id": "other"}, entry]})

    def do_POST(self) -> None:
        service = self.service
        service.headers.append(dict(self.headers))
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with service.lock:
            service.requests.append(asked)
            service.running += 1
            service.most_at_once = max(service.most_at_once, service.running)
            fault = service.faults.pop(0) if service.faults else None
        for part, given in service.at_text.items():
            if any(part in text for text in asked["input"]):
                fault = given
        time.sleep(service.delay_s)
        try:
            if service.key and self.headers.get("Authorization") != f"Bearer {service.key}":
                self.refuse(401, "wrong key")
            elif service.refuses_format and "encoding_format" in asked:
                self.refuse(400, "unknown field encoding_format")
            elif fault is not None:
                fault(self, service, asked)
            else:
                self.answer(200, reply(service, asked))
        finally:
            with service.lock:
                service.running -= 1

    def refuse(self, status: int, message: str, **headers: str) -> None:
        self.answer(status, {"error": {"message": message}}, **headers)

    def answer(self, status: int, body: object, **headers: str) -> None:
        self.send(status, json.dumps(body).encode(), **headers)

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", headers.pop("length", str(len(body))))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.close_connection or self.service.closes


def reply(service: Service, asked: dict[str, Any]) -> dict[str, Any]:
    """What a service without faults answers."""
    vectors = HashingEmbedder(asked.get("dimensions", DIMENSIONS)).embed_documents(asked["input"])
    is_base64 = asked.get("encoding_format") == "base64" and service.knows_base64
    data = [
        {
            "object": "embedding",
            "index": at,
            "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()
            if is_base64
            else [float(part) for part in vector],
        }
        for at, vector in enumerate(vectors)
    ]
    answer: dict[str, Any] = {"object": "list", "data": data, "model": service.answers_as}
    revision = service.revision if service.reply_revision is None else service.reply_revision
    if revision:
        answer["embedding"] = {"revision": revision}
    return answer


def status(code: int, message: str = "no", **headers: str) -> Fault:
    """Refuses with a status."""
    return lambda handler, service, asked: handler.refuse(code, message, **headers)


def changed(change: Callable[[dict[str, Any]], object]) -> Fault:
    """Answers with a reply that `change` has spoilt in place."""

    def fault(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
        body = reply(service, {**asked, "encoding_format": "float"})
        change(body)
        handler.answer(200, body)

    return fault


def raw(body: bytes, **headers: str) -> Fault:
    """Answers 200 with these bytes."""
    return lambda handler, service, asked: handler.send(200, body, **headers)


def reset(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
    """Resets the connection."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    # The files hold the socket, too; shut down here it is not sent a proper end.
    handler.close_connection = True
    handler.rfile.close()
    handler.connection.close()


def half(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
    """Half a body, then the end."""
    body = json.dumps(reply(service, asked)).encode()
    handler.send(200, body[: len(body) // 2], length=str(len(body)))
    handler.close_connection = True


def silent(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
    """Never answers."""
    service.stopped.wait(30)
    handler.close_connection = True


def drip(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
    """A byte every now and then, for much longer than anybody waits; each in time for itself."""
    body = json.dumps(reply(service, asked)).encode()
    handler.send(200, b"", length=str(len(body)))
    _drip(handler, service, body)


def drip_headers(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
    """The same before the body begins."""
    _drip(handler, service, b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000)


def _drip(handler: Handler, service: Service, body: bytes) -> None:
    handler.close_connection = True
    with suppress(OSError):
        for byte in body:
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            if service.stopped.wait(0.05):
                return


def huge(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
    """A body of a gigabyte, announced."""
    handler.close_connection = True
    handler.send(200, b"{", length=str(1 << 30))


def huge_unannounced(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
    """A body of a gigabyte, without its length; counts in `service.entry` how much of it went out."""
    handler.close_connection = True
    handler.send_response(200)
    handler.end_headers()
    sent = 0
    with suppress(OSError):
        while sent < 1 << 30:
            handler.wfile.write(b" " * (1 << 20))
            sent += 1 << 20
    service.entry["sent"] = sent


def gzip_bomb(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
    """A small body that would be 16 MB."""
    handler.send(200, _BOMB, Content_Encoding="gzip")


def echo(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
    """Repeats the request's header in its refusal, as debug pages do."""
    handler.refuse(400, f"bad header {handler.headers.get('Authorization')}")


def redirect(target: str) -> Fault:
    """Leads to another address."""
    return lambda handler, service, asked: handler.send(307, b"", Location=target)


@contextmanager
def running_service(*, tls: ssl.SSLContext | None = None, **settings: Any) -> Iterator[Service]:
    """Serve until the block ends; over TLS with a context that holds a certificate of localhost."""
    service = Service(**settings)
    handler = type("OneHandler", (Handler,), {"service": service})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_port}/v1"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        service.url = f"https://localhost:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        service.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
