"""From a document's bytes to chunks ready to store: decode, parse, chunk. Pure but for look-ups."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlindex.chunking.chunker import CHUNKER_VERSION, chunk_document
from sqlindex.chunking.embedding_text import (
    EMBEDDING_INPUT_VERSION,
    embedding_key,
    embedding_text,
    lost_heading,
)
from sqlindex.chunking.identity import content_fingerprint, occurrences
from sqlindex.chunking.token_limit import TokenLimit
from sqlindex.config import IndexConfig
from sqlindex.dates import normal_date
from sqlindex.errors import SqlindexError, StorageError
from sqlindex.filetypes.decoding import Decoded, decode
from sqlindex.filetypes.registry import FileType, FileTypeRegistry
from sqlindex.filetypes.unsupported import unsupported
from sqlindex.indexing.given import check_parsed
from sqlindex.model.chunks import ChunkSpan
from sqlindex.model.documents import (
    DocumentRef,
    ParsedDocument,
    RawDocument,
    Refusal,
    RefusalReason,
)
from sqlindex.ports import Parser
from sqlindex.rendering import rendered_text
from sqlindex.store.contents import find_content
from sqlindex.store.documents import VersionRow
from sqlindex.store.driver import Connection
from sqlindex.store.parses import PreparedChunk, find_parse, parse_catalog
from sqlindex.store.sources import StatRow


def input_mark() -> str:
    """What a recipe says of how embedding texts are made."""
    return f"input-{EMBEDDING_INPUT_VERSION}"


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document ready to stage.

    Attributes:
        version: what its version will say; `parse_id` is 0 until the parse is stored.
        recipe: what made the chunks.
        text: decoded.
        parse: None when the store holds this text under this recipe already.
        chunks: in order; empty when `parse` is None.
        stat: of the file that was read, to be remembered; None for other documents.
        is_anew: whether the parse counts although the store may hold one of the same recipe.
    """

    version: VersionRow
    recipe: str
    text: str
    parse: ParsedDocument | None
    chunks: tuple[PreparedChunk, ...] = ()
    stat: StatRow | None = None
    is_anew: bool = False


Parsed: TypeAlias = tuple[ParsedDocument, tuple[PreparedChunk, ...]]
"""What a parser found in a text, and the chunks that it is cut into."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A document that is decoded and is still to be parsed."""

    ref: DocumentRef
    raw: RawDocument
    raw_digest: bytes
    decoded: Decoded
    recipe: str
    is_anew: bool


@dataclass(frozen=True, slots=True)
class Workshop:
    """The tools that turn bytes into chunks; `token_limit` is that of the embedder, if it has one."""

    registry: FileTypeRegistry
    parser_of: Callable[[FileType], Parser]
    config: IndexConfig
    token_limit: TokenLimit | None = None
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    recipes: dict[str, str | None] = field(default_factory=dict)
    """Those that have been asked for, by type name: they stay the same for a whole run."""

    def recipe(self, type_name: str) -> str | None:
        """What makes the chunks of that type now: parser, chunker, options and their versions.

        None for an unknown type. A parser without a version gets a recipe of its own in each
        run, so its output is never reused.
        """
        if type_name not in self.recipes:
            self.recipes[type_name] = self._recipe(type_name)
        return self.recipes[type_name]

    def _recipe(self, type_name: str) -> str | None:
        file_type = self.registry.for_extension(type_name)
        if file_type is None:
            return None
        parser = self.parser_of(file_type)
        version = f"unversioned-{self.token}" if parser.version is None else str(parser.version)
        return (
            f"{parser.id}-{version};chunk-{CHUNKER_VERSION}:{self.cuts};"
            f"{input_mark()};{file_type.language}"
        )

    @property
    def cuts(self) -> str:
        """Short text that changes with the sizes that chunks are cut to."""
        sizes = self.config.chunks.fingerprint
        return sizes if self.token_limit is None else f"{sizes}/{self.token_limit.fingerprint}"

    def readers(self) -> list[str]:
        """Which parser, of which version, reads each file type; one line each, sorted."""
        lines = []
        for file_type in self.registry.types:
            parser = self.parser_of(file_type)
            extensions = " ".join(file_type.extensions)
            lines.append(f"{file_type.name} {extensions}: {parser.id}-{parser.version}")
        return sorted(lines)

    def prepare(
        self,
        connection: Connection,
        ref: DocumentRef,
        raw: RawDocument,
        raw_digest: bytes,
        *,
        is_anew: bool = False,
    ) -> PreparedDocument | Draft | Refusal:
        """Decode a document; it is ready if the store holds its text parsed and cut already.

        Args:
            is_anew: whatever the store holds.
        """
        file_type = self.registry.for_extension(ref.type_name)
        if file_type is None:
            return unsupported(ref.document_id, ref.type_name)
        decoded = decode(raw.data)
        if not isinstance(decoded, Decoded):
            return Refusal(ref.document_id, decoded.reason, decoded.detail, decoded.hint)
        recipe = self.recipe(ref.type_name)
        assert recipe is not None
        content_id = None if is_anew else find_content(connection, decoded.text)
        known = None if content_id is None else find_parse(connection, content_id, recipe)
        if known is None:
            return Draft(ref, raw, raw_digest, decoded, recipe, is_anew)
        title, date, tags = parse_catalog(connection, known[0])
        version = _version(ref, raw, raw_digest, decoded, title, date, tags)
        return PreparedDocument(_with_parse(version, *known), recipe, decoded.text, None)

    def finish(self, draft: Draft, outcome: Parsed | Exception) -> PreparedDocument | Refusal:
        """A document that was decoded, with what parsing and cutting its text gave or raised."""
        ref, decoded = draft.ref, draft.decoded
        if isinstance(outcome, SqlindexError):
            raise outcome
        if isinstance(outcome, MemoryError):
            # Of no document's making: to refuse it would take a good version out of the index.
            raise StorageError(
                f"no memory left while parsing {ref.document_id!r}", hint="refresh again"
            ) from outcome
        if isinstance(outcome, Exception):
            # A parser is total by contract; one that is not must not stop the other documents.
            file_type = self.registry.for_extension(ref.type_name)
            parser = None if file_type is None else file_type.parser
            detail = f"parser {parser!r} failed: {type(outcome).__name__}: {outcome}"
            return Refusal(ref.document_id, RefusalReason.PARSER, detail, "report it with the file")
        parsed, chunks = outcome
        version = _version(
            ref, draft.raw, draft.raw_digest, decoded, parsed.title, parsed.date, parsed.tags
        )
        return PreparedDocument(
            _with_parse(version, 0, len(chunks)),
            draft.recipe,
            decoded.text,
            parsed,
            chunks,
            is_anew=draft.is_anew,
        )

    def parsed(self, type_name: str, text: str) -> Parsed:
        """What the parser of a registered type finds in a text, and the chunks it is cut into."""
        file_type = self.registry.for_extension(type_name)
        assert file_type is not None
        parsed = self.parser_of(file_type).parse(text, file_type.language)
        check_parsed(text, parsed)
        return parsed, self._chunks(text, parsed)

    def _chunks(self, text: str, parsed: ParsedDocument) -> tuple[PreparedChunk, ...]:
        spans = chunk_document(text, parsed, self.config.chunks, self.token_limit)
        fingerprints = [
            content_fingerprint(text[span.start_char : span.end_char]) for span in spans
        ]
        chunks = []
        for span, mark, occurrence in zip(
            spans, fingerprints, occurrences(fingerprints), strict=True
        ):
            key = None
            if span.is_embedded:
                key = embedding_key(input_of(text, parsed, span))
            chunks.append(PreparedChunk(span, mark, occurrence, key))
        return tuple(chunks)


def input_of(text: str, parsed: ParsedDocument, span: ChunkSpan) -> str:
    """What an embedder gets for a chunk of a text."""
    section = parsed.sections[span.section]
    heading = lost_heading(section.heading_path, section.heading_line, span.is_continuation)
    body = rendered_text(text[span.start_char : span.end_char], span.rendered)
    return embedding_text(body, heading=heading, context=span.context)


def _version(
    ref: DocumentRef,
    raw: RawDocument,
    raw_digest: bytes,
    decoded: Decoded,
    title: str | None,
    date: str | None,
    tags: tuple[str, ...],
) -> VersionRow:
    return VersionRow(
        document_id=ref.document_id,
        parse_id=0,
        chunks=0,
        raw_digest=raw_digest,
        byte_size=len(raw.data),
        encoding=decoded.encoding,
        path=ref.path,
        type_name=ref.type_name,
        title=raw.title or title or _stem(ref.path),
        date=normal_date(raw.date or date or ""),
        tags=tuple(dict.fromkeys((*raw.tags, *tags))),
        uri=raw.uri,
        metadata=raw.metadata,
        modified_ns=raw.modified_ns,
    )


def _with_parse(version: VersionRow, parse_id: int, chunks: int) -> VersionRow:
    return replace(version, parse_id=parse_id, chunks=chunks)


def _stem(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    stem = name.rsplit(".", 1)[0]
    return stem or name
