"""An embedder behind HTTP: any service with `/embeddings` of the OpenAI protocol."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from sqlindex.embedding.parallel import run_parallel
from sqlindex.embedding.retrying import FIRST_WAIT_S
from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.embedding.service_identity import Learned, budget_of, learned
from sqlindex.embedding.service_replies import EmbeddingReply
from sqlindex.embedding.service_requests import ServiceRequests
from sqlindex.embedding.stopping import Stop
from sqlindex.errors import EmbedderError, EmbedderMismatchError, InputTooLongError
from sqlindex.ports import OverLongPolicy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_PROBE = "dimensions"
"""Embedded to learn the width, where nothing else tells it."""


class ServiceEmbedder:
    """Embeds texts with a service; implements `Embedder` and `TokenLimited`.

    Making one costs nothing and sends nothing. The first use asks the service for its model, limits
    and revision, and these stay: a reply of another model or revision is an error, after which the
    service is asked anew. All limits are kept before anything is sent. Safe to share between
    threads, not over a fork; pickled, it is its configuration.

    The key is read for each request from where the configuration says, and kept nowhere.
    """

    def __init__(self, config: ServiceConfig, *, first_wait_s: float = FIRST_WAIT_S) -> None:
        """Take the service.

        Args:
            first_wait_s: before the first repetition of a request, where the service names no time.
        """
        self._config = config
        self._first_wait_s = first_wait_s
        self._requests = ServiceRequests(config, first_wait_s=first_wait_s)
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._stops: set[Stop] = set()
        self._is_closed = False
        self._learned: Learned | None = None

    def __reduce__(self) -> tuple[Callable[[], ServiceEmbedder], tuple[()]]:
        """Pickled, it is its configuration; what it has learned is learned anew."""
        return partial(ServiceEmbedder, self._config, first_wait_s=self._first_wait_s), ()

    def __repr__(self) -> str:
        return f"ServiceEmbedder({self._config.title})"

    @property
    def identity(self) -> str:
        """Model, revision (or the address, where none is known), width, truncation, versions.

        Asks the service, the first time. Not a part of it: the key, limits of requests, timeouts, and
        the query instruction.

        Raises:
            EmbedderUnavailableError: the service cannot be reached, or does not answer in time.
            EmbedderRefusedError: it refuses, or takes less than is configured.
            EmbedderReplyError: its answer makes no sense.
            EmbedderMismatchError: it is another model, revision or width than is configured.
            ApiKeyError: the key is not where it should be.
        """
        with self._call() as stop:
            return self._known(stop).identity

    @property
    def query_identity(self) -> str:
        """Query encoding: the identity and the instruction. What keeps query vectors, keys them by it."""
        return f"{self.identity}|query instruction {self._config.query_instruction!r}"

    @property
    def dimensions(self) -> int:
        """Width of every vector; raises as `identity`."""
        with self._call() as stop:
            return self._known(stop).dimensions

    @property
    def token_limit(self) -> int:
        """Most tokens of one text, as `count_tokens` estimates them; raises as `identity`."""
        with self._call() as stop:
            return self._known(stop).budget.max_tokens

    @property
    def over_long_policy(self) -> OverLongPolicy:
        """As configured."""
        return self._config.over_long

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, estimated: UTF-8 bytes by the configured number; raises as `identity`.

        A text of more than 16,000 UTF-16 units counts as over the limit.
        """
        if isinstance(texts, str):
            raise ValueError("texts must be a sequence of texts, not one text")
        with self._call() as stop:
            budget = self._known(stop).budget
            return [budget.tokens(text) for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed document texts, in several requests at a time.

        Returns:
            float32 array of shape (len(texts), dimensions), C-contiguous, finite, no zero row; row i
            belongs to `texts[i]`. The array is the caller's.

        Raises:
            InputTooLongError: a text is over the limit and the policy is not to cut it.
            BadVectorError: the service gave a vector of another width, not finite, or zero.
            EmbedderMismatchError: the service changed its model or revision meanwhile.
            EmbedderError: as `identity`; or the embedder was closed.
        """
        if isinstance(texts, str):
            raise ValueError("texts must be a sequence of texts, not one text")
        with self._call() as stop:
            return self._embed(texts, stop)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Embed a query, with the query instruction in front.

        Returns:
            float32 array of shape (dimensions,), finite, not zero. The array is the caller's.

        Raises:
            As `embed_documents`.
        """
        with self._call() as stop:
            vectors = self._embed([self._config.query_instruction + text], stop)
            return vectors.reshape(-1)

    def close(self) -> None:
        """End running calls with an error and close all connections; later calls fail.

        Closing twice is fine. Returns at once: a call that is ended closes its connection itself.
        """
        if os.getpid() != self._process_id:
            return  # the sockets are the parent's
        with self._lock:
            self._is_closed = True
            stops = list(self._stops)
        for stop in stops:
            stop.set()
        self._requests.close()

    @contextmanager
    def _call(self) -> Iterator[Stop]:
        if os.getpid() != self._process_id:
            raise EmbedderError(
                "the embedder was made in another process", hint="make one in the child process"
            )
        stop = Stop()
        with self._lock:
            if self._is_closed:
                raise EmbedderError("the embedder is closed", hint="make a new one")
            self._stops.add(stop)
        try:
            yield stop
        finally:
            with self._lock:
                self._stops.discard(stop)

    def _known(self, stop: Stop) -> Learned:
        """What the service is, asked if it is not known."""
        with self._lock:
            known = self._learned
        if known is not None:
            return known
        # Without the lock: a caller that was left behind here must not hold up the next one.
        found = self._learn(stop)
        with self._lock:
            self._learned = self._learned or found
            return self._learned

    def _learn(self, stop: Stop) -> Learned:
        config = self._config
        ends_at = time.monotonic() + config.total_timeout_s
        entry = self._requests.model_entry(ends_at, stop)
        budget = budget_of(config, entry)
        dimensions, revision = config.dimensions or entry.dimensions, entry.revision
        if dimensions is None or not (revision or config.revision):
            try:
                reply = self._requests.embed([_PROBE], None, ends_at, stop)
            except EmbedderError as exc:
                exc.row = None  # no text of the caller's
                raise
            if revision and reply.revision and reply.revision != revision:
                raise self._changed(revision, reply.revision)
            dimensions, revision = reply.vectors.shape[1], revision or reply.revision
        return learned(config, budget, dimensions=dimensions, revision=revision)

    def _embed(self, texts: Sequence[str], stop: Stop) -> npt.NDArray[np.float32]:
        import numpy as np

        known = self._known(stop)
        sound = [self._fitting(known, row, text) for row, text in enumerate(texts)]
        vectors = np.empty((len(sound), known.dimensions), np.float32)
        confirmed: list[bool] = []

        def embed(rows: range) -> None:
            ends_at = time.monotonic() + self._config.total_timeout_s
            try:
                reply = self._requests.embed(
                    sound[rows.start : rows.stop], known.dimensions, ends_at, stop
                )
            except EmbedderError as exc:
                if exc.row is not None:
                    exc.row += rows.start
                raise
            vectors[rows.start : rows.stop] = reply.vectors
            confirmed.append(self._confirmed(known, reply))

        run_parallel(embed, known.budget.batches(sound), self._config.in_flight, stop)
        if not all(confirmed):
            # Its replies do not say which revision made them, so what was true before must be after.
            ends_at = time.monotonic() + self._config.total_timeout_s
            now = self._requests.model_entry(ends_at, stop).revision
            if now != known.revision:
                raise self._changed(known.revision, now)
        return vectors

    def _confirmed(self, known: Learned, reply: EmbeddingReply) -> bool:
        """Whether a reply is of the known revision; False if it does not say so and could."""
        wanted = known.revision or self._config.revision
        if reply.revision and reply.revision != wanted:
            raise self._changed(wanted, reply.revision)
        return bool(reply.revision) or not known.revision

    def _changed(self, was: str, now: str) -> EmbedderMismatchError:
        with self._lock:
            self._learned = None  # the next use asks anew
        return EmbedderMismatchError(
            f"{self._config.title} changed from revision {was or 'unknown'} to {now or 'unknown'}",
            hint="refresh again; it embeds with the new one",
        )

    def _fitting(self, known: Learned, row: int, text: str) -> str:
        """A text that may be sent: sound, and within the limit."""
        sound = text.encode("utf-8", "replace").decode("utf-8")
        tokens, most = known.budget.tokens(sound), known.budget.max_tokens
        if tokens <= most:
            return sound
        if self._config.over_long == "truncate":
            return known.budget.cut(sound)
        raise InputTooLongError(
            f"a text of about {tokens:,} tokens is over the limit of {most:,} of {self._config.title}",
            hint="shorten it, or choose the policy truncate",
            row=row,
        )
