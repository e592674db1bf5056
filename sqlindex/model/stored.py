"""A document as a generation holds it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document of a generation with its catalog entry and exact text.

    Attributes:
        headings: (1-based line, heading path) in order.
        links: (target, label, start character, is wiki link) as written.
    """

    generation: int
    source: str
    document_id: str
    uri: str | None
    path: str
    title: str
    type_name: str
    language: str
    encoding: str
    byte_size: int
    date: str | None
    tags: tuple[str, ...]
    metadata: dict[str, object]
    front_matter: str
    headings: tuple[tuple[int, tuple[str, ...]], ...]
    links: tuple[tuple[str, str, int, bool], ...]
    chunks: int
    text: str
