"""What a refresh would do now: the same documents and embedding inputs, and what those will cost."""

from __future__ import annotations

import reprlib
import time
from bisect import insort
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from numbers import Real
from typing import Any, TypeVar

from sqlindex.cancellation import WorkerThread
from sqlindex.errors import BadVectorError, EmbedderError, SqlindexError
from sqlindex.indexing.inference import infer
from sqlindex.indexing.parsing import OwnParsing
from sqlindex.indexing.prepare import PreparedDocument, input_of
from sqlindex.indexing.refresh import (
    RefreshJob,
    end_walk,
    rebuilt_layers,
    require_width,
    walk_listing,
)
from sqlindex.indexing.report import Changes, EmbeddingEstimate, Tally, changes_of
from sqlindex.indexing.resume import require_fitting
from sqlindex.indexing.stored_inputs import InputReader
from sqlindex.ports import Embedder, RunsLocally, TokenLimited
from sqlindex.store.driver import Connection
from sqlindex.store.head import read_head
from sqlindex.store.ledger import Ledger
from sqlindex.store.vectors import (
    StoredInput,
    find_space,
    has_vector,
    lacking_texts,
    live_parses,
    lost_texts,
)

_T = TypeVar("_T")

_SAMPLE = 64
"""Texts whose tokens are counted: with so many the total is within a few percent."""

_TRIED = 16
"""Texts of them that a local embedder is tried on."""


def plan(connection: Connection, job: RefreshJob) -> Changes:
    """What `refresh` would do now: the same documents and the same number of embedding inputs.

    Reads and parses what changed, writes nothing. An embedder that runs in this process embeds a few
    of the texts, to tell how long all of them will take.

    Raises:
        BuildChangedError: an unfinished build stands in the way, as `refresh` would say.
        EmbedderError: the embedder failed on the texts it was tried on.
    """
    require_fitting(connection, job.scope, job.plan, restart=job.restart)
    head = read_head(connection)
    space = None
    if job.embedder is not None:
        space = find_space(connection, job.embedder.identity)
    if job.embedder is not None and space is not None:
        require_width(connection, job.embedder, *space)
    space_id = 0 if space is None else space[0]
    is_new_space = job.embedder is not None and head.space_id != space_id
    planned_space = None if job.embedder is None else space_id
    skips_refused = job.allow_bad_vectors
    tally = Tally()
    with closing(Ledger()) as ledger, WorkerThread(job.cancel) as worker:
        inputs = _Inputs(connection, ledger, space_id, skips_refused=skips_refused)
        for listing in job.listings:
            parsing = OwnParsing(job.workshop, worker)
            with closing(walk_listing(connection, job, listing, ledger, tally, parsing)) as found:
                for document in found:
                    if job.embedder is not None and isinstance(document, PreparedDocument):
                        inputs.add_document(document)
        end_walk(job, ledger)
        if job.embedder is not None:
            for source_id, document_id, lost in lost_texts(connection, space_id):
                if not ledger.ends(source_id, document_id):
                    inputs.add_stored([lost])
        if is_new_space:
            for source_id, document_id, parse_id in live_parses(connection):
                # Those that changed have been counted with what they will be.
                if not ledger.ends(source_id, document_id):
                    inputs.add_parse(parse_id)
        estimate = None
        if job.embedder is not None:
            estimate = _estimate(
                job.embedder,
                inputs.sample,
                ledger.input_chars(),
                worker,
                skips_refused=skips_refused,
            )
        return changes_of(
            ledger,
            job.source_names,
            unchanged=tally.unchanged,
            embedding_inputs=ledger.inputs(),
            rebuilt=rebuilt_layers(connection, head, planned_space, is_new_space=is_new_space),
            estimate=estimate,
        )


class _Sample:
    """The texts with the lowest keys of those offered: keys are digests, so that is as good as lots."""

    def __init__(self) -> None:
        self._kept: list[tuple[bytes, int, str]] = []

    def offer(self, key: bytes, chars: int, text: Callable[[], str]) -> None:
        """Keep a text if its key is among the lowest; it is made only then."""
        if len(self._kept) == _SAMPLE and key >= self._kept[-1][0]:
            return
        if any(key == kept for kept, _, _ in self._kept):
            return
        insort(self._kept, (key, chars, text()))
        del self._kept[_SAMPLE:]

    @property
    def chars(self) -> list[int]:
        """Characters of their chunks."""
        return [chars for _, chars, _ in self._kept]

    @property
    def texts(self) -> list[str]:
        """What an embedder gets for them."""
        return [text for _, _, text in self._kept]


class _Inputs:
    """Notes each embedding text that needs a vector, once."""

    def __init__(
        self, connection: Connection, ledger: Ledger, space_id: int, *, skips_refused: bool
    ) -> None:
        self._connection = connection
        self._ledger = ledger
        self._space_id = space_id
        self._skips_refused = skips_refused
        self._reader = InputReader(connection)
        self.sample = _Sample()

    def add_document(self, document: PreparedDocument) -> None:
        """Those of a document that is to be staged."""
        if document.parse is None:
            self.add_parse(document.version.parse_id)
            return
        for chunk in document.chunks:
            key = chunk.embedding_key
            if key is None or has_vector(
                self._connection, key, self._space_id, skips_refused=self._skips_refused
            ):
                continue
            chars = chunk.span.end_char - chunk.span.start_char
            self._ledger.add_input(key, chars)
            self.sample.offer(
                key, chars, partial(input_of, document.text, document.parse, chunk.span)
            )

    def add_parse(self, parse_id: int) -> None:
        """Those of a parse that is stored."""
        self.add_stored(
            lacking_texts(
                self._connection, self._space_id, parse_id, skips_refused=self._skips_refused
            )
        )

    def add_stored(self, texts: Iterable[StoredInput]) -> None:
        """Some that are stored."""
        for key, chars, parse_id, ord_ in texts:
            self._ledger.add_input(key, chars)
            self.sample.offer(key, chars, partial(self._reader.text, parse_id, ord_))


def _estimate(
    embedder: Embedder, sample: _Sample, chars: int, worker: WorkerThread, *, skips_refused: bool
) -> EmbeddingEstimate:
    """What it takes to embed texts of so many characters, from what a sample of them takes."""
    texts, lengths = sample.texts, sample.chars
    if not texts:
        return EmbeddingEstimate(tokens=0, seconds=0.0)
    tokens = seconds = None
    if isinstance(embedder, TokenLimited):
        limit = embedder.token_limit
        read = sum(min(count, limit) for count in _counts(embedder, texts, worker))
        tokens = round(read * chars / max(1, sum(lengths)))
    if isinstance(embedder, RunsLocally) and embedder.runs_locally:
        tried = texts[:_TRIED]
        try:
            # The first call loads the model.
            _called(partial(infer, embedder, tried[:1]), 1, worker)
            started = time.perf_counter()
            _called(partial(infer, embedder, tried), len(tried), worker)
        except BadVectorError as exc:
            if not skips_refused or exc.row is None:
                raise
        else:
            elapsed = time.perf_counter() - started
            seconds = elapsed * chars / max(1, sum(lengths[:_TRIED]))
    return EmbeddingEstimate(tokens=tokens, seconds=seconds)


def _counts(embedder: TokenLimited, texts: list[str], worker: WorkerThread) -> list[int]:
    """Tokens of each text, as the embedder counts them."""
    counted: list[Any] = _called(lambda: list(embedder.count_tokens(texts)), len(texts), worker)
    is_sound = all(issubclass(type(count), Real) and count >= 0 for count in counted)
    if len(counted) != len(texts) or not is_sound:
        raise EmbedderError(
            f"the embedder counts the tokens of {len(texts)} texts as {reprlib.repr(counted)}",
            hint="count_tokens must give a number from 0 on for each text",
        )
    return counted


def _called(function: Callable[[], _T], texts: int, worker: WorkerThread) -> _T:
    try:
        return worker.run(function)
    except SqlindexError:
        raise
    except Exception as exc:  # a host's embedder may raise anything
        raise EmbedderError(
            f"the embedder failed on a batch of {texts}: {type(exc).__name__}: {exc}",
            hint="see the cause",
        ) from exc
