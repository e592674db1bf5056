"""Vectors of texts, kept in the user's cache, so that only the first run embeds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from sqlindex.ports import Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_BATCH = 256
"""Texts embedded between two durable steps."""

_KEY_BYTES = 32


def cached_vectors(
    texts: Sequence[str], embedder: Embedder, folder: Path
) -> npt.NDArray[np.float32]:
    """Vectors of texts; what the cache lacks is embedded and appended to it.

    The cache is one file for each embedder: the SHA-256 of a text, then its vector in
    little-endian float32, and so on. An interrupted run goes on behind its last batch.

    Returns:
        float32 array of shape (len(texts), dimensions); row i belongs to `texts[i]`.
    """
    import numpy as np

    record = np.dtype([("key", f"S{_KEY_BYTES}"), ("vector", "<f4", (embedder.dimensions,))])
    name = sha256(embedder.identity.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"vectors-{name}.bin"
    row_by_key: dict[bytes, npt.NDArray[np.float32]] = {}
    with path.open("a+b") as file:
        whole = file.tell() // record.itemsize
        file.truncate(whole * record.itemsize)  # an interrupted append leaves a part of a record
        if whole:
            stored = np.fromfile(path, record, whole)
            row_by_key = dict(zip(_padded(stored["key"]), stored["vector"], strict=True))
        keys = [sha256(text.encode()).digest() for text in texts]
        missing = [
            (key, text)
            for key, text in dict(zip(keys, texts, strict=True)).items()
            if key not in row_by_key
        ]
        for start in range(0, len(missing), _BATCH):
            print(f"embedding {start:,} of {len(missing):,} texts", file=sys.stderr, flush=True)
            batch = missing[start : start + _BATCH]
            block = np.empty(len(batch), record)
            block["key"] = [key for key, _ in batch]
            block["vector"] = embedder.embed_documents([text for _, text in batch])
            file.write(block.tobytes())
            file.flush()
            row_by_key.update(zip((key for key, _ in batch), block["vector"], strict=True))
    vectors = np.empty((len(texts), embedder.dimensions), np.float32)
    for row, key in enumerate(keys):
        vectors[row] = row_by_key[key]
    return vectors


def _padded(keys: npt.NDArray[np.bytes_]) -> list[bytes]:
    """Whole keys: numpy drops zero bytes at the end of a byte string."""
    return [key.ljust(_KEY_BYTES, b"\0") for key in keys.tolist()]
