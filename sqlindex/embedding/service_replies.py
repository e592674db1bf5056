"""What a service says: vectors, the model's entry in its list, and why it refuses.

Plain replies of the OpenAI protocol are enough. If there is an object `embedding` beside them, as
sqlindex's own server sends it, its `revision`, `dimensions` and limits are taken too.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlindex.embedding.service_config import is_name
from sqlindex.errors import BadVectorError, EmbedderReplyError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """What `/models` says of a model; None and empty where it says nothing.

    Attributes:
        revision: of the weights.
        dimensions: of its vectors.
        max_inputs: texts of a request.
        max_tokens: of a text.
        max_batch_tokens: of a request.
        truncates: whether longer texts are cut without a word; None if it does not say.
    """

    revision: str = ""
    dimensions: int | None = None
    max_inputs: int | None = None
    max_tokens: int | None = None
    max_batch_tokens: int | None = None
    truncates: bool | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingReply:
    """Vectors of a request.

    Attributes:
        vectors: float32 of shape (texts, width), finite, no zero row, in the order of the request.
        model: that the service names, or ''.
        revision: that it names, or ''.
    """

    vectors: npt.NDArray[np.float32]
    model: str
    revision: str


def read_models(body: bytes, model: str, title: str) -> ModelEntry:
    """The entry of a model; an empty one if the list does not name it.

    Raises:
        EmbedderReplyError: the body is no list of models, or an entry holds impossible values.
    """
    found = _object(body, title)
    entries = found.get("data")
    if not isinstance(entries, list):
        raise EmbedderReplyError(f"{title} gave a list of models without 'data'")
    for entry in entries:
        if isinstance(entry, dict) and entry.get("id") == model:
            return _entry(entry, title)
    return ModelEntry()


def read_embeddings(body: bytes, count: int, dimensions: int | None, title: str) -> EmbeddingReply:
    """The vectors of a request with `count` texts, in its order, from base64 or lists of numbers.

    Args:
        dimensions: width of each; None for the first one's.

    Raises:
        EmbedderReplyError: it is no reply to `count` texts: one is missing, twice or too many.
        BadVectorError: a vector is no vector, of another width, not finite, or all zeros.
    """
    import numpy as np

    found = _object(body, title)
    entries = found.get("data")
    if not isinstance(entries, list):
        raise EmbedderReplyError(f"{title} gave a reply without 'data'")
    if len(entries) != count:
        raise EmbedderReplyError(f"{title} gave {len(entries)} vectors for {count} texts")
    rows: dict[int, npt.NDArray[np.float32]] = {}
    for entry in entries:
        at = entry.get("index") if isinstance(entry, dict) else None
        if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at < count:
            raise EmbedderReplyError(f"{title} gave a vector that belongs to no text")
        if at in rows:
            raise EmbedderReplyError(f"{title} gave two vectors for one text")
        rows[at] = _vector(entry.get("embedding"), at, title)
    width = dimensions or len(rows[0])
    for at, vector in rows.items():
        fault = _fault(vector, width)
        if fault:
            raise BadVectorError(f"{title} gave a vector that is {fault}", row=at)
    extension = found.get("embedding")
    revision = _text(extension.get("revision"), title) if isinstance(extension, dict) else ""
    vectors = np.stack([rows[at] for at in range(count)])
    return EmbeddingReply(vectors, _text(found.get("model"), title), revision)


def refusal_text(body: bytes) -> str:
    """What a service says to a request that it refuses: one printable line, or ''."""
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    if not isinstance(found, str):
        return ""
    line = " ".join(found.split())
    return "".join(c if c.isprintable() else "?" for c in line)[:_SHOWN_CHARS]


def _object(body: bytes, title: str) -> Mapping[str, Any]:
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        # Its text would quote the body, and the body may be anything.
        found = None
    if not isinstance(found, dict):
        raise EmbedderReplyError(f"{title} gave no JSON object")
    return found


def _entry(entry: Mapping[str, Any], title: str) -> ModelEntry:
    own = entry.get("embedding")
    own = own if isinstance(own, dict) else {}
    truncates = own.get("truncation")
    return ModelEntry(
        revision=_text(own.get("revision"), title),
        dimensions=_limit(own, "dimensions", title),
        max_inputs=_limit(own, "max_inputs", title),
        # The second name is that of another widespread server.
        max_tokens=_limit(own, "max_input_tokens", title) or _limit(entry, "max_model_len", title),
        max_batch_tokens=_limit(own, "max_batch_tokens", title),
        truncates=truncates if isinstance(truncates, bool) else None,
    )


def _limit(entry: Mapping[str, Any], name: str, title: str) -> int | None:
    value = entry.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 31:
        raise EmbedderReplyError(f"{title} reports an impossible {name}")
    return value


def _text(value: object, title: str) -> str:
    """A name that the service gives, or ''."""
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not is_name(value):
        raise EmbedderReplyError(f"{title} names a model or revision that is no short text")
    return value


def _vector(given: object, at: int, title: str) -> npt.NDArray[np.float32]:
    """float32 of shape (width,), not looked at yet."""
    import numpy as np

    if isinstance(given, str):
        try:
            raw = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if raw and len(raw) % 4 == 0:
            return np.frombuffer(raw, "<f4").astype(np.float32)
    elif isinstance(given, list) and given and all(type(part) in (float, int) for part in given):
        try:
            with np.errstate(over="ignore", under="ignore"):
                return np.array(given, np.float64).astype(np.float32)
        except OverflowError:
            return np.full(len(given), np.inf, np.float32)
    raise BadVectorError(f"{title} gave something that is no vector", row=at)


def _fault(vector: npt.NDArray[np.float32], width: int) -> str:
    import numpy as np

    if len(vector) != width:
        return f"{len(vector)} wide instead of {width}"
    if not np.isfinite(vector).all():
        return "not finite"
    return "" if vector.any() else "all zeros"
