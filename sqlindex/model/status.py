"""What an index says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlindex.model.documents import Refusal


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A registered source: how many documents the head has of it, and what was refused.

    Attributes:
        root: the folder or the database; None for a host's.
        selection: of a database: the table, or the query in parentheses.
    """

    name: str
    kind: str
    root: str | None
    documents: int
    refused: Mapping[str, int]
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
    """A document that the last refresh saw and did not index, or kept from an earlier one."""

    source: str
    refusal: Refusal
    is_kept: bool


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """State of an index.

    Attributes:
        embedder: name of the model the index is refreshed with, None for none or the host's own.
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
