"""Who calls the embedder: this process, or the workers of a crew; a batch at a time each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from sqlindex.cancellation import WorkerThread
from sqlindex.chunking.token_limit import surely_fits
from sqlindex.errors import EmbedderError, SqlindexError
from sqlindex.ports import CountingEmbedder, Embedder, TokenLimited


class Encoding(NamedTuple):
    """What an embedder says of itself."""

    identity: str
    dimensions: int
    token_limit: int | None

    @classmethod
    def of(cls, embedder: Embedder) -> Encoding:
        """What it says now."""
        limit = embedder.token_limit if isinstance(embedder, TokenLimited) else None
        return cls(embedder.identity, embedder.dimensions, limit)


class Inferred(NamedTuple):
    """What an embedder made of a batch, and what it then said of itself.

    Attributes:
        vectors: as it gave them; None if it was not asked, since a text is over its limit and it
            does not cut it.
        over_long: rows of the texts that are over its limit.
    """

    vectors: object
    over_long: list[int]
    identity: str
    dimensions: int


class Hands(Protocol):
    """Embeds batches while the caller reads and stores."""

    @property
    def is_free(self) -> bool:
        """Whether another batch can be started."""

    def start(self, number: int, texts: Sequence[str]) -> None:
        """Begin with a batch."""

    def finished(self) -> tuple[int, Inferred | Exception]:
        """Wait for a batch that was started: its number, and what came of it.

        Raises:
            CancelledError: cancelled while waiting; it may be running on, and its outcome is dropped.
            SqlindexError: what the embedder raised of the kind.
        """


class OwnHands:
    """One batch at a time, in the worker thread of an operation."""

    def __init__(self, embedder: Embedder, worker: WorkerThread) -> None:
        self._embedder = embedder
        self._worker = worker
        self._started: tuple[int, Callable[[], tuple[object, list[int]]]] | None = None

    @property
    def is_free(self) -> bool:
        """Whether no batch is running."""
        return self._started is None

    def start(self, number: int, texts: Sequence[str]) -> None:
        """Begin with a batch; without a cancel token this returns when it is done."""
        self._started = number, self._worker.start(partial(infer, self._embedder, texts))

    def finished(self) -> tuple[int, Inferred | Exception]:
        """Wait for the batch; see `Hands`."""
        assert self._started is not None
        (number, outcome), self._started = self._started, None
        try:
            vectors, over_long = self._worker.run(outcome)
        except SqlindexError as exc:
            if is_of_a_text(exc):
                return number, exc
            raise
        except Exception as exc:  # a host's embedder may raise anything
            return number, exc
        return number, Inferred(
            vectors, over_long, self._embedder.identity, self._embedder.dimensions
        )


def is_of_a_text(exc: SqlindexError) -> bool:
    """Whether an error is about one text of the batch, which the caller can name."""
    return isinstance(exc, EmbedderError) and exc.row is not None


def infer(embedder: Embedder, texts: Sequence[str]) -> tuple[object, list[int]]:
    """(vectors, rows of the texts that are over the limit); no text is tokenised twice if it can be.

    The vectors are None if there are such texts and the embedder does not cut them.
    """
    if not isinstance(embedder, TokenLimited):
        return embedder.embed_documents(texts), []
    # With the policy `window` chunks have been cut already: what is left are heading and context.
    limit, fails = embedder.token_limit, embedder.over_long_policy != "truncate"
    if isinstance(embedder, CountingEmbedder) and not fails:
        vectors, counts = embedder.embed_counted(texts)
        return vectors, [row for row, tokens in enumerate(counts) if tokens > limit]
    rows = [row for row, text in enumerate(texts) if not surely_fits(text, limit)]
    counts = embedder.count_tokens([texts[row] for row in rows]) if rows else []
    over_long = [row for row, tokens in zip(rows, counts, strict=True) if tokens > limit]
    return None if fails and over_long else embedder.embed_documents(texts), over_long
