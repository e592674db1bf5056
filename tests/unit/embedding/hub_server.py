"""A model hub on the loopback address: real HTTP, with faults on request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Hub:
    """What the server does and what it was asked.

    Attributes:
        folder: the files, whatever the repository and revision in the path.
        break_after_bytes: cut the connection after so many bytes of each body.
        knows_ranges: whether a Range header is honoured.
        status: answered instead of any file.
        redirect_to: answered instead of any file.
        replacement: sent as the body of every file.
        requests: (path, Range header) in order.
    """

    folder: Path
    url: str = ""
    break_after_bytes: int | None = None
    knows_ranges: bool = True
    status: int | None = None
    redirect_to: str = ""
    replacement: bytes | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)

    def requests_of(self, name: str) -> list[str]:
        """The Range headers of all requests for that file."""
        return [header for path, header in self.requests if path.endswith(f"/{name}")]


@contextmanager
def running_hub(folder: Path) -> Iterator[Hub]:
    """Serve a folder until the block ends."""
    hub = Hub(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(self, hub)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(handler: BaseHTTPRequestHandler, hub: Hub) -> None:
    wanted = handler.headers.get("Range", "")
    hub.requests.append((handler.path, wanted))
    if hub.redirect_to:
        handler.send_response(302)
        handler.send_header("Location", hub.redirect_to)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return
    path = hub.folder / handler.path.rsplit("/", 1)[-1]
    if hub.status is not None or not path.is_file():
        handler.send_response(hub.status or 404)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return
    content = path.read_bytes() if hub.replacement is None else hub.replacement
    offset = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
    if wanted and hub.knows_ranges:
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes {offset}-{len(content) - 1}/{len(content)}")
        content = content[offset:]
    else:
        handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    if hub.break_after_bytes is not None and len(content) > hub.break_after_bytes:
        handler.wfile.write(content[: hub.break_after_bytes])
        handler.wfile.flush()
        handler.close_connection = True
        return
    handler.wfile.write(content)
