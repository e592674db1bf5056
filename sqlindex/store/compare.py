"""What two generations do not hold alike, found from what was born and died between them."""

from __future__ import annotations

from typing import NamedTuple

from sqlindex.store.driver import Connection, Row, Value


class ComparedVersion(NamedTuple):
    """A document version that one of two generations holds and the other does not.

    `says` is what it says of its document; equal for versions that a reader cannot tell apart.
    """

    source: str
    document_id: str
    parse_id: int
    content_id: int
    recipe: str
    chunks: int
    raw_digest: bytes
    says: Row


_COLUMNS = """
    s.name, d.document_id, d.parse_id, p.content_id, p.recipe, d.chunks, d.raw_digest,
    d.encoding, d.path, d.type_name, d.title, d.date, d.tags, d.uri, d.metadata
"""
_JOINS = "CROSS JOIN source s USING(source_id) CROSS JOIN parse p USING(parse_id)"
# By build and not by born, which has no index; from the change to its documents, never the other way.
_BORN_BETWEEN = f"""
    SELECT {_COLUMNS}
    FROM generation g CROSS JOIN document_version d ON d.build_id = g.build_id {_JOINS}
    WHERE g.generation > :earlier AND g.generation <= :later
      AND d.born = g.generation AND (d.died IS NULL OR d.died > :later)
"""
_DIED_BETWEEN = f"""
    SELECT {_COLUMNS}
    FROM document_version d {_JOINS}
    WHERE d.died IS NOT NULL AND d.died > :earlier AND d.died <= :later AND d.born <= :earlier
"""
_CHUNKS = """
    SELECT fingerprint, occurrence, coalesce(text_id, 0) FROM chunk WHERE parse_id = :parse_id
"""


def versions_between(
    connection: Connection, old: int, new: int
) -> tuple[list[ComparedVersion], list[ComparedVersion]]:
    """The versions that only `old` holds, and those that only `new` holds.

    Both must be kept in this transaction. Cost: O(versions born or died between them).

    Args:
        old, new: generations in any order.
    """
    between: dict[str, Value] = {"earlier": min(old, new), "later": max(old, new)}
    born = [_version(row) for row in connection.execute(_BORN_BETWEEN, between)]
    died = [_version(row) for row in connection.execute(_DIED_BETWEEN, between)]
    return (died, born) if old <= new else (born, died)


def chunk_texts(connection: Connection, parse_id: int) -> dict[tuple[bytes, int], int]:
    """Embedding text (0 for none) by (fingerprint, occurrence), for the chunks of a parse."""
    rows = connection.execute(_CHUNKS, {"parse_id": parse_id})
    return {(fingerprint, occurrence): text_id for fingerprint, occurrence, text_id in rows}


def _version(row: Row) -> ComparedVersion:
    values = [*row[:7], row[7:]]
    return ComparedVersion(*values)
