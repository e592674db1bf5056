"""Messages between a process and its reader of a database: JSON behind four bytes of length."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import IO, Any

from sqlindex.sources.table_rows import Value

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""A row of `MAX_ROW_CHARS` fits, whatever its characters are."""

_LENGTH_BYTES = 4


class BrokenFrameError(Exception):
    """The stream ended inside a message, or no message of ours begins here."""


def write_frame(stream: IO[bytes], body: bytes) -> None:
    """Send one message at once."""
    stream.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> Any:
    """The next message; None if the stream has ended.

    Raises:
        BrokenFrameError: the stream ends too early, or it holds something else.
    """
    head = stream.read(_LENGTH_BYTES)
    if not head:
        return None
    size = int.from_bytes(head, "big")
    if len(head) < _LENGTH_BYTES or size > MAX_FRAME_BYTES:
        raise BrokenFrameError(f"a message of {size:,} bytes was announced")
    body = stream.read(size)
    if len(body) < size:
        raise BrokenFrameError(f"a message of {size:,} bytes ended after {len(body):,}")
    try:
        return json.loads(body.decode("utf-8", "surrogatepass"))
    except ValueError as exc:
        raise BrokenFrameError(f"a message is no JSON: {exc}") from exc


def encoded(message: object) -> bytes:
    """A message as bytes; blobs in it are kept (`value_of`)."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=_blob)
    return text.encode("utf-8", "surrogatepass")


def value_of(received: Any) -> Value:
    """A value of a received row."""
    value: Value = b64decode(received["blob"]) if isinstance(received, dict) else received
    return value


def _blob(value: bytes) -> dict[str, str]:
    return {"blob": b64encode(value).decode()}
