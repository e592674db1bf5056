"""The two requests of the protocol, and what follows from each status of HTTP."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlindex.embedding.api_key import ApiKey, read_key
from sqlindex.embedding.retrying import with_retries
from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.embedding.service_http import Reply, ServiceHttp
from sqlindex.embedding.service_replies import (
    EmbeddingReply,
    ModelEntry,
    read_embeddings,
    read_models,
    refusal_text,
)
from sqlindex.embedding.stopping import Stop
from sqlindex.errors import (
    EmbedderError,
    EmbedderMismatchError,
    EmbedderRefusedError,
    EmbedderReplyError,
    InputTooLongError,
)

_MAX_LIST_BYTES = 4 << 20
_REPLY_BYTES = 1 << 16
_NUMBER_BYTES = 48
"""Of a component, written out and indented."""
_UNKNOWN_WIDTH = 16_384

_NO_LIST = frozenset({404, 405})
_OF_THE_TEXTS = frozenset({400, 413, 422})


class ServiceRequests:
    """Sends requests to a service. Safe to share between threads."""

    def __init__(self, config: ServiceConfig, *, first_wait_s: float) -> None:
        self._config = config
        self._first_wait_s = first_wait_s
        self._http = ServiceHttp(config.url, read_timeout_s=config.read_timeout_s)
        self._asks_base64 = True
        self._knows_format = False

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def model_entry(self, ends_at: float, stop: Stop) -> ModelEntry:
        """What the service lists of the model; an empty entry if it has no list, or the list not it.

        Raises:
            EmbedderError: there is no sensible answer in time.
        """
        key = read_key(self._config)
        reply = self._send("GET", "/models", None, _MAX_LIST_BYTES, key, ends_at, stop)
        if reply.status in _NO_LIST:
            return ModelEntry()
        if reply.status != 200:
            raise self._refused(reply)
        entry = read_models(reply.body, self._config.model, self._config.title)
        self._require_no_key(key, entry.revision)
        return entry

    def embed(
        self, texts: Sequence[str], dimensions: int | None, ends_at: float, stop: Stop
    ) -> EmbeddingReply:
        """The vectors of texts that may share a request.

        Texts that are refused together are sent one by one: either each is taken, or the one that is
        not is named by the error's `row`.

        Raises:
            EmbedderError: there is no sensible answer in time.
        """
        key = read_key(self._config)
        reply = self._post(texts, dimensions, key, ends_at, stop)
        if reply.status in _OF_THE_TEXTS and not self._knows_format and self._asks_base64:
            # Perhaps it is the format that it does not know.
            plain = self._post(texts, dimensions, key, ends_at, stop, is_plain=True)
            if plain.status == 200:
                self._asks_base64, reply = False, plain
        if reply.status in _OF_THE_TEXTS and len(texts) > 1:
            return self._one_by_one(texts, dimensions, ends_at, stop)
        if reply.status != 200:
            raise self._refused(reply, row=0 if reply.status in _OF_THE_TEXTS else None)
        self._knows_format = True
        found = read_embeddings(reply.body, len(texts), dimensions, self._config.title)
        self._require_no_key(key, found.model, found.revision)
        wanted = self._config.answers_as or self._config.model
        if found.model and found.model != wanted:
            raise EmbedderMismatchError(
                f"{self._config.title} answers as model {found.model}, not {wanted}",
                hint="if that is the same model, say so: answers_as, --embedder-answers-as",
            )
        return found

    def _one_by_one(
        self, texts: Sequence[str], dimensions: int | None, ends_at: float, stop: Stop
    ) -> EmbeddingReply:
        import numpy as np

        replies = []
        for row, text in enumerate(texts):
            try:
                replies.append(self.embed([text], dimensions, ends_at, stop))
            except EmbedderError as exc:
                exc.row = row if exc.row is not None else None
                raise
        revisions = {reply.revision for reply in replies}
        if len(revisions) > 1:
            raise EmbedderMismatchError(
                f"{self._config.title} changed its revision", hint="refresh again"
            )
        vectors = np.concatenate([reply.vectors for reply in replies])
        return EmbeddingReply(vectors, replies[0].model, revisions.pop())

    def _post(
        self,
        texts: Sequence[str],
        dimensions: int | None,
        key: ApiKey | None,
        ends_at: float,
        stop: Stop,
        *,
        is_plain: bool = False,
    ) -> Reply:
        asked: dict[str, object] = {"model": self._config.model, "input": list(texts)}
        if self._asks_base64 and not is_plain:
            asked["encoding_format"] = "base64"
        if self._config.dimensions is not None:
            asked["dimensions"] = self._config.dimensions
        width = dimensions or self._config.dimensions or _UNKNOWN_WIDTH
        max_bytes = _REPLY_BYTES + len(texts) * width * _NUMBER_BYTES
        body = json.dumps(asked).encode("ascii")
        return self._send("POST", "/embeddings", body, max_bytes, key, ends_at, stop)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        max_bytes: int,
        key: ApiKey | None,
        ends_at: float,
        stop: Stop,
    ) -> Reply:
        return with_retries(
            lambda: self._http.exchange(
                method, path, body, key=key, max_bytes=max_bytes, ends_at=ends_at, stop=stop
            ),
            title=self._config.title,
            retries=self._config.retries,
            ends_at=ends_at,
            first_wait_s=self._first_wait_s,
            stop=stop,
        )

    def _refused(self, reply: Reply, row: int | None = None) -> EmbedderError:
        said = refusal_text(reply.body)
        what = f"{self._config.title} refuses with HTTP status {reply.status}"
        what += f": {said}" if said else ""
        if 300 <= reply.status < 400:
            return EmbedderRefusedError(
                f"{self._config.title} leads elsewhere (HTTP status {reply.status}), and is not followed",
                hint="configure the address that is meant",
            )
        if reply.status in (401, 403):
            return EmbedderRefusedError(what, hint="look at the key, and where it is read from")
        if reply.status == 404:
            return EmbedderRefusedError(what, hint="look at the address and the model's name")
        if reply.status == 413:
            return InputTooLongError(what, hint="configure fewer tokens of a text", row=row)
        if 200 <= reply.status < 300:
            return EmbedderReplyError(
                f"{self._config.title} answers with HTTP status {reply.status}"
            )
        return EmbedderRefusedError(what, row=row)

    def _require_no_key(self, key: ApiKey | None, *names: str) -> None:
        """Refuse names that hold the key: they would be stored in the index."""
        if key is not None and any(key.is_in(name) for name in names):
            raise EmbedderReplyError(f"{self._config.title} repeats the key as a name")
