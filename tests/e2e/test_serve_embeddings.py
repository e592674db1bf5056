"""The embeddings server speaks to OpenAI's own client, keeps its budgets, and stops gracefully."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import openai
import pytest

from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.service import ServiceEmbedder
from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.embedding.staged import require_staged
from sqlindex.embedding.staging import stage_model
from sqlindex.errors import StorageError, UsageError
from sqlindex.serving import embedding_server
from sqlindex.serving.embedding_request import Budgets
from sqlindex.serving.embedding_server import EmbeddingServer
from sqlindex.testing import HashingEmbedder
from tests.unit.embedding.tiny_model import POSITIONS, WIDTH, tiny_model

TEXTS = ["word1 word2", "abc word7", "word299"]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEmbedder]:
    folder = tmp_path_factory.mktemp("tiny")
    model = tiny_model(folder / "upstream")
    staged = stage_model(model, source=folder / "upstream", models_dir=folder / "models")
    with closing(LocalEmbedder(staged)) as made:
        yield made


@pytest.fixture
def server(embedder: LocalEmbedder) -> Iterator[EmbeddingServer]:
    with EmbeddingServer(embedder, "tiny", budgets=Budgets(inputs=8, body_bytes=10_000)) as made:
        yield made


def client_of(server: EmbeddingServer, key: str = "unused") -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key=key, max_retries=0)


@pytest.mark.req("C-14")
@pytest.mark.parametrize("encoding", ["base64", "float"])
def test_the_official_client_gets_the_embedder_s_own_vectors(
    server: EmbeddingServer, embedder: LocalEmbedder, encoding: str
) -> None:
    with client_of(server) as client:
        asked = client.embeddings.create(
            model="tiny",
            input=TEXTS,
            encoding_format=encoding,  # type: ignore[arg-type]  # both are literals of it
        )
    given = [one.embedding for one in asked.data]
    if encoding == "base64":
        given = [np.frombuffer(base64.b64decode(str(one)), "<f4").tolist() for one in given]
    assert [one.index for one in asked.data] == [0, 1, 2]
    np.testing.assert_array_equal(np.array(given, np.float32), embedder.embed_documents(TEXTS))
    assert asked.usage.total_tokens == sum(embedder.count_tokens(TEXTS))
    assert (asked.model_extra or {})["embedding"]["revision"] == embedder.identity.replace(
        "|", ", "
    )


def test_the_official_client_s_own_choice_of_encoding_works(
    server: EmbeddingServer, embedder: LocalEmbedder
) -> None:
    with client_of(server) as client:
        vector = client.embeddings.create(model="tiny", input=TEXTS[0]).data[0].embedding
        models = client.models.list().data
    np.testing.assert_array_equal(
        np.array(vector, np.float32), embedder.embed_documents(TEXTS[:1])[0]
    )
    (model,) = models
    described = (model.model_extra or {})["embedding"]
    assert (model.id, model.owned_by) == ("tiny", "sqlindex")
    assert described["dimensions"] == WIDTH
    assert described["max_input_tokens"] == POSITIONS
    assert described["truncation"] is False


@pytest.mark.req("C-13", "C-14")
def test_our_own_client_gets_the_embedder_s_own_vectors_and_learns_its_limits(
    server: EmbeddingServer, embedder: LocalEmbedder
) -> None:
    config = ServiceConfig(server.url, "tiny", over_long="fail")
    with closing(ServiceEmbedder(config)) as client:
        vectors = client.embed_documents(TEXTS)
        query = client.embed_query(TEXTS[0])
        assert client.dimensions == WIDTH
        assert client.token_limit == POSITIONS
        assert embedder.identity.replace("|", ", ") in client.identity
    np.testing.assert_array_equal(vectors, embedder.embed_documents(TEXTS))
    np.testing.assert_array_equal(query, vectors[0])


@pytest.mark.req("C-14")
def test_an_input_over_a_budget_is_refused_and_never_cut(server: EmbeddingServer) -> None:
    with client_of(server) as client:
        for given, words in (
            (["word1 " * (POSITIONS + 1)], "input 0 has"),
            (["word1"] * 9, "at most 8 inputs"),
        ):
            with pytest.raises(openai.UnprocessableEntityError, match=words):
                client.embeddings.create(model="tiny", input=given)
        with pytest.raises(openai.UnprocessableEntityError, match="dimensions"):
            client.embeddings.create(model="tiny", input="word1", dimensions=7)
        with pytest.raises(openai.NotFoundError, match="'other' is not served"):
            client.embeddings.create(model="other", input="word1")
        with pytest.raises(openai.BadRequestError, match="token numbers"):
            client.embeddings.create(model="tiny", input=[[1, 2], [3]])
        with pytest.raises(openai.APIStatusError, match="at most 10000 bytes"):
            client.embeddings.create(model="tiny", input="x" * 20_000)
        assert client.embeddings.create(model="tiny", input="word1").data


def test_a_batch_over_its_budget_of_padded_tokens_is_refused(embedder: LocalEmbedder) -> None:
    with (
        EmbeddingServer(embedder, "tiny", budgets=Budgets(batch_tokens=20)) as server,
        client_of(server) as client,
    ):
        with pytest.raises(openai.UnprocessableEntityError, match="number of inputs is"):
            client.embeddings.create(model="tiny", input=["word1 " * 10, "word1"])
        assert client.embeddings.create(model="tiny", input=["word1", "word2"]).data


def test_a_key_is_asked_for_when_there_is_one(embedder: LocalEmbedder) -> None:
    with EmbeddingServer(embedder, "tiny", key="secret-7") as server:
        with client_of(server, "secret-7") as client:
            assert client.models.list().data
        with client_of(server, "wrong") as client:
            for call in (
                client.models.list,
                lambda: client.embeddings.create(model="tiny", input="a"),
            ):
                with pytest.raises(openai.AuthenticationError):
                    call()


def _raw(server: EmbeddingServer, request: bytes, *, ends: bool = False) -> bytes:
    """What the server answers to these bytes until it closes the connection or falls silent."""
    place = urlsplit(server.url)
    with socket.create_connection((place.hostname, place.port), timeout=5) as connection:
        connection.sendall(request)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        reply = b""
        while part := connection.recv(65_536):
            reply += part
    return reply


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        ("POST /v1/embeddings", b"{", 400),
        ("POST /v1/embeddings", b"[" * 9_000, 400),
        ("POST /v1/embeddings", b"[]", 400),
        ("POST /v1/embeddings", b'{"model": "tiny"}', 400),
        ("POST /v1/embeddings", b'{"model": "tiny", "input": []}', 400),
        ("POST /v1/embeddings", b'{"model": "tiny", "input": [{}]}', 400),
        ("POST /v1/embeddings", b'{"model": "tiny", "input": "a", "encoding_format": 1}', 400),
        ("POST /v1/embeddings", b'{"model": "tiny", "input": "\\ud800"}', 200),
        ("POST /v1/other", b"{}", 404),
        ("GET /", b"", 404),
        ("GET /health", b"", 200),
        ("GET /v1/models/", b"", 200),
        ("PUT /v1/models", b"", 501),
    ],
)
def test_any_request_gets_a_status_in_json(
    server: EmbeddingServer, head: str, body: bytes, status: int
) -> None:
    request = (
        f"{head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reply = _raw(server, request.encode() + body)
    assert reply.split(b" ", 2)[1] == str(status).encode()
    if status != 501:
        assert isinstance(json.loads(reply.partition(b"\r\n\r\n")[2]), dict)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: attacker.example\r\nContent-Type: application/json\r\nContent-Length: 2", 421),
        ("Host: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2", 415),
        ("Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked", 411),
        ("Host: localhost\r\nContent-Type: application/json\r\nContent-Length: -2", 413),
        ("Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999", 413),
        ("Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 200", 400),
    ],
)
def test_requests_that_a_page_or_a_broken_client_sends_are_refused(
    server: EmbeddingServer, headers: str, status: int
) -> None:
    request = f"POST /v1/embeddings HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n{{}}"
    assert _raw(server, request.encode(), ends=True).split(b" ", 2)[1] == str(status).encode()


def test_a_silent_connection_is_closed(
    embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_server._Handler, "timeout", 0.2)
    with EmbeddingServer(embedder, "tiny") as server:
        assert _raw(server, b"POST /v1/embeddings HTTP/1.1\r\nHost: local") == b""


def test_connections_past_the_limit_are_told_to_come_again(
    embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_server, "MAX_CONNECTIONS", 2)
    with EmbeddingServer(embedder, "tiny") as server:
        place = urlsplit(server.url)
        held = [http.client.HTTPConnection(place.netloc) for _ in range(2)]
        for connection in held:
            connection.request("GET", "/health")
            assert connection.getresponse().read()
        assert b"503" in _raw(server, b"")
        for connection in held:
            connection.close()
        with client_of(server) as client:
            for _ in range(50):
                try:
                    assert client.models.list().data
                    break
                except openai.InternalServerError:
                    time.sleep(0.1)
            else:
                pytest.fail("the freed places were not given again")


class Slow(HashingEmbedder):
    """Waits inside a call until it is let go."""

    def __init__(self) -> None:
        super().__init__(8)
        self.entered, self.go_on = threading.Event(), threading.Event()

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.entered.set()
        self.go_on.wait(10)
        return super().embed_documents(texts)


def test_stopping_lets_a_request_under_way_end() -> None:
    embedder = Slow()
    server = EmbeddingServer(embedder, "slow")
    server.start()
    answers = []

    def ask() -> None:
        with client_of(server) as client:
            answers.append(client.embeddings.create(model="slow", input="a").data[0].embedding)

    asking = threading.Thread(target=ask)
    asking.start()
    assert embedder.entered.wait(10)
    stopping = threading.Thread(target=server.stop, args=(10.0,))
    stopping.start()
    time.sleep(0.1)
    assert stopping.is_alive()
    embedder.go_on.set()
    for thread in (asking, stopping):
        thread.join(10)
        assert not thread.is_alive()
    assert len(answers[0]) == 8


def test_stopping_does_not_wait_for_ever() -> None:
    embedder = Slow()
    server = EmbeddingServer(embedder, "slow")
    server.start()
    failures = []

    def ask() -> None:
        with client_of(server) as client:
            try:
                client.embeddings.create(model="slow", input="a")
            except openai.APIConnectionError as exc:
                failures.append(exc)

    asking = threading.Thread(target=ask)
    asking.start()
    assert embedder.entered.wait(10)
    started = time.monotonic()
    server.stop(0.2)
    assert time.monotonic() - started < 5
    asking.join(5)
    embedder.go_on.set()
    assert len(failures) == 1


def test_only_addresses_of_this_machine_are_served(embedder: LocalEmbedder) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.1", "example.org", ""):
        with pytest.raises(UsageError, match="not on the loopback interface"):
            EmbeddingServer(embedder, "tiny", host=host)
    with EmbeddingServer(embedder, "tiny") as server:
        port = urlsplit(server.url).port
        assert port is not None
        with pytest.raises(StorageError, match=f"port {port}"):
            EmbeddingServer(embedder, "tiny", port=port)


@pytest.mark.model
@pytest.mark.req("C-14")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_minilm_and_stops_with_zero(
    number: signal.Signals, tmp_path: Path
) -> None:
    environment = {**os.environ, "KEY_OF_TEST": "secret-7"}
    command = [sys.executable, "-m", "sqlindex", "serve-embeddings", "--port", "0", "--json"]
    process = subprocess.Popen(
        [*command, "--key-env", "KEY_OF_TEST"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        with openai.OpenAI(base_url=told["url"], api_key="secret-7", max_retries=0) as client:
            reply = client.embeddings.create(model="minilm", input=["A pump.", "A valve."])
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert (out, err.splitlines()[-1]) == ("", "stopped")
    assert "secret-7" not in err
    with closing(LocalEmbedder(require_staged("minilm"))) as embedder:
        own = embedder.embed_documents(["A pump.", "A valve."])
    np.testing.assert_array_equal(np.array([d.embedding for d in reply.data], np.float32), own)
