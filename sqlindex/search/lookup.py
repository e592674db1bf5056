"""Look up a document or a chunk of a generation by its id."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlindex.chunking.identity import chunk_id as id_of
from sqlindex.encodable import is_encodable
from sqlindex.errors import CorruptIndexError, UnknownDocumentError
from sqlindex.model.chunks import Cut
from sqlindex.model.history import ListedDocument
from sqlindex.model.results import Chunk, DocumentChunk
from sqlindex.model.stored import StoredDocument
from sqlindex.search.searcher import provenance
from sqlindex.store.catalog import (
    DocumentRow,
    chunk_identities,
    document_chunks,
    find_documents,
    read_document,
)
from sqlindex.store.connection import IndexFile
from sqlindex.store.driver import Connection
from sqlindex.store.head import read_served
from sqlindex.store.snapshot import ChunkRow, read_chunk
from sqlindex.store.sources import find_source
from sqlindex.store.verified import VerifiedRows


def get_document(
    connection: Connection,
    path_or_id: str,
    source: str | None,
    uri_of: Callable[[DocumentRow | ChunkRow], str | None],
    at: int | None = None,
) -> StoredDocument:
    """The document with that id or path.

    Raises:
        UnknownDocumentError: none, or more than one source has it; the hint names the sources.
    """
    generation, name, document_id = find_document(connection, path_or_id, source, at)
    row = read_document(connection, generation, name, document_id)
    assert row is not None
    return _stored(row, generation, uri_of)


def get_chunks(
    connection: Connection,
    path_or_id: str,
    source: str | None,
    uri_of: Callable[[DocumentRow | ChunkRow], str | None],
    at: int | None = None,
) -> list[DocumentChunk]:
    """The chunks of the document with that id or path, in order.

    Raises:
        UnknownDocumentError: none, or more than one source has it; the hint names the sources.
    """
    generation, name, document_id = find_document(connection, path_or_id, source, at)
    return [
        DocumentChunk(
            **provenance(row, uri_of),
            cut=_cut(cut, document_id),
            is_continuation=is_continuation,
            is_embedded=is_embedded,
        )
        for row, cut, is_continuation, is_embedded in document_chunks(
            connection, generation, name, document_id
        )
    ]


def _cut(stored: str, document_id: str) -> Cut:
    try:
        return Cut(stored)
    except ValueError as exc:
        raise CorruptIndexError(
            f"a chunk of document {document_id!r} ends for the unknown reason {stored!r}",
            hint="run 'sqlindex check'",
        ) from exc


def _stored(
    row: DocumentRow, generation: int, uri_of: Callable[[DocumentRow | ChunkRow], str | None]
) -> StoredDocument:
    return StoredDocument(
        generation=generation,
        source=row.source,
        document_id=row.document_id,
        uri=uri_of(row),
        path=row.path,
        title=row.title,
        type_name=row.type_name,
        language=row.language,
        encoding=row.encoding,
        byte_size=row.byte_size,
        date=row.date,
        tags=row.tags,
        metadata=dict(row.metadata),
        front_matter=row.front_matter,
        headings=row.headings,
        links=row.links,
        chunks=row.chunks,
        text=row.text,
    )


def find_document(
    connection: Connection, path_or_id: str, source: str | None, at: int | None = None
) -> tuple[int, str, str]:
    """(generation, source, document id) of the document with that id or path.

    Args:
        at: the generation; the head if None.

    Raises:
        UnknownDocumentError: none, or more than one source has it; the hint names the sources.
        UnknownSourceError: no source of that name.
        GenerationGoneError: it has been collected.
    """
    generation = read_served(connection, at).generation
    if not is_encodable(path_or_id) or not is_encodable(source or ""):
        raise UnknownDocumentError(
            f"{path_or_id!r} is no document id", hint="ids write bytes that are no UTF-8 as \\xe9"
        )
    if source is not None:
        require_source(connection, source, at)
    found = find_documents(connection, generation, path_or_id, source)
    if len(found) != 1:
        names = dict.fromkeys(name for name, _ in found)
        if len(names) > 1:
            raise UnknownDocumentError(
                f"{path_or_id!r} is in several sources",
                hint=f"name one of them with --source (source=): {', '.join(names)}",
            )
        if found:
            raise UnknownDocumentError(
                f"{path_or_id!r} is the path of {len(found)} documents",
                hint=f"name one by its id: {', '.join(id_ for _, id_ in found[:9])}",
            )
        raise UnknownDocumentError(
            f"generation {generation} has no document {path_or_id!r}",
            hint="ids are paths relative to the source's folder; 'sqlindex status' lists the sources",
        )
    return generation, *found[0]


PAGE_DOCUMENTS = 500
"""Documents listed in one read transaction."""


def walk_documents(
    file: IndexFile, generation: int, source: str | None
) -> Iterator[ListedDocument]:
    """The documents of a generation by id and source, read in pages while the caller goes on.

    The generation is held until the walk ends; between pages no transaction is open.

    Raises:
        GenerationGoneError: it has been collected.
        UnknownSourceError: no source was ever named so.
    """
    from sqlindex.store.history import documents_behind

    with file.holding(generation):
        last, is_first, page = ("", ""), True, list[ListedDocument]()
        while is_first or len(page) == PAGE_DOCUMENTS:
            with file.reading() as connection:
                read_served(connection, generation)
                if is_first and source is not None:
                    require_source(connection, source, generation)
                page = documents_behind(
                    connection, generation, last, source=source, count=PAGE_DOCUMENTS
                )
            yield from page
            is_first = False
            last = (page[-1].document_id, page[-1].source) if page else last


def require_source(connection: Connection, name: str, at: int | None) -> None:
    """Refuse a name that no source has; at a generation, also one that none ever had.

    Raises:
        UnknownSourceError: there is none.
    """
    if at is None:
        find_source(connection, name)
    else:
        from sqlindex.store.history import require_source_ever

        require_source_ever(connection, name)


def get_chunk(
    connection: Connection,
    chunk_id: str,
    uri_of: Callable[[DocumentRow | ChunkRow], str | None],
    at: int | None = None,
) -> Chunk:
    """The chunk with that id: O(chunks), since ids are computed, not stored.

    Raises:
        UnknownDocumentError: the generation has no such chunk.
        GenerationGoneError: it has been collected.
    """
    generation = read_served(connection, at).generation
    for slot, source, document_id, fingerprint, occurrence in chunk_identities(
        connection, generation
    ):
        if id_of(source, document_id, fingerprint, occurrence) == chunk_id:
            row = read_chunk(connection, generation, slot, VerifiedRows())
            assert row is not None
            return Chunk(**provenance(row, uri_of))
    raise UnknownDocumentError(
        f"generation {generation} has no chunk {chunk_id}",
        hint="search again: the document has changed",
    )
