"""What is asked: the query, the mode, and the filters that every channel obeys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Mode = Literal["lexical", "semantic", "hybrid"]
MODES: tuple[Mode, ...] = ("lexical", "semantic", "hybrid")

DEFAULT_LIMIT = 8
MAX_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Filters:
    """Which documents may be found; an empty field lets all through, fields are combined with AND.

    Attributes:
        sources: names of sources.
        path_prefix: documents whose path begins so; `docs/` means below that folder.
        path_glob: shell pattern over the whole path; `*` and `?` match `/` too, case counts.
        extensions: with or without dot, any case.
        languages: of the text, as `status` and hits show them.
        tags_any: at least one of these tags.
        tags_all: every one of these tags.
        date_from: ISO 8601; the document's own date, else the file's last change.
        date_to: ISO 8601, that day or moment included.
        metadata: fields of the host that must have exactly these values.
    """

    sources: frozenset[str] = frozenset()
    path_prefix: str | None = None
    path_glob: str | None = None
    extensions: frozenset[str] = frozenset()
    languages: frozenset[str] = frozenset()
    tags_any: frozenset[str] = frozenset()
    tags_all: frozenset[str] = frozenset()
    date_from: str | None = None
    date_to: str | None = None
    metadata: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("sources", "extensions", "languages", "tags_any", "tags_all"):
            value: object = getattr(self, name)
            if isinstance(value, str):
                raise ValueError(f"{name} must be a set of texts, not the text {value!r}")
            object.__setattr__(self, name, frozenset(getattr(self, name)))


NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search.

    Attributes:
        query: as typed.
        mode: None for hybrid if the generation has vectors and there is an embedder, else lexical.
        limit: hits wanted, 1 to 100.
        offset: hits to leave out, for paging.
        at: the generation that answers; None for the head.
        cursor: of the page before: it names the generation, the mode and the offset.
    """

    query: str
    mode: Mode | None = None
    limit: int = DEFAULT_LIMIT
    offset: int = 0
    filters: Filters = NO_FILTERS
    at: int | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        if self.mode is not None and self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"limit must be within 1..{MAX_LIMIT}, not {self.limit}")
        if self.offset < 0:
            raise ValueError(f"offset must not be negative, not {self.offset}")
