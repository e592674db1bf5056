"""A service that fails or lies: each fault is a typed error in time, and a refresh goes on behind it."""

from __future__ import annotations

import email.utils
import time
from pathlib import Path
from typing import Any

import pytest

from sqlindex import CancelToken, Document, Index
from sqlindex.config import IndexConfig
from sqlindex.embedding.retrying import backoff, wanted_wait
from sqlindex.embedding.service import ServiceEmbedder
from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.errors import (
    BadVectorError,
    CancelledError,
    EmbedderError,
    EmbedderMismatchError,
    EmbedderRefusedError,
    EmbedderReplyError,
    EmbedderUnavailableError,
    InputTooLongError,
)
from tests.unit.embedding.fault_server import (
    DIMENSIONS,
    MODEL,
    Fault,
    Handler,
    Service,
    changed,
    drip,
    drip_headers,
    gzip_bomb,
    half,
    huge,
    huge_unannounced,
    raw,
    redirect,
    reset,
    running_service,
    silent,
    status,
)

RETRIES = 2
FIRST = [Document(f"first{n}", f"pump number {n}") for n in range(3)]
NEXT = [Document(f"next{n}", f"valve number {n}") for n in range(12)]


def embedder_of(service: Service, **settings: Any) -> ServiceEmbedder:
    values = {"retries": RETRIES, **settings}
    return ServiceEmbedder(ServiceConfig(service.url, MODEL, **values), first_wait_s=0.01)


def _rows(change: Any) -> Fault:
    return changed(lambda body: change(body["data"]))


def _set(row: int, value: Any) -> Fault:
    return _rows(lambda data: data[row].update(embedding=value))


def _as(revision: str) -> Fault:
    return changed(lambda body: body.update(embedding={"revision": revision}))


WAIT = {"retry_after_ms": "20"}
RETRIED: dict[str, tuple[Fault, type[EmbedderError], str]] = {
    "429": (status(429), EmbedderUnavailableError, "429"),
    "429 with a wait": (status(429, **WAIT), EmbedderUnavailableError, "0.02 s"),
    "408": (status(408), EmbedderUnavailableError, "408"),
    "409": (status(409), EmbedderUnavailableError, "409"),
    "500": (status(500), EmbedderUnavailableError, "500"),
    "503": (status(503), EmbedderUnavailableError, "503"),
    "reset": (reset, EmbedderUnavailableError, "3 times"),
    "half a body": (half, EmbedderUnavailableError, "3 times"),
}
SLOW: dict[str, tuple[Fault, type[EmbedderError], str]] = {
    "never answers": (silent, EmbedderUnavailableError, "asked"),
    "a byte now and then": (drip, EmbedderUnavailableError, "in time"),
    "a byte of a header now and then": (drip_headers, EmbedderUnavailableError, "in time"),
}
HASTY = {"read_timeout_s": 0.5, "total_timeout_s": 1.2}
FINAL: dict[str, tuple[Fault, type[EmbedderError], str]] = {
    "429 with a long wait": (
        status(429, retry_after="3600"),
        EmbedderUnavailableError,
        "once: HTTP status 429, to be asked again in 3600 s",
    ),
    "401": (status(401), EmbedderRefusedError, "401"),
    "403": (status(403), EmbedderRefusedError, "403"),
    "404": (status(404, "no such model"), EmbedderRefusedError, "404: no such model"),
    "204": (status(204), EmbedderReplyError, "204"),
    "redirect": (redirect("http://127.0.0.1:9/"), EmbedderRefusedError, "leads elsewhere"),
    "no json": (raw(b"<html>"), EmbedderReplyError, "no JSON"),
    "deep json": (raw(b"[" * 60_000), EmbedderReplyError, "no JSON"),
    "other json": (raw(b"[1]"), EmbedderReplyError, "no JSON object"),
    "no data": (raw(b"{}"), EmbedderReplyError, "without 'data'"),
    "an endless number": (raw(b'{"data": ' + b"9" * 5_000 + b"}"), EmbedderReplyError, "JSON"),
    "nan": (_set(1, [float("nan")] * DIMENSIONS), BadVectorError, "not finite"),
    "infinite": (_set(1, [1e300] * DIMENSIONS), BadVectorError, "not finite"),
    "an integer too large": (_set(1, [10**400] * DIMENSIONS), BadVectorError, "not finite"),
    "zeros": (_set(1, [0.0] * DIMENSIONS), BadVectorError, "all zeros"),
    "too wide": (_set(1, [1.0] * (DIMENSIONS + 1)), BadVectorError, "17 wide"),
    "too narrow": (_set(1, "AACAPw=="), BadVectorError, "1 wide"),
    "no base64": (_set(1, "?"), BadVectorError, "no vector"),
    "texts": (_set(1, ["1"] * DIMENSIONS), BadVectorError, "no vector"),
    "nothing": (_set(1, None), BadVectorError, "no vector"),
    "missing": (_rows(lambda data: data.pop()), EmbedderReplyError, "vectors for"),
    "too many": (_rows(lambda data: data.append(data[0])), EmbedderReplyError, "vectors for"),
    "twice": (_rows(lambda data: data[1].update(index=0)), EmbedderReplyError, "two vectors"),
    "an index too high": (
        _rows(lambda data: data[1].update(index=len(data))),
        EmbedderReplyError,
        "no text",
    ),
    "no index": (_rows(lambda data: data[1].pop("index")), EmbedderReplyError, "no text"),
    "1 GB": (huge, EmbedderReplyError, "more than"),
    "1 GB unannounced": (huge_unannounced, EmbedderReplyError, "more than"),
    "a gzip bomb": (gzip_bomb, EmbedderReplyError, "compressed"),
    "another model": (
        changed(lambda body: body.update(model="other")),
        EmbedderMismatchError,
        "other",
    ),
    "another revision": (_as("r2"), EmbedderMismatchError, "r1 to r2"),
    "a revision that is no text": (
        changed(lambda body: body.update(embedding={"revision": 3})),
        EmbedderReplyError,
        "no short text",
    ),
}
FAULTS = {**RETRIED, **SLOW, **FINAL}


@pytest.mark.req("C-13", "C-17", "A-21")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_typed_and_the_next_refresh_embeds_only_what_is_missing(
    name: str, tmp_path: Path
) -> None:
    fault, expected, words = FAULTS[name]
    config = IndexConfig(embedding_batch=4)
    with running_service() as service:
        # One at a time, so that it is known which request fails.
        embedder = embedder_of(service, in_flight=1, **(HASTY if name in SLOW else {}))
        with Index.open(tmp_path / "i.db", create=True, embedder=embedder, config=config) as index:
            index.upsert("host", FIRST)
            service.requests.clear()
            ok: Fault = changed(lambda body: None)
            service.faults[:] = [ok] + [fault] * (1 + RETRIES if name not in FINAL else 1)
            started = time.monotonic()
            with pytest.raises(expected, match=words) as caught:
                index.upsert("host", NEXT)
            assert time.monotonic() - started < 10
            assert type(caught.value) is expected
            if isinstance(caught.value, BadVectorError):
                assert "host: next" in str(caught.value)
            if name not in SLOW:
                assert len(service.requests) == 1 + (1 + RETRIES if name in RETRIED else 1)
            service.faults.clear()
            assert index.status().generation == 1
            assert index.search("pump").hits
            assert index.search("pump", mode="semantic").hits
            service.requests.clear()
            report = index.upsert("host", NEXT)
            assert report.embedded == len(NEXT) - 4
            assert len({t for t in service.texts if t.startswith("valve")}) == len(NEXT) - 4
            assert index.check() == []
    assert service.entry.get("sent", 0) < 1 << 27  # not much more than socket buffers


@pytest.mark.req("C-13")
@pytest.mark.parametrize("name", [*RETRIED, "never answers"])  # a drip takes all of the time
def test_a_fault_that_passes_is_not_seen(name: str) -> None:
    fault, _, _ = FAULTS[name]
    with running_service() as service:
        embedder = embedder_of(service, read_timeout_s=0.5 if name in SLOW else 10)
        _ = embedder.identity
        service.faults[:] = [fault]
        assert embedder.embed_query("text").any()
        assert len(service.requests) >= 2


@pytest.mark.req("C-13")
def test_shuffled_rows_are_put_in_order() -> None:
    with running_service() as service:
        embedder = embedder_of(service)
        right = embedder.embed_documents(["a", "b", "c"])
        service.faults[:] = [_rows(lambda data: data.reverse())]
        assert embedder.embed_documents(["a", "b", "c"]).tobytes() == right.tobytes()


@pytest.mark.req("C-13", "A-27")
@pytest.mark.parametrize(
    ("code", "expected"),
    [(400, EmbedderRefusedError), (413, InputTooLongError), (422, EmbedderRefusedError)],
)
def test_a_text_that_is_refused_is_named(
    code: int, expected: type[EmbedderError], tmp_path: Path
) -> None:
    with running_service() as service:
        embedder = embedder_of(service)
        service.at_text["number 7"] = status(code, "too many tokens")
        with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
            with pytest.raises(expected, match=f"host: next7, lines 1-1: .*{code}: too many"):
                index.upsert("host", NEXT)
            service.at_text.clear()
            index.upsert("host", NEXT)


@pytest.mark.req("C-13", "A-26")
def test_a_text_with_a_bad_vector_is_left_out_on_request(tmp_path: Path) -> None:
    def spoil(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
        rows = [row for row, text in enumerate(asked["input"]) if "number 7" in text]
        _set(rows[0], [0.0] * DIMENSIONS)(handler, service, asked)

    with running_service() as service:
        embedder = embedder_of(service)
        service.at_text["number 7"] = spoil
        with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
            report = index.upsert("host", NEXT, allow_bad_vectors=True)
            assert report.embedded == len(NEXT)
            (told,) = report.without_vector
            assert told.startswith("host: next7, lines 1-1: ")
            assert "all zeros" in told
            found = index.search("valve", mode="semantic", limit=50).hits
            assert len(found) == len(NEXT) - 1
            assert "next7" not in {hit.document_id for hit in found}
            sent = len(service.requests)
            assert index.upsert("host", NEXT, allow_bad_vectors=True).embedded == 0
            assert len(service.requests) == sent
            assert index.check() == []


@pytest.mark.req("C-13")
def test_texts_that_are_refused_only_together_are_sent_one_by_one() -> None:
    with running_service() as service:
        embedder = embedder_of(service)
        right = embedder.embed_documents(["a", "b"])
        service.faults[:] = [status(413)]
        assert embedder.embed_documents(["a", "b"]).tobytes() == right.tobytes()


@pytest.mark.req("C-17")
def test_without_the_service_lexical_search_works_and_nothing_else_stands_in(
    tmp_path: Path,
) -> None:
    path = tmp_path / "i.db"
    with running_service() as service, Index.open(path, create=True) as index:
        index.set_embedder(ServiceConfig(service.url, MODEL, retries=0))
        index.upsert("host", FIRST)
        assert index.search("pump").mode == "hybrid"
    with Index.open(path) as index:
        with pytest.raises(EmbedderUnavailableError, match="refused"):
            index.search("pump")
        with pytest.raises(EmbedderUnavailableError, match="refused"):
            index.upsert("host", NEXT)
        assert index.search("pump", mode="lexical").hits
        assert index.status().generation == 1
        assert index.check() == []


@pytest.mark.req("C-13", "A-26")
def test_another_model_or_revision_embeds_everything_anew_and_an_address_does_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "i.db"
    with (
        running_service() as one,
        running_service() as two,
        Index.open(path, create=True) as index,
    ):
        index.set_embedder(ServiceConfig(one.url, MODEL))
        index.upsert("host", FIRST)
        index.set_embedder(ServiceConfig(two.url, MODEL))
        assert index.upsert("host", FIRST).embedded == 0
        two.revision = "r2"
        with pytest.raises(EmbedderMismatchError):
            index.search("pump", mode="semantic")
        assert index.upsert("host", FIRST).embedded == len(FIRST)
        index.set_embedder(ServiceConfig(one.url, MODEL))
        with pytest.raises(EmbedderMismatchError, match="embedded with"):
            index.search("pump", mode="semantic")
        assert index.upsert("host", FIRST).embedded == 0  # its vectors are still there


@pytest.mark.req("C-13", "A-14")
@pytest.mark.parametrize("at", ["list", "vectors"])
def test_a_cancel_returns_at_once_and_the_next_request_is_served(at: str, tmp_path: Path) -> None:
    with running_service() as service:
        embedder = embedder_of(service, read_timeout_s=20, total_timeout_s=20)
        if at == "vectors":
            _ = embedder.identity
        service.faults[:] = [silent] * 4
        with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
            cancel = _CancelledIn(0.2)
            started = time.monotonic()
            with pytest.raises(CancelledError):
                index.upsert("host", NEXT, cancel=cancel)
            assert time.monotonic() - started < 1
            service.faults.clear()
            started = time.monotonic()
            assert index.upsert("host", NEXT).embedded == len(NEXT)
            assert time.monotonic() - started < 2
            embedder.close()


class _CancelledIn(CancelToken):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._at = time.monotonic() + seconds

    @property
    def is_cancelled(self) -> bool:
        return time.monotonic() >= self._at


@pytest.mark.req("C-13")
def test_waits_are_read_from_headers_and_double_with_jitter() -> None:
    assert wanted_wait({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert wanted_wait({"retry-after": "3"}) == 3
    date = email.utils.formatdate(time.time() + 5, usegmt=True)
    wanted = wanted_wait({"retry-after": date})
    assert wanted is not None
    assert 3 < wanted <= 5
    for nonsense in (
        {},
        {"retry-after": "soon"},
        {"retry-after-ms": "nan"},
        {"retry-after-ms": "-1"},
    ):
        assert wanted_wait(nonsense) is None
    for attempt, most in ((0, 0.5), (1, 1.0), (3, 4.0), (4, 8.0), (9, 8.0)):
        waits = [backoff(attempt, 0.5) for _ in range(50)]
        assert most * 0.75 <= min(waits) <= max(waits) <= most
