"""Reads a SentencePiece unigram model: its pieces, and the map of characters it normalises by.

The file is a protocol buffer of which these fields count: the pieces (1), each with text (1) and
log probability (2), and the normaliser (3) with its compiled map (2).

Source:
    Kudo & Richardson, SentencePiece, EMNLP 2018; its `sentencepiece_model.proto`.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from pathlib import Path

from sqlindex.errors import ModelFilesError

_PIECES, _NORMALIZER = 1, 3
_TEXT, _SCORE = 1, 2
_CHARACTER_MAP = 2
_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5


def read_sentencepiece(path: Path) -> tuple[list[tuple[str, float]], dict[str, object]]:
    """The pieces with their log probabilities, and the normaliser as `tokenizers` takes it.

    Raises:
        ModelFilesError: the file is cut off or none of these.
    """
    pieces: list[tuple[str, float]] = []
    character_map = b""
    try:
        for field, content in _fields(path.read_bytes()):
            if field == _PIECES:
                parts = dict(_fields(content))
                score = struct.unpack("<f", parts[_SCORE])[0] if _SCORE in parts else 0.0
                pieces.append((parts[_TEXT].decode("utf-8"), score))
            elif field == _NORMALIZER:
                character_map = dict(_fields(content))[_CHARACTER_MAP]
    except (IndexError, KeyError, ValueError, struct.error) as exc:
        raise ModelFilesError(f"{path} is no SentencePiece model") from exc
    if not pieces:
        raise ModelFilesError(f"{path} has no pieces")
    encoded = base64.b64encode(character_map).decode("ascii")
    return pieces, {"type": "Precompiled", "precompiled_charsmap": encoded}


def _fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each field; of plain numbers only that they are there."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(content, at)
            size = 0
        elif kind == _SIZED:
            size, at = _varint(content, at)
        else:
            size = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}[kind]
        if at + size > len(content):
            raise ValueError("a field ends behind the file")
        yield key >> 3, content[at : at + size]
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and where it ends."""
    number = shift = 0
    while True:
        byte = content[at]
        number |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return number, at
