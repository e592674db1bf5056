"""Settings as frozen values; what shapes stored data has a fingerprint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChunkConfig:
    """How a section is cut into chunks; part of the parse recipe (see `chunking.chunker`).

    Attributes:
        target_chars: soft size of a chunk; a single longer line stays whole.
        min_chars: a last piece shorter than this joins the piece before it.
        overlap_lines: lines repeated at the start of a continuation chunk.
    """

    target_chars: int = 1_200
    min_chars: int = 300
    overlap_lines: int = 1

    def __post_init__(self) -> None:
        if self.target_chars < 40:
            raise ValueError(f"target_chars must be at least 40, not {self.target_chars}")
        if not 0 <= self.min_chars <= self.target_chars:
            raise ValueError(f"min_chars must be within 0..target_chars, not {self.min_chars}")
        if self.overlap_lines < 0:
            raise ValueError(f"overlap_lines must not be negative, not {self.overlap_lines}")

    @property
    def fingerprint(self) -> str:
        """Short text that changes with every field."""
        return f"{self.target_chars}/{self.min_chars}/{self.overlap_lines}"


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """Settings of the write side.

    Attributes:
        chunks: how documents are cut (shapes stored data).
        documents_per_batch: documents parsed and staged in one transaction.
        embedding_batch: texts embedded between two durable steps.
        staged_fts_chunks: from this many changed chunks on, the spare lexical table is filled
            in small transactions and swapped, instead of being changed inside the publish.
        log_pause_mb: a refresh waits once the log is longer than that because a reader does not
            end; the disk must not fill.
    """

    chunks: ChunkConfig = ChunkConfig()
    documents_per_batch: int = 64
    embedding_batch: int = 32
    staged_fts_chunks: int = 20_000
    log_pause_mb: int = 1_000

    def __post_init__(self) -> None:
        for name in ("documents_per_batch", "embedding_batch", "staged_fts_chunks", "log_pause_mb"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


MAX_RETENTION = 2**63 - 1
"""The greatest integer that a statement of SQLite takes."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What collection leaves: the head, tagged and held generations, and these; kept in the index.

    Attributes:
        generations: this many of the latest, the head included.
        days: and those that were the head within so many days.
        vector_days: vectors that no kept generation uses stay this long after their last use.

    Raises:
        ValueError: one is negative, no generation is kept, or a number is beyond `MAX_RETENTION`.
    """

    generations: int = 5
    days: int = 0
    vector_days: int = 30

    def __post_init__(self) -> None:
        for name, least in (("generations", 1), ("days", 0), ("vector_days", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} must be a whole number from {least} on, not {value!r}")
            if value > MAX_RETENTION:
                raise ValueError(f"{name} must be at most {MAX_RETENTION}, not {value}")


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """Settings of the read side.

    Attributes:
        rank_constant: of reciprocal rank fusion.
        title_weight, headings_weight, body_weight, tags_weight, path_weight: BM25 field weights.
        busy_timeout_ms: how long a reader waits for a lock of SQLite.
        deadline_ms: how long SQLite may work for one reading; in a damaged or hostile file a
            statement may never end.
    """

    rank_constant: int = 60
    title_weight: float = 2.0
    headings_weight: float = 2.0
    body_weight: float = 1.0
    tags_weight: float = 1.0
    path_weight: float = 0.5
    busy_timeout_ms: int = 5_000
    deadline_ms: int = 60_000

    def __post_init__(self) -> None:
        if self.deadline_ms < 1:
            raise ValueError(f"deadline_ms must be at least 1, not {self.deadline_ms}")
        if self.rank_constant < 1:
            raise ValueError(f"rank_constant must be at least 1, not {self.rank_constant}")
        for name in ("title", "headings", "body", "tags", "path"):
            weight = getattr(self, f"{name}_weight")
            if not 0 <= weight < float("inf"):
                raise ValueError(f"{name}_weight must be a number from 0 on, not {weight}")
