"""What a search reads of one generation: candidates and hits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlindex.model.rendered import Rendered
from sqlindex.store.contents import read_span
from sqlindex.store.driver import Connection, Row, Value
from sqlindex.store.stored_json import read_rendered, read_texts, require_texts
from sqlindex.store.verified import VerifiedRows, damaged_row
from sqlindex.store.visible import LIVE

SOURCE_TABLE = "CASE s.kind WHEN 'table' THEN json_extract(s.options, '$.table') END"
"""Name of the table that a source reads, or NULL for queries and other sources."""


# Rows on the way of a search are NamedTuples: a dataclass takes five times as long to define, and a
# search from the command line pays for it.
class ChunkRow(NamedTuple):
    """A chunk with its document, as a hit shows it."""

    slot: int
    source: str
    source_kind: str
    root: str | None
    document_id: str
    path: str
    uri: str | None
    title: str
    type_name: str
    language: str
    heading_path: tuple[str, ...]
    context: str
    rendered: tuple[Rendered, ...]
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    occurrence: int
    fingerprint: bytes
    source_table: str | None
    text: str


_CHUNK = f"""
    SELECT d.first_slot + c.ord, s.name, s.kind, s.root, d.document_id, d.path, d.uri, d.title, d.type_name,
      p.language, x.heading_path, c.context, c.rendered, c.start_char, c.end_char, c.start_line, c.end_line, c.occurrence,
      c.fingerprint, {SOURCE_TABLE}, t.first_piece, d.version_id, d.parse_id, d.chunks,
      d.encoding <> 'utf-8' OR d.raw_digest = t.digest
    FROM document_version d JOIN source s USING(source_id) JOIN parse p USING(parse_id)
      JOIN content t USING(content_id)
      JOIN chunk c ON c.parse_id = d.parse_id AND c.ord = :slot - d.first_slot
      JOIN section x ON x.parse_id = d.parse_id AND x.ord = c.section_ord
    WHERE d.first_slot = (SELECT max(first_slot) FROM document_version
                          WHERE born IS NOT NULL AND first_slot <= :slot)
      AND d.born IS NOT NULL AND {LIVE}
"""
_KEY = f"""
    SELECT s.name, d.document_id, c.start_char
    FROM document_version d JOIN source s USING(source_id)
      JOIN chunk c ON c.parse_id = d.parse_id AND c.ord = :slot - d.first_slot
    WHERE d.first_slot = (SELECT max(first_slot) FROM document_version
                          WHERE born IS NOT NULL AND first_slot <= :slot)
      AND d.born IS NOT NULL AND {LIVE}
"""
CANDIDATES = """
    FROM document_version d JOIN source s USING(source_id) JOIN parse p USING(parse_id)
"""
_VERSION_RANGES = f"SELECT d.first_slot, d.chunks {CANDIDATES} WHERE d.born IS NOT NULL AND {LIVE}"
_CHUNK_COLUMNS = f"""
    SELECT d.first_slot + c.ord, coalesce(c.text_id, 0) {CANDIDATES}
      JOIN chunk c ON c.parse_id = d.parse_id
    WHERE d.born IS NOT NULL AND {LIVE}
"""
_BY_KEY = " ORDER BY s.name, d.document_id, c.start_char"


class Condition(NamedTuple):
    """A filter as SQL over the aliases d (version), s (source) and p (parse); values are named."""

    sql: str
    parameters: Mapping[str, Value]


def chunk_key(connection: Connection, generation: int, slot: int) -> tuple[str, str, int] | None:
    """(source, document id, start character) of a slot: the order of ties; None if not live.

    Raises:
        CorruptIndexError: a value is of another type.
    """
    found = connection.execute(_KEY, {"generation": generation, "slot": slot}).fetchone()
    if found is None:
        return None
    source, document_id, start_char = found
    require_texts(f"the version at slot {slot}", source, document_id)
    if not isinstance(start_char, int):
        raise damaged_row(f"the chunk at slot {slot}")
    return source, document_id, start_char


def read_chunk(
    connection: Connection, generation: int, slot: int, verified: VerifiedRows
) -> ChunkRow | None:
    """The chunk at a slot, its text and rows verified against their checksums; None if not live.

    Raises:
        CorruptIndexError: something of it is damaged; the message names the row.
    """
    found = connection.execute(_CHUNK, {"generation": generation, "slot": slot}).fetchone()
    if found is None:
        return None
    *values, first_piece, version_id, parse_id, chunks, is_its_text = found
    if not is_its_text:
        raise damaged_row(f"document version {version_id}")
    verified.verify(connection, version_id, parse_id, chunks)
    values[10] = read_texts(values[10], f"the section of slot {slot}")
    values[12] = read_rendered(values[12], f"the chunk of slot {slot}")
    values.append(read_span(connection, first_piece, values[13], values[14]))
    return ChunkRow(*values)


def version_ranges(
    connection: Connection, generation: int, condition: Condition
) -> list[tuple[int, int]]:
    """(first slot, chunks) of every version that the condition lets through, by first slot."""
    sql = f"{_VERSION_RANGES} AND {condition.sql} ORDER BY d.first_slot"
    rows = connection.execute(sql, {"generation": generation, **condition.parameters})
    return [(first_slot, chunks) for first_slot, chunks in rows]


def chunk_columns(connection: Connection, generation: int) -> list[Row]:
    """(slot, text id or 0) of every chunk of a generation, in the order of ties."""
    return connection.execute(_CHUNK_COLUMNS + _BY_KEY, {"generation": generation}).fetchall()
