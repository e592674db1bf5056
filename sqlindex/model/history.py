"""Generations as they are listed, and the documents of one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Generation:
    """A published generation and what its refresh did.

    Attributes:
        number: 0 is the empty index.
        published_at: UTC, ISO 8601, to the second.
        cause: what published it: `refresh`, `upsert`, `remove`, `source removed`, …
        restored: the generation whose documents a rollback brought back, or None.
        documents, chunks: that it holds.
        added, changed, removed, renamed: documents, against the generation before.
        embedded: texts inferred for it.
        embedder: identity of the encoding of its vectors, or None: it has none.
        is_kept: False once it has been collected: it can no longer be read.
        is_head: whether searches answer from it.
        tags: its names, in order.
    """

    number: int
    published_at: str
    cause: str
    restored: int | None
    documents: int
    chunks: int
    added: int
    changed: int
    removed: int
    renamed: int
    embedded: int
    embedder: str | None
    is_kept: bool
    is_head: bool
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """A document of a generation, without its text.

    Attributes:
        source, document_id: its identity.
        path: for display.
        byte_size: of the file, or of the host's text in UTF-8.
        date: ISO 8601, the document's own, or None.
    """

    source: str
    document_id: str
    path: str
    title: str
    type_name: str
    byte_size: int
    chunks: int
    date: str | None
