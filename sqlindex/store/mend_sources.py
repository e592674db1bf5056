"""What a repair does about sources, refused documents and texts that no checksum covers."""

from __future__ import annotations

from collections.abc import Iterator

from sqlindex.encodable import is_encodable
from sqlindex.store.checksum import stored_bytes
from sqlindex.store.damage import UNREADABLE, require_damage
from sqlindex.store.driver import Connection
from sqlindex.store.sources import refusal_of
from sqlindex.store.stored_json import read_texts

_REMOVED_AND_LIVE = """
    SELECT source_id, name FROM source s WHERE is_removed
      AND EXISTS (SELECT 1 FROM document_version d
                  WHERE d.source_id = s.source_id AND d.born IS NOT NULL AND d.died IS NULL)
      AND NOT EXISTS (SELECT 1 FROM source t WHERE t.name = s.name AND NOT t.is_removed)
"""
_MOUNT_POINTS = "SELECT source_id, name, mount_points FROM source"
_FORGET_MOUNTS = "UPDATE source SET mount_points = '[]' WHERE source_id = ?"
# Texts that no checksum covers, and what is done with the rows of one that is no UTF-8.
_OF_TEXT = " WHERE CAST({column} AS BLOB) = ?"
_PLAIN_TEXTS = (
    (
        "refused_document",
        ("document_id", "reason", "detail", "hint"),
        "DELETE FROM refused_document" + _OF_TEXT,
    ),
    ("file_stat", ("document_id",), "DELETE FROM file_stat" + _OF_TEXT),
    (
        "gated_refusal",
        ("document_id", "reason", "detail", "hint"),
        "DELETE FROM gated_refusal" + _OF_TEXT,
    ),
    ("setting", ("name", "value"), "DELETE FROM setting" + _OF_TEXT),
    ("tag", ("name",), "DELETE FROM tag" + _OF_TEXT),
    ("generation", ("cause", "analyzer"), "UPDATE generation SET {column} = ''" + _OF_TEXT),
    ("vector_refusal", ("detail",), "UPDATE vector_refusal SET {column} = ''" + _OF_TEXT),
)
_REFUSED = "SELECT source_id, document_id, is_kept FROM refused_document"
_FORGET_REFUSED = "DELETE FROM refused_document WHERE source_id = ? AND document_id = ?"


def mend_sources(connection: Connection) -> Iterator[tuple[str, str]]:
    """Drop what cannot be read of sources, refused documents and other small tables: (what, outcome).

    What a source lists (its options) is not made up: a source of which that is damaged stays so.
    """
    for source_id, name in connection.execute(_REMOVED_AND_LIVE).fetchall():
        connection.execute("UPDATE source SET is_removed = 0 WHERE source_id = ?", (source_id,))
        yield f"source {name}, which has documents", "rebuilt"
    for source_id, name, mount_points in connection.execute(_MOUNT_POINTS).fetchall():
        try:
            read_texts(mount_points, "")
        except UNREADABLE as exc:
            require_damage(exc)
            connection.execute(_FORGET_MOUNTS, (source_id,))
            yield f"mount points of source {name}", "rebuilt"
    for table, columns, mend in _PLAIN_TEXTS:
        for column in columns:
            rows = connection.execute(f"SELECT DISTINCT {column} FROM {table}").fetchall()
            for (text,) in rows:
                if text is not None and not is_encodable(str(text)):
                    connection.execute(mend.format(column=column), (stored_bytes(str(text)),))
                    yield f"{column} of {table} that is no text", "dropped"
    for source_id, document_id, is_kept in connection.execute(_REFUSED).fetchall():
        try:
            is_sound = is_kept in (0, 1) and refusal_of(connection, source_id, document_id)
        except UNREADABLE as exc:
            require_damage(exc)
            is_sound = None
        if not is_sound:
            connection.execute(_FORGET_REFUSED, (source_id, document_id))
            yield f"why {document_id} is not indexed", "dropped"
