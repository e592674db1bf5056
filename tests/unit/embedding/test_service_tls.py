"""TLS: only a trusted certificate is talked to, and a deadline holds inside the handshake too."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sqlindex.embedding.service import ServiceEmbedder
from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.errors import EmbedderUnavailableError
from tests.unit.embedding.fault_server import DIMENSIONS, MODEL, drip, running_service


def embedder_of(url: str, total_timeout_s: float = 20) -> ServiceEmbedder:
    return ServiceEmbedder(ServiceConfig(url, MODEL, retries=0, total_timeout_s=total_timeout_s))


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of localhost that nobody trusts, and its key, in one file."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed: apt-get install openssl")
    path = tmp_path / "both.pem"
    words = (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    )
    made = subprocess.run(
        [program, *words.split(), "-addext", "subjectAltName=DNS:localhost", "-keyout", "-"],
        check=True,
        capture_output=True,
    )
    path.write_bytes(made.stdout)
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.mark.req("C-13")
def test_a_certificate_is_trusted_or_nothing_is_sent(
    certificate: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_service(tls=tls) as service:
        with pytest.raises(EmbedderUnavailableError, match="certificate verify failed"):
            embedder_of(service.url).embed_query("text")
        assert not service.headers
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert embedder_of(service.url).embed_query("text").shape == (DIMENSIONS,)
        service.faults[:] = [drip]
        started = time.monotonic()
        with pytest.raises(EmbedderUnavailableError, match="in time"):
            embedder_of(service.url, 1).embed_query("text")
        assert time.monotonic() - started < 5


@pytest.fixture
def dripping_handshake() -> Iterator[str]:
    """An address at which each connection gets a byte of a long TLS record now and then."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    for byte in b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc" + bytes(1_000):
                        connection.send(bytes([byte]))
                        time.sleep(0.05)

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://localhost:{listener.getsockname()[1]}/v1"


@pytest.mark.req("C-13")
def test_a_handshake_that_drips_ends_at_the_deadline(dripping_handshake: str) -> None:
    started = time.monotonic()
    with pytest.raises(EmbedderUnavailableError, match="time"):
        _ = embedder_of(dripping_handshake, 1).identity
    assert time.monotonic() - started < 5
