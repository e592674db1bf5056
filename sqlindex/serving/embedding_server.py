"""A local server with the embeddings API that OpenAI's clients speak, over an embedder.

It listens on the loopback interface only. Requests that a web page could make a browser send (another
`Host`, a content type that needs no consent) are refused.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from sqlindex.errors import SqlindexError, StorageError, UsageError
from sqlindex.ports import Embedder, TokenLimited
from sqlindex.serving.embedding_request import (
    Budgets,
    EmbeddingRequest,
    RequestError,
    parse_request,
    require_tokens,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

IDLE_S = 30.0
"""How long a connection may be silent, also in the middle of a request."""
MAX_CONNECTIONS = 64
_RETRY_AFTER_S = 1


class EmbeddingServer:
    """Serves an embedder at `http://HOST:PORT/v1` until it is stopped; a context manager.

    `GET /health`, `GET /v1/models` and `POST /v1/embeddings`. An input over the model's limit is
    answered with 422, never cut. The embedder stays the caller's.
    """

    def __init__(
        self,
        embedder: Embedder,
        model: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        key: str | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        """Bind the address; nothing is answered before `start`.

        Args:
            embedder: called from several threads at a time.
            model: the name that requests must ask for.
            host: an address of the loopback interface.
            port: 0 for a free one.
            key: if given, requests must bring it as a bearer token.
            budgets: the most that one request may hold.

        Raises:
            UsageError: the host is not on the loopback interface.
            StorageError: the port is taken.
        """
        _require_loopback(host)
        self._service = _Service(embedder, model, key, budgets or Budgets())
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._server = _Server((host, port), self._service, family)
        except OSError as exc:
            raise StorageError(
                f"cannot listen on {host} port {port}: {exc.strerror}", hint="choose another --port"
            ) from exc
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="sqlindex-serve", daemon=True
        )

    @property
    def url(self) -> str:
        """What a client gets as its base URL."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/v1"

    def __enter__(self) -> EmbeddingServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Answer requests, in threads of its own."""
        self._thread.start()

    def stop(self, patience_s: float = 0.8) -> None:
        """Take no more requests, let those under way end for so long, then close all connections."""
        self._service.is_stopping = True
        if self._thread.is_alive():
            self._server.shutdown()
        deadline = time.monotonic() + patience_s
        with self._service.state:
            self._service.state.wait_for(lambda: not self._service.running, patience_s)
        self._server.close_connections(min(0.1, max(0.0, deadline - time.monotonic())))
        self._server.server_close()


class _Service:
    """What the handlers of all connections share."""

    def __init__(self, embedder: Embedder, model: str, key: str | None, budgets: Budgets) -> None:
        self.embedder = embedder
        self.model = model
        self.key = key
        self.budgets = budgets
        self.is_stopping = False
        self.running = 0
        self.state = threading.Condition()
        self._started = int(time.time())

    @property
    def revision(self) -> str:
        """All that shapes a vector, in a form that clients can put into an identity of their own."""
        return self.embedder.identity.replace("|", ", ")

    def models(self) -> dict[str, object]:
        """The answer to `GET /v1/models`; what is under `embedding` is an extension."""
        embedder = self.embedder
        limit = embedder.token_limit if isinstance(embedder, TokenLimited) else None
        described = {
            "revision": self.revision,
            "dimensions": embedder.dimensions,
            "max_inputs": self.budgets.inputs,
            "max_input_tokens": limit,
            "max_batch_tokens": self.budgets.batch_tokens,
            "truncation": False,
        }
        model = {
            "id": self.model,
            "object": "model",
            "created": self._started,
            "owned_by": "sqlindex",
            "embedding": described,
        }
        return {"object": "list", "data": [model]}

    def embeddings(self, body: bytes) -> dict[str, object]:
        """The answer to `POST /v1/embeddings`.

        Raises:
            RequestError: the request cannot be answered.
        """
        embedder = self.embedder
        asked = parse_request(
            body, model=self.model, dimensions=embedder.dimensions, budgets=self.budgets
        )
        tokens = 0
        if isinstance(embedder, TokenLimited):
            counts = embedder.count_tokens(asked.texts)
            require_tokens(counts, embedder.token_limit, self.budgets)
            tokens = sum(counts)
        return {
            "object": "list",
            "model": self.model,
            "embedding": {"revision": self.revision},
            "data": [
                {"object": "embedding", "index": index, "embedding": _written(vector, asked)}
                for index, vector in enumerate(self._vectors(asked))
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def _vectors(self, asked: EmbeddingRequest) -> list[npt.NDArray[np.float32]]:
        if asked.input_type == "query":
            return [self.embedder.embed_query(text) for text in asked.texts]
        return list(self.embedder.embed_documents(asked.texts))


def _written(vector: npt.NDArray[np.float32], asked: EmbeddingRequest) -> object:
    if asked.is_base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return vector.tolist()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(
        self, address: tuple[str, int], service: _Service, family: socket.AddressFamily
    ) -> None:
        self.address_family = family
        self.service = service
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            is_full = len(self._open) >= MAX_CONNECTIONS
            if not is_full:
                self._open.add(request)
        if is_full:
            _refuse_connection(request)
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no fault of the server."""

    def close_connections(self, patience_s: float) -> None:
        """Take nothing more, let replies that are being written end, then close what is open."""
        deadline = time.monotonic() + patience_s
        self._shut(socket.SHUT_RD)
        while self._open and time.monotonic() < deadline:
            time.sleep(0.01)
        self._shut(socket.SHUT_RDWR)

    def _shut(self, how: int) -> None:
        with self._guard:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(how)


def _refuse_connection(connection: socket.socket) -> None:
    reply = f"HTTP/1.1 503 Service Unavailable\r\nRetry-After: {_RETRY_AFTER_S}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with suppress(OSError):
        connection.settimeout(1.0)
        connection.sendall(reply.encode("ascii"))


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "sqlindex"
    sys_version = ""
    timeout = IDLE_S

    def do_GET(self) -> None:
        self._answer({"/health": self._health, "/v1/models": self._models})

    def do_POST(self) -> None:
        self._answer({"/v1/embeddings": self._embeddings})

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged: they hold the user's texts."""

    def _answer(self, routes: Mapping[str, Any]) -> None:
        service = self.server.service
        with service.state:
            service.running += 1
        try:
            try:
                body = self._read_body()
                self._require_local()
                route = routes.get(self.path.partition("?")[0].rstrip("/"))
                if route is None:
                    raise RequestError(
                        HTTPStatus.NOT_FOUND,
                        f"there is no {self.command} {self.path.partition('?')[0]}",
                        code="not_found",
                    )
                self._reply(HTTPStatus.OK, route(body))
            except RequestError as exc:
                self._reply(exc.status, exc.body)
            except SqlindexError as exc:
                failed = RequestError(
                    HTTPStatus.INTERNAL_SERVER_ERROR, str(exc), code="embedder_failed"
                )
                self._reply(failed.status, failed.body)
        finally:
            with service.state:
                service.running -= 1
                service.state.notify_all()

    def _health(self, _: bytes) -> dict[str, object]:
        if self.server.service.is_stopping:
            raise RequestError(
                HTTPStatus.SERVICE_UNAVAILABLE, "the server is stopping", code="stopping"
            )
        return {"status": "ok", "model": self.server.service.model}

    def _models(self, _: bytes) -> dict[str, object]:
        self._require_key()
        return self.server.service.models()

    def _embeddings(self, body: bytes) -> dict[str, object]:
        self._require_key()
        kind = self.headers.get_content_type()
        if kind != "application/json":
            raise RequestError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"the content type must be application/json, not {kind}",
                code="unsupported_media_type",
            )
        return self.server.service.embeddings(body)

    def _read_body(self) -> bytes:
        """All of it, so that the connection can be used again; refused before it is read if too large."""
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise RequestError(
                HTTPStatus.LENGTH_REQUIRED, "send Content-Length", code="length_required"
            )
        length = self.headers.get("Content-Length", "0").strip()
        most = self.server.service.budgets.body_bytes
        if not (length.isascii() and length.isdigit()) or len(length) > 15 or int(length) > most:
            self.close_connection = True
            raise RequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"at most {most} bytes a request",
                code="body_too_large",
            )
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            raise RequestError(
                HTTPStatus.BAD_REQUEST, "the body ended too early", code="invalid_body"
            )
        return body

    def _require_local(self) -> None:
        """Refuse what a page of another site makes a browser send to a name that leads here."""
        name = self.headers.get("Host", "localhost")
        host = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
        if not is_loopback(host.strip("[]")):
            raise RequestError(
                HTTPStatus.MISDIRECTED_REQUEST, f"{host} is not served here", code="wrong_host"
            )

    def _require_key(self) -> None:
        key = self.server.service.key
        given = self.headers.get("Authorization", "")
        if key is not None and not hmac.compare_digest(
            given.encode("utf-8", "replace"), f"Bearer {key}".encode()
        ):
            raise RequestError(
                HTTPStatus.UNAUTHORIZED, "the API key is missing or wrong", code="invalid_api_key"
            )

    def _reply(self, status: HTTPStatus, answer: Mapping[str, object]) -> None:
        written = json.dumps(answer).encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(written)))
        if self.server.service.is_stopping:
            self.close_connection = True
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(written)


def is_loopback(host: str) -> bool:
    """Whether a name or an address leads to this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _require_loopback(host: str) -> None:
    if not is_loopback(host):
        raise UsageError(
            f"{host} is not on the loopback interface",
            hint="127.0.0.1; to serve other machines put a server with TLS and a login in front",
        )
