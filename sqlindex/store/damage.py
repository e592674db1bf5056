"""Which rows no longer say what was stored: found alike by `check`, which names them, and `repair`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from sqlindex.errors import CorruptIndexError
from sqlindex.store.checksum import stored_bytes
from sqlindex.store.contents import read_content
from sqlindex.store.driver import Connection, DatabaseError, is_damage
from sqlindex.store.parses import ChunkPlace, chunk_place

UNREADABLE = (
    DatabaseError,
    CorruptIndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
)
"""What reading a damaged row may raise: a flipped type byte makes a text a number, or a length huge.

Whoever catches it asks `require_damage`."""

_CHUNK_MARKS = """
    SELECT c.ord, c.fingerprint, c.text_id, t.key FROM chunk c LEFT JOIN embedding_text t USING(text_id)
    WHERE c.parse_id = ? ORDER BY c.ord
"""

# Columns of truth that no checksum covers stand in an index too: (what the index says, what the table
# says). A condition on a column that no index holds makes SQLite read the table.
_INDEXED_TRUTH = {
    "document_version": (
        (
            "SELECT version_id, parse_id FROM document_version INDEXED BY version_parse",
            "SELECT version_id, parse_id FROM document_version NOT INDEXED WHERE length(check8) >= 0",
        ),
        (
            "SELECT version_id, build_id FROM document_version INDEXED BY version_build",
            "SELECT version_id, build_id FROM document_version NOT INDEXED WHERE length(check8) >= 0",
        ),
        (
            "SELECT version_id, died FROM document_version INDEXED BY version_died WHERE died IS NOT NULL",
            "SELECT version_id, died FROM document_version NOT INDEXED WHERE died IS NOT NULL AND length(check8) >= 0",
        ),
        (
            "SELECT version_id, first_slot FROM document_version INDEXED BY version_slot WHERE born IS NOT NULL",
            "SELECT version_id, first_slot FROM document_version NOT INDEXED WHERE born IS NOT NULL AND length(check8) >= 0",
        ),
        (
            "SELECT version_id, 0 FROM document_version INDEXED BY version_live WHERE born IS NOT NULL AND died IS NULL",
            "SELECT version_id, 0 FROM document_version NOT INDEXED WHERE born IS NOT NULL AND died IS NULL AND length(check8) >= 0",
        ),
    ),
    "parse": (
        (
            "SELECT parse_id, content_id FROM parse INDEXED BY sqlite_autoindex_parse_1",
            "SELECT parse_id, content_id FROM parse NOT INDEXED WHERE length(check8) >= 0",
        ),
    ),
    "chunk": (
        (
            "SELECT parse_id, ord, text_id FROM chunk INDEXED BY chunk_text WHERE text_id IS NOT NULL",
            "SELECT parse_id, ord, text_id FROM chunk NOT INDEXED WHERE +text_id IS NOT NULL AND length(fingerprint) >= 0",
        ),
    ),
    "tag": (
        (
            "SELECT name, generation FROM tag INDEXED BY tag_generation",
            "SELECT name, generation FROM tag NOT INDEXED WHERE length(tagged_at) >= 0",
        ),
    ),
    "generation": (
        (
            "SELECT generation FROM generation INDEXED BY generation_kept WHERE is_kept = 1",
            "SELECT generation FROM generation NOT INDEXED WHERE is_kept = 1 AND length(published_at) >= 0",
        ),
    ),
}


class TextFault(NamedTuple):
    """A stored text, or a chunk of it, that is not what was stored.

    Attributes:
        rule: which of the four it breaks.
        parse_id, ord: of the chunk; None for a content.
        text_id, key: of a chunk whose key is wrong: its text id and the key that is right.
    """

    rule: str
    detail: str
    content_id: int
    parse_id: int | None = None
    ord: int | None = None
    text_id: int | None = None
    key: bytes | None = None


TEXT_CHECKSUM = "texts give their checksum"
TEXT_DIGEST = "texts give their digest"
TEXT_LENGTH = "contents count the characters of their texts"
CHUNK_FINGERPRINT = "chunks give their fingerprint"
CHUNK_KEY = "chunks have the key of their text"


def require_damage(exc: Exception) -> None:
    """Raise an exception again that tells of locks, the disk or a cancel, and not of a row."""
    if isinstance(exc, DatabaseError) and not is_damage(exc):
        raise exc


def text_faults(
    connection: Connection,
    *,
    fingerprint: Callable[[str], bytes],
    embedding_key: Callable[[str, ChunkPlace], bytes | None],
    damaged_parses: Collection[int],
    input_mark: str,
) -> Iterator[TextFault]:
    """Read every text and compare what is derived from it: O(characters).

    Args:
        input_mark: in the recipe of parses whose embedding texts `embedding_key` makes; those of
            another version are not compared.
        damaged_parses: their chunks are not looked at.
    """
    contents = connection.execute(
        "SELECT content_id, digest, chars FROM content ORDER BY content_id"
    ).fetchall()
    for content_id, digest, chars in contents:
        try:
            text = read_content(connection, content_id)
        except UNREADABLE as exc:
            require_damage(exc)
            yield TextFault(TEXT_CHECKSUM, f"content {content_id}: {exc}", content_id)
            continue
        if hashlib.sha256(stored_bytes(text)).digest() != digest:
            yield TextFault(TEXT_DIGEST, f"content {content_id}", content_id)
            continue
        if chars != len(text):  # too many within its last piece: fewer would have cut the text
            yield TextFault(TEXT_LENGTH, f"content {content_id}", content_id)
        parses = connection.execute(
            "SELECT parse_id, instr(recipe, ?) > 0 FROM parse WHERE content_id = ?",
            (input_mark, content_id),
        )
        for parse_id, is_comparable in parses.fetchall():
            if parse_id in damaged_parses:
                continue
            for ord_, mark, text_id, key in connection.execute(
                _CHUNK_MARKS, (parse_id,)
            ).fetchall():
                where = f"chunk {parse_id}/{ord_}"
                try:
                    place = chunk_place(connection, parse_id, ord_)
                    is_whole = fingerprint(text[place.start_char : place.end_char]) == mark
                except UNREADABLE as exc:
                    require_damage(exc)
                    where, is_whole = f"{where}: {exc}", False
                if not is_whole:
                    yield TextFault(CHUNK_FINGERPRINT, where, content_id, parse_id, ord_)
                elif is_comparable and key != (right := embedding_key(text, place)):
                    yield TextFault(CHUNK_KEY, where, content_id, parse_id, ord_, text_id, right)


def index_disagreements(connection: Connection, table: str) -> set[object]:
    """Identities of rows of a table of which an index says something else: either may be damaged.

    The first column of the primary key; of chunks that is their parse.
    """
    found: set[object] = set()
    for indexed, stored in _INDEXED_TRUTH[table]:
        for one, other in ((indexed, stored), (stored, indexed)):
            found.update(row[0] for row in connection.execute(f"{one} EXCEPT {other}"))
    return found
