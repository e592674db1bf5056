"""Names for content and chunks that do not depend on where a document lies."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from hashlib import blake2b

from sqlindex.model.ids import ChunkId


def content_fingerprint(text: str) -> bytes:
    """Fingerprint of a text: 16 bytes, the same for equal texts wherever they stand.

    It finds candidates for reuse; whether two texts are equal is decided by comparing them.

    Source:
        BLAKE2b with a 16-byte digest (RFC 7693) over UTF-8.
    """
    return blake2b(_encoded(text), digest_size=16).digest()


def occurrences(fingerprints: Iterable[Hashable]) -> list[int]:
    """For each fingerprint, how many equal ones come before it.

    Tells equal chunks of one document apart by order, so that an edit elsewhere in the
    document leaves their identities as they are.
    """
    seen: dict[Hashable, int] = {}
    numbers = []
    for fingerprint in fingerprints:
        number = seen.get(fingerprint, 0)
        numbers.append(number)
        seen[fingerprint] = number + 1
    return numbers


def chunk_id(source: str, document_id: str, fingerprint: bytes, occurrence: int) -> ChunkId:
    """Identity of a chunk: source, document, content and occurrence number.

    Each part is hashed behind its length, so no choice of names makes two identities meet.

    Returns:
        32 hexadecimal digits.

    Raises:
        ValueError: `occurrence` is negative.
    """
    if occurrence < 0:
        raise ValueError(f"occurrence must not be negative, not {occurrence}")
    digest = blake2b(digest_size=16)
    for part in (_encoded(source), _encoded(document_id), fingerprint):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    digest.update(occurrence.to_bytes(8, "little"))
    return ChunkId(digest.hexdigest())


def _encoded(text: str) -> bytes:
    # File names may hold undecodable bytes as lone surrogates; they must have an identity too.
    return text.encode("utf-8", "surrogatepass")
