"""Stage a build: documents in small transactions, and what of a stored chunk is embedded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlindex.chunking.embedding_text import embedding_key, embedding_text, lost_heading
from sqlindex.indexing.diff import TouchedFile
from sqlindex.indexing.prepare import PreparedDocument
from sqlindex.rendering import rendered_text
from sqlindex.store.contents import put_content
from sqlindex.store.documents import VersionRow, stage_versions
from sqlindex.store.parses import ChunkPlace, find_parse, put_parse, put_parse_again
from sqlindex.store.sources import SourceRow, StatRow, put_file_stats
from sqlindex.store.writer import Writer


def stage_documents(
    writer: Writer,
    build_id: int,
    source: SourceRow,
    found: Sequence[PreparedDocument | TouchedFile],
) -> None:
    """Store texts and parses of a batch and stage its versions, in one transaction.

    What was seen of the files is remembered at once: it counts only beside a live version with the
    same digest.
    """
    with writer.transaction() as connection:
        versions: list[VersionRow] = []
        stats: list[tuple[str, StatRow]] = []
        for document in found:
            if isinstance(document, TouchedFile):
                stats.append((document.document_id, document.stat))
                continue
            version = document.version
            if document.stat is not None:
                stats.append((version.document_id, document.stat))
            if document.parse is not None:
                content_id = put_content(connection, document.text)
                known = find_parse(connection, content_id, document.recipe)
                if known is None or document.is_anew:
                    put = put_parse_again if document.is_anew else put_parse
                    parse_id = put(
                        connection,
                        content_id,
                        document.recipe,
                        document.text,
                        document.parse,
                        document.chunks,
                    )
                    known = (parse_id, len(document.chunks))
                version = replace(version, parse_id=known[0], chunks=known[1])
            versions.append(version)
        stage_versions(connection, build_id, source.source_id, versions)
        put_file_stats(connection, source.source_id, stats)
    writer.bound_log()


def text_at(content: str, place: ChunkPlace) -> str:
    """What an embedder gets for a stored chunk of a content."""
    body = rendered_text(content[place.start_char : place.end_char], place.rendered)
    heading = lost_heading(place.heading_path, place.heading_line, place.is_continuation)
    return embedding_text(body, heading=heading, context=place.context)


def key_at(content: str, place: ChunkPlace) -> bytes | None:
    """The key of that, or None for a chunk that is not embedded: raw ones, and what is markup alone."""
    if not place.is_body:
        return None
    part = content[place.start_char : place.end_char]
    if place.rendered and not rendered_text(part, place.rendered).strip():
        return None
    return embedding_key(text_at(content, place))
