"""The service embedder over real sockets: what it sends, what it learns, what it keeps to."""

from __future__ import annotations

import json
import pickle
import threading
import time
from typing import Any

import numpy as np
import pytest

from sqlindex.embedding.budgets import MAX_UNITS, Budget
from sqlindex.embedding.service import ServiceEmbedder
from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.errors import (
    EmbedderError,
    EmbedderMismatchError,
    EmbedderRefusedError,
    EmbedderUnavailableError,
    InputTooLongError,
)
from sqlindex.testing import HashingEmbedder
from tests.unit.embedding.fault_server import DIMENSIONS, MODEL, Service, running_service

TEXTS = [f"text number {n} " * (1 + n % 5) for n in range(20)]


def embedder_of(service: Service, **settings: Any) -> ServiceEmbedder:
    return ServiceEmbedder(ServiceConfig(service.url, MODEL, **settings), first_wait_s=0.01)


@pytest.mark.req("C-13")
@pytest.mark.parametrize("knows_base64", [True, False])
@pytest.mark.parametrize("revision", ["r1", ""])
def test_vectors_are_the_services_in_order(revision: str, knows_base64: bool) -> None:
    with running_service(revision=revision, knows_base64=knows_base64) as service:
        vectors = embedder_of(service).embed_documents(TEXTS)
    assert vectors.tobytes() == HashingEmbedder(DIMENSIONS).embed_documents(TEXTS).tobytes()
    assert all(request["encoding_format"] == "base64" for request in service.requests)


@pytest.mark.req("C-13")
def test_a_service_that_refuses_the_format_is_asked_without_it_from_then_on() -> None:
    with running_service(refuses_format=True) as service:
        embedder_of(service).embed_documents(TEXTS)
    formats = ["encoding_format" in request for request in service.requests]
    assert formats[:2] == [True, False]
    assert formats.count(True) <= 2  # two requests are in flight at the beginning


@pytest.mark.req("C-13")
def test_nothing_is_sent_before_the_first_use() -> None:
    with running_service() as service:
        embedder = embedder_of(service)
        repr(embedder)
        pickle.dumps(embedder)
        assert embedder.over_long_policy == "window"
        assert service.lists == 0
        assert not service.requests


@pytest.mark.req("C-13", "A-26")
def test_the_identity_names_model_revision_and_width_and_not_the_address() -> None:
    with running_service() as one, running_service() as two, running_service(revision="r2") as new:
        identities = [embedder_of(service).identity for service in (one, two, new)]
    assert identities[0] == identities[1] != identities[2]
    assert identities[0] == f"service {MODEL}@r1|{DIMENSIONS} wide|not cut|no prefix|adapter 1"


@pytest.mark.req("C-13", "A-26")
def test_without_a_revision_the_address_stands_for_it_unless_one_is_configured() -> None:
    with running_service(revision="") as one, running_service(revision="") as two:
        identities = {embedder_of(service).identity for service in (one, two)}
        assert len(identities) == 2
        assert len({embedder_of(s, revision="mine").identity for s in (one, two)}) == 1


@pytest.mark.req("A-26")
def test_the_query_instruction_is_for_queries_only() -> None:
    with running_service() as service:
        plain = embedder_of(service)
        told = embedder_of(service, query_instruction="Find: ")
        assert plain.identity == told.identity
        assert plain.query_identity != told.query_identity
        told.embed_documents(["document"])
        told.embed_query("question")
    assert service.texts == ["document", "Find: question"]


@pytest.mark.req("C-13")
def test_limits_are_kept_before_anything_is_sent() -> None:
    texts = ["x" * (MAX_UNITS - 100)] * 3 + ["short"] * 20
    with running_service() as service:
        embedder = embedder_of(service)
        embedder.embed_documents(texts)
        budget = Budget(8, 8_192, 16_384, 2.0)
        for request in service.requests:
            tokens = [budget.tokens(text) for text in request["input"]]
            assert len(tokens) <= 8
            assert max(tokens) <= 8_192
            assert len(tokens) * max(tokens) <= 16_384
        sent = len(service.requests)
        with pytest.raises(InputTooLongError, match="over the limit of 8,192") as caught:
            embedder.embed_documents(["fine", "x" * (MAX_UNITS + 1)])
        assert caught.value.row == 1
        with pytest.raises(InputTooLongError):
            embedder.embed_documents(["😀" * (MAX_UNITS // 2 + 1)])
        assert len(service.requests) == sent
    assert sorted(service.texts) == sorted(texts)


@pytest.mark.req("A-27")
def test_the_policy_truncate_cuts_to_what_it_counts() -> None:
    text = "wort für wort " * 200
    with running_service() as service:
        embedder = embedder_of(service, over_long="truncate", max_tokens=100)
        assert embedder.count_tokens(["short", text])[1] > embedder.token_limit == 100
        embedder.embed_documents([text])
        (sent,) = service.texts
        assert text.startswith(sent)
        assert embedder.count_tokens([sent])[0] <= 100 < embedder.count_tokens([sent + "xxx"])[0]
        assert "truncate 100" in embedder.identity


@pytest.mark.req("C-13")
def test_reported_limits_are_kept_and_compared() -> None:
    own = {"max_inputs": 2, "max_input_tokens": 300, "max_batch_tokens": 400, "truncation": False}
    with running_service(entry={"embedding": own}) as service:
        embedder = embedder_of(service)
        assert embedder.token_limit == 300
        embedder.embed_documents(["a b c"] * 5 + ["e " * 250] * 2)
        assert max(len(request["input"]) for request in service.requests) == 2
        assert [len(r["input"]) for r in service.requests if r["input"][0][0] == "e"] == [1, 1]
        with pytest.raises(EmbedderRefusedError, match="takes 300"):
            _ = embedder_of(service, max_tokens=301).identity
    with running_service(entry={"max_model_len": 256}) as service:
        assert embedder_of(service).token_limit == 256
    with running_service(entry={"embedding": {"truncation": True}}) as service:
        with pytest.raises(EmbedderRefusedError, match="cuts long texts"):
            _ = embedder_of(service).identity
        assert embedder_of(service, over_long="truncate").identity


@pytest.mark.req("C-13")
def test_a_width_is_asked_for_and_held_against_the_reply() -> None:
    with running_service() as service:
        embedder = embedder_of(service, dimensions=8)
        assert embedder.embed_query("text").shape == (8,)
        assert service.requests[-1]["dimensions"] == 8
    with running_service(entry={"embedding": {"dimensions": DIMENSIONS}}) as service:
        assert embedder_of(service).dimensions == DIMENSIONS
        assert not service.requests  # nothing had to be embedded to learn it


@pytest.mark.req("C-13")
def test_another_model_in_the_reply_is_refused_unless_it_is_configured() -> None:
    with running_service(answers_as="tiny-v2") as service:
        with pytest.raises(EmbedderMismatchError, match="tiny-v2"):
            _ = embedder_of(service).embed_query("text")
        assert embedder_of(service, answers_as="tiny-v2").embed_query("text").any()


@pytest.mark.req("C-13")
def test_a_configured_revision_is_held_against_the_reported_one() -> None:
    with running_service() as service:
        assert embedder_of(service, revision="r1").identity == embedder_of(service).identity
        with pytest.raises(EmbedderMismatchError, match="r1, configured is r0"):
            _ = embedder_of(service, revision="r0").identity


@pytest.mark.req("C-13")
@pytest.mark.parametrize("in_reply", [True, False])
def test_a_new_revision_is_an_error_once_and_then_the_new_identity(in_reply: bool) -> None:
    reply_revision = None if in_reply else ""
    with running_service(reply_revision=reply_revision) as service:
        embedder = embedder_of(service)
        before = embedder.identity
        embedder.embed_documents(TEXTS)
        service.revision = "r2"
        with pytest.raises(EmbedderMismatchError, match="r1 to r2"):
            embedder.embed_documents(TEXTS)
        assert embedder.identity != before
        embedder.embed_documents(TEXTS)


@pytest.mark.req("C-13")
def test_a_service_without_a_list_is_used_as_it_is() -> None:
    with running_service(has_list=False, revision="") as service:
        embedder = embedder_of(service)
        assert embedder.dimensions == DIMENSIONS
        assert service.url in embedder.identity


@pytest.mark.req("C-13")
def test_requests_of_a_call_run_beside_each_other_over_kept_connections() -> None:
    with running_service(delay_s=0.02) as service:
        embedder = embedder_of(service, in_flight=3)
        for _ in range(4):
            embedder.embed_documents(TEXTS * 2)
        assert 2 <= service.most_at_once <= 3
        assert service.connections <= 4


@pytest.mark.req("C-13")
def test_a_connection_that_the_service_closed_in_between_is_made_anew() -> None:
    with running_service(closes=True) as service:
        embedder = embedder_of(service, retries=0)
        for _ in range(3):
            embedder.embed_query("one")
            time.sleep(0.02)  # its end of the connection has to arrive
        assert service.connections == 5  # the list, the width, three queries


@pytest.mark.req("C-13", "C-17")
def test_a_service_that_is_not_there_is_asked_again_and_then_an_error() -> None:
    with running_service() as service:
        pass
    with pytest.raises(EmbedderUnavailableError, match=r"3 times: .*refused"):
        _ = embedder_of(service, retries=2).identity


@pytest.mark.req("C-13", "A-28")
def test_close_ends_a_call_that_waits_at_once_and_is_final() -> None:
    with running_service(delay_s=5) as service:
        embedder = embedder_of(service, revision="r1", dimensions=DIMENSIONS)
        errors: list[EmbedderError] = []

        def call() -> None:
            try:
                embedder.embed_documents(TEXTS)
            except EmbedderError as exc:
                errors.append(exc)

        thread = threading.Thread(target=call)
        thread.start()
        while not service.requests:
            time.sleep(0.005)
        started = time.monotonic()
        embedder.close()
        thread.join(5)
        assert time.monotonic() - started < 1
        assert "ended" in str(errors[0])
        embedder.close()
        with pytest.raises(EmbedderError, match="closed"):
            embedder.embed_query("text")
        service.delay_s = 0


def test_lone_surrogates_become_question_marks() -> None:
    with running_service() as service:
        embedder_of(service).embed_documents(["a\ud800b"])
    assert service.texts == ["a?b"]


@pytest.mark.req("C-13")
def test_a_pickled_embedder_is_its_configuration() -> None:
    with running_service() as service:
        embedder = embedder_of(service, query_instruction="Q: ")
        vector = embedder.embed_query("text")
        other = pickle.loads(pickle.dumps(embedder))
        assert np.array_equal(other.embed_query("text"), vector)
        assert other.query_identity == embedder.query_identity


@pytest.mark.req("C-13")
def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with running_service() as service:
        assert embedder_of(service).embed_query("text").any()


def test_the_configuration_is_stored_and_read_again() -> None:
    config = ServiceConfig(
        "HTTPS://Host.example:8443/v1/", "m", dimensions=8, key_env="K", over_long="fail"
    )
    stored = config.to_json()
    assert ServiceConfig.from_json(stored) == config
    assert json.loads(stored)["url"] == "https://host.example:8443/v1"
    for damaged in (
        "{}",
        "[]",
        "{",
        '{"service": 2}',
        '{"service": 1, "url": "https://x/"}',
        "[" * 9**5,
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            ServiceConfig.from_json(damaged)


@pytest.mark.req("C-13")
@pytest.mark.parametrize(
    "url",
    [
        "http://host.example/v1",
        "http://127.0.0.1.example/v1",
        "ftp://127.0.0.1/v1",
        "https:///v1",
        "https://user:secret@host/v1",
        "https://host/v1?key=secret",
        "https://host/v1#secret",
        "https://ho st/v1",
        "https://host:port/v1",
        "https://host/\r\nX: secret",
        "",
    ],
)
def test_an_address_that_is_not_safe_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="url") as caught:
        ServiceConfig(url, MODEL)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_inputs": 9},
        {"max_inputs": 0},
        {"max_tokens": 8_193},
        {"dimensions": 0},
        {"in_flight": True},
        {"over_long": "cut"},
        {"bytes_per_token": 0.5},
        {"read_timeout_s": float("nan")},
        {"total_timeout_s": float("inf")},
        {"key_env": "A", "key_file": "b"},
        {"key_env": "A=secret"},
        {"revision": "a|b"},
        {"answers_as": "a\nb"},
    ],
)
def test_a_setting_out_of_range_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        ServiceConfig("https://host/v1", MODEL, **settings)
