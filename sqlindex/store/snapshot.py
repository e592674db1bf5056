"""What a search reads of one generation: candidates, hits, documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlindex.store.contents import read_content, read_span
from sqlindex.store.driver import Connection, Row, Value

_LIVE = "d.born <= :generation AND (d.died IS NULL OR d.died > :generation)"


@dataclass(frozen=True, slots=True)
class ChunkRow:
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
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    occurrence: int
    fingerprint: bytes
    text: str


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document of a generation with its catalog entry and text."""

    source: str
    source_kind: str
    root: str | None
    document_id: str
    path: str
    uri: str | None
    title: str
    type_name: str
    language: str
    encoding: str
    byte_size: int
    date: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, object]
    front_matter: str
    headings: tuple[tuple[int, tuple[str, ...]], ...]
    links: tuple[tuple[str, str, int, bool], ...]
    chunks: int
    text: str


_CHUNK = f"""
    SELECT d.first_slot + c.ord, s.name, s.kind, s.root, d.document_id, d.path, d.uri, d.title, d.type_name,
      p.language, x.heading_path, c.start_char, c.end_char, c.start_line, c.end_line, c.occurrence,
      c.fingerprint, t.first_piece
    FROM document_version d JOIN source s USING(source_id) JOIN parse p USING(parse_id)
      JOIN content t USING(content_id)
      JOIN chunk c ON c.parse_id = d.parse_id AND c.ord = :slot - d.first_slot
      JOIN section x ON x.parse_id = d.parse_id AND x.ord = c.section_ord
    WHERE d.first_slot = (SELECT max(first_slot) FROM document_version
                          WHERE born IS NOT NULL AND first_slot <= :slot)
      AND d.born IS NOT NULL AND {_LIVE}
"""
_KEY = f"""
    SELECT s.name, d.document_id, c.start_char
    FROM document_version d JOIN source s USING(source_id)
      JOIN chunk c ON c.parse_id = d.parse_id AND c.ord = :slot - d.first_slot
    WHERE d.first_slot = (SELECT max(first_slot) FROM document_version
                          WHERE born IS NOT NULL AND first_slot <= :slot)
      AND d.born IS NOT NULL AND {_LIVE}
"""
_CANDIDATE_FROM = """
    FROM document_version d JOIN source s USING(source_id) JOIN parse p USING(parse_id)
"""
_VERSION_RANGES = (
    f"SELECT d.first_slot, d.chunks {_CANDIDATE_FROM} WHERE d.born IS NOT NULL AND {_LIVE}"
)
_CHUNK_COLUMNS = f"""
    SELECT d.first_slot + c.ord, coalesce(c.text_id, 0) {_CANDIDATE_FROM}
      JOIN chunk c ON c.parse_id = d.parse_id
    WHERE d.born IS NOT NULL AND {_LIVE}
"""
_BY_KEY = " ORDER BY s.name, d.document_id, c.start_char"
_DOCUMENT = f"""
    SELECT s.name, s.kind, s.root, d.document_id, d.path, d.uri, d.title, d.type_name, p.language, d.encoding,
      d.byte_size, d.date, d.tags, d.metadata, p.front_matter, d.chunks, p.parse_id, p.content_id
    {_CANDIDATE_FROM}
    WHERE s.name = :source AND d.document_id = :document_id AND d.born IS NOT NULL AND {_LIVE}
"""
_HEADINGS = """
    SELECT heading_line, heading_path FROM section WHERE parse_id = ? AND heading_line > 0 ORDER BY ord
"""
_LINKS = "SELECT target, label, start_char, is_wiki FROM link WHERE parse_id = ? ORDER BY ord"
_IDENTITIES = f"""
    SELECT d.first_slot + c.ord, s.name, d.document_id, c.fingerprint, c.occurrence {_CANDIDATE_FROM}
      JOIN chunk c ON c.parse_id = d.parse_id
    WHERE d.born IS NOT NULL AND {_LIVE}
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter as SQL over the aliases d (version), s (source) and p (parse); values are named."""

    sql: str
    parameters: Mapping[str, Value]


def chunk_key(connection: Connection, generation: int, slot: int) -> tuple[str, str, int] | None:
    """(source, document id, start character) of a slot: the order of ties; None if not live."""
    found = connection.execute(_KEY, {"generation": generation, "slot": slot}).fetchone()
    return None if found is None else (found[0], found[1], found[2])


def read_chunk(connection: Connection, generation: int, slot: int) -> ChunkRow | None:
    """The chunk at a slot with its text verified against its checksum; None if not live."""
    found = connection.execute(_CHUNK, {"generation": generation, "slot": slot}).fetchone()
    if found is None:
        return None
    *values, first_piece = found
    values[10] = tuple(json.loads(values[10]))
    values.append(read_span(connection, first_piece, values[11], values[12]))
    return ChunkRow(*values)


def version_ranges(
    connection: Connection, generation: int, condition: Condition | None
) -> list[tuple[int, int]]:
    """(first slot, chunks) of every version that the condition lets through, by first slot."""
    sql, parameters = _with_condition(_VERSION_RANGES, generation, condition)
    rows = connection.execute(sql + " ORDER BY d.first_slot", parameters)
    return [(first_slot, chunks) for first_slot, chunks in rows]


def chunk_columns(
    connection: Connection, generation: int, condition: Condition | None
) -> list[Row]:
    """(slot, text id or 0) of every candidate chunk, in the order of ties."""
    sql, parameters = _with_condition(_CHUNK_COLUMNS, generation, condition)
    return connection.execute(sql + _BY_KEY, parameters).fetchall()


def read_document(
    connection: Connection, generation: int, source: str, document_id: str
) -> DocumentRow | None:
    """A document with its whole text, or None if the generation has no such document."""
    found = connection.execute(
        _DOCUMENT, {"generation": generation, "source": source, "document_id": document_id}
    ).fetchone()
    if found is None:
        return None
    *values, front_matter, chunks, parse_id, content_id = found
    values[12] = tuple(json.loads(values[12]))
    values[13] = json.loads(values[13])
    headings = tuple(
        (line, tuple(json.loads(path))) for line, path in connection.execute(_HEADINGS, (parse_id,))
    )
    links = tuple(
        (target, label, start, bool(is_wiki))
        for target, label, start, is_wiki in connection.execute(_LINKS, (parse_id,))
    )
    text = read_content(connection, content_id)
    values += [front_matter, headings, links, chunks, text]
    return DocumentRow(*values)


def chunk_identities(
    connection: Connection, generation: int
) -> Iterator[tuple[int, str, str, bytes, int]]:
    """(slot, source, document id, fingerprint, occurrence) of every chunk: O(chunks)."""
    return iter(connection.execute(_IDENTITIES, {"generation": generation}))


def find_documents(
    connection: Connection, generation: int, path_or_id: str, source: str | None
) -> Sequence[tuple[str, str]]:
    """(source, document id) of documents with that id or path."""
    sql = f"""
        SELECT s.name, d.document_id {_CANDIDATE_FROM}
        WHERE (d.document_id = :wanted OR d.path = :wanted) AND (:source IS NULL OR s.name = :source)
          AND d.born IS NOT NULL AND {_LIVE}
        ORDER BY s.name, d.document_id
    """
    parameters: dict[str, Value] = {
        "generation": generation,
        "wanted": path_or_id,
        "source": source,
    }
    return connection.execute(sql, parameters).fetchall()


def _with_condition(
    sql: str, generation: int, condition: Condition | None
) -> tuple[str, dict[str, Value]]:
    parameters: dict[str, Value] = {"generation": generation}
    if condition is None:
        return sql, parameters
    return f"{sql} AND {condition.sql}", {**parameters, **condition.parameters}
