"""What an index says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlindex.model.documents import Refusal
from sqlindex.model.gate import GatedGeneration


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A registered source.

    Attributes:
        root: the folder or the database; None for a host's.
        selection: of a database: the table, or the query in parentheses.
        documents: that the head has of it.
        refused: how many the last refresh saw and did not index, by reason.
        left_out: how many files and folders its rules keep out, by reason.
        kept: refused ones whose earlier version is still served.
    """

    name: str
    kind: str
    root: str | None
    documents: int
    refused: Mapping[str, int]
    left_out: Mapping[str, int]
    kept: int
    selection: str | None = None

    @property
    def where(self) -> str:
        """Where the documents come from, for people."""
        if self.root is None:
            return "(host)"
        return self.root if self.selection is None else f"{self.root}: {self.selection}"


@dataclass(frozen=True, slots=True)
class RefusedDocument:
    """A document that the last refresh saw and did not index, or kept from an earlier one; or a
    file or folder (its id ends in a slash) that rules leave out, as its reason says."""

    source: str
    refusal: Refusal
    is_kept: bool


@dataclass(frozen=True, slots=True)
class FileStatus:
    """Whether a file is in the index, as the last refresh saw it.

    Attributes:
        source, document_id: where it belongs.
        is_indexed: whether the head holds it.
        chunks: of it, 0 if it is not in; for a folder, of all documents below it.
        documents: 1 or 0; for a folder, those below it.
        refusal: why it, or a folder above it, is not in; None if it is, or was never seen.
    """

    source: str
    document_id: str
    is_indexed: bool
    documents: int
    chunks: int
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class UnfinishedRefresh:
    """A refresh that was interrupted: the next one of the same sources goes on with it.

    Attributes:
        started_at: UTC, ISO 8601.
        documents: staged so far.
        embedder: identity of the encoding that it was begun with, or None.
    """

    started_at: str
    documents: int
    embedder: str | None


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """State of an index.

    Attributes:
        kept_generations: how many can be searched, the head included.
        unfinished: refreshes that were interrupted, oldest first.
        chunk_chars: soft size of the chunks that the index was set up with; None for the default.
        documents_cut_otherwise: how many of the head were cut into chunks of another size than
            `chunk_chars`; 0 for the default.
        gated: a generation that a gate keeps from being published, or None.
        is_collecting: whether a collection was interrupted; the next refresh goes on with it.
        embedder: name of the model the index is refreshed with, or `service MODEL at URL`; None for
            none or the host's own.
        space: identity of the encoding that the head's vectors were made with, or None.
        file_bytes, log_bytes: sizes on disk.
    """

    path: str
    schema_version: int
    sqlite_version: str
    driver: str
    generation: int
    published_at: str
    documents: int
    chunks: int
    embedder: str | None
    space: str | None
    default_mode: str
    sources: tuple[SourceStatus, ...]
    file_bytes: int
    log_bytes: int
    kept_generations: int = 1
    unfinished: tuple[UnfinishedRefresh, ...] = ()
    is_collecting: bool = False
    chunk_chars: int | None = None
    gated: GatedGeneration | None = None
    documents_cut_otherwise: int = 0


@dataclass(frozen=True, slots=True)
class FileCondition:
    """What an index file is like inside.

    Attributes:
        journal_mode: `wal`; another word for a copy that nobody has written to yet.
        free_bytes: of pages that hold nothing; compacting gives them back.
        log_holders: ids of other processes that read by way of the log just now (Linux only).
        tags: names of tagged generations.
        foreign_sidecars: files beside the index that belong to another user than it does.
    """

    journal_mode: str
    free_bytes: int
    log_holders: tuple[int, ...]
    tags: tuple[str, ...]
    foreign_sidecars: tuple[str, ...]
