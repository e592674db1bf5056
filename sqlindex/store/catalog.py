"""Documents of a generation by id or path, with catalog entry and text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlindex.store.contents import read_content
from sqlindex.store.driver import Connection, Value
from sqlindex.store.snapshot import CANDIDATES, SOURCE_TABLE, ChunkRow, read_chunk
from sqlindex.store.stored_json import read_fields, read_texts
from sqlindex.store.verified import VerifiedRows, damaged_row
from sqlindex.store.visible import LIVE


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
    source_table: str | None
    text: str


_DOCUMENT = f"""
    SELECT s.name, s.kind, s.root, d.document_id, d.path, d.uri, d.title, d.type_name, p.language, d.encoding,
      d.byte_size, d.date, d.tags, d.metadata, p.front_matter, d.chunks, {SOURCE_TABLE}, d.version_id,
      d.encoding <> 'utf-8' OR d.raw_digest = t.digest, p.parse_id, p.content_id
    {CANDIDATES} JOIN content t USING(content_id)
    WHERE s.name = :source AND d.document_id = :document_id AND d.born IS NOT NULL AND {LIVE}
"""
_HEADINGS = """
    SELECT heading_line, heading_path FROM section WHERE parse_id = ? AND heading_line > 0 ORDER BY ord
"""
_LINKS = "SELECT target, label, start_char, is_wiki FROM link WHERE parse_id = ? ORDER BY ord"
_FIND_BY_ID = f"""
    SELECT s.name, d.document_id {CANDIDATES}
    WHERE d.document_id = :wanted AND (:source IS NULL OR s.name = :source) AND d.born IS NOT NULL AND {LIVE}
    ORDER BY s.name
"""
_FIND_BY_PATH = f"""
    SELECT s.name, d.document_id {CANDIDATES}
    WHERE d.path = :wanted AND d.path <> d.document_id AND (:source IS NULL OR s.name = :source)
      AND d.born IS NOT NULL AND {LIVE}
    ORDER BY s.name, d.document_id
"""
_IDENTITIES = f"""
    SELECT d.first_slot + c.ord, s.name, d.document_id, c.fingerprint, c.occurrence {CANDIDATES}
      JOIN chunk c ON c.parse_id = d.parse_id
    WHERE d.born IS NOT NULL AND {LIVE}
"""


_SLOT = f"""
    SELECT d.first_slot {CANDIDATES}
    WHERE s.name = :source AND d.document_id = :document_id AND d.born IS NOT NULL AND {LIVE}
"""
_HOW_CUT = f"""
    SELECT c.cut, c.is_continuation, c.text_id IS NOT NULL {CANDIDATES}
      JOIN chunk c ON c.parse_id = d.parse_id
    WHERE s.name = :source AND d.document_id = :document_id AND d.born IS NOT NULL AND {LIVE}
    ORDER BY c.ord
"""


def document_chunks(
    connection: Connection, generation: int, source: str, document_id: str
) -> Iterator[tuple[ChunkRow, str, bool, bool]]:
    """The chunks of a document in order: (row, why it ends there, is a continuation, is embedded)."""
    which: dict[str, Value] = {
        "generation": generation,
        "source": source,
        "document_id": document_id,
    }
    (first_slot,) = connection.execute(_SLOT, which).fetchone()
    verified = VerifiedRows()
    for ord_, (cut, is_continuation, is_embedded) in enumerate(
        connection.execute(_HOW_CUT, which).fetchall()
    ):
        row = read_chunk(connection, generation, first_slot + ord_, verified)
        assert row is not None
        yield row, cut, bool(is_continuation), bool(is_embedded)


def read_document(
    connection: Connection, generation: int, source: str, document_id: str
) -> DocumentRow | None:
    """A document with its whole text, or None if the generation has no such document."""
    found = connection.execute(
        _DOCUMENT, {"generation": generation, "source": source, "document_id": document_id}
    ).fetchone()
    if found is None:
        return None
    *values, front_matter, chunks, source_table, version_id, is_its_text, parse_id, content_id = (
        found
    )
    if not is_its_text:
        raise damaged_row(f"document version {version_id}")
    VerifiedRows().verify(connection, version_id, parse_id, chunks)
    values[12] = read_texts(values[12], f"the version of document {document_id!r}")
    values[13] = read_fields(values[13], f"the version of document {document_id!r}")
    headings = tuple(
        (line, read_texts(path, f"a section of parse {parse_id}"))
        for line, path in connection.execute(_HEADINGS, (parse_id,))
    )
    links = tuple(
        (target, label, start, bool(is_wiki))
        for target, label, start, is_wiki in connection.execute(_LINKS, (parse_id,))
    )
    text = read_content(connection, content_id)
    values += [front_matter, headings, links, chunks, source_table, text]
    return DocumentRow(*values)


def chunk_identities(
    connection: Connection, generation: int
) -> Iterator[tuple[int, str, str, bytes, int]]:
    """(slot, source, document id, fingerprint, occurrence) of every chunk: O(chunks)."""
    return iter(connection.execute(_IDENTITIES, {"generation": generation}))


def find_documents(
    connection: Connection, generation: int, path_or_id: str, source: str | None
) -> Sequence[tuple[str, str]]:
    """(source, document id) of the documents with that id; without one, of those with that path."""
    parameters: dict[str, Value] = {
        "generation": generation,
        "wanted": path_or_id,
        "source": source,
    }
    by_id = connection.execute(_FIND_BY_ID, parameters).fetchall()
    return by_id or connection.execute(_FIND_BY_PATH, parameters).fetchall()
