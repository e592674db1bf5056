"""Checksums of stored rows; SQLite's own checks miss most single flipped bits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b, sha256


def check8(data: bytes) -> bytes:
    """BLAKE2b of `data`, 8 bytes."""
    return blake2b(data, digest_size=8).digest()


def check8_of_values(values: Sequence[object]) -> bytes:
    """Checksum of a row's values: text, numbers, bytes, None and nested sequences of them."""
    canonical = json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=bytes.hex)
    return check8(stored_bytes(canonical))


def stored_bytes(text: str) -> bytes:
    """The bytes of a text as the file holds it, also where a check read bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def text_digest(text: str) -> bytes:
    """SHA-256 of the UTF-8 form: names a content."""
    return sha256(text.encode("utf-8")).digest()
