"""The key of a service is read where it lies and is found nowhere else, whatever the service does."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import sqlindex as package
from sqlindex import Document, Index
from sqlindex.embedding.allowed_services import allow_service, require_allowed
from sqlindex.embedding.api_key import ApiKey, read_key
from sqlindex.embedding.service import ServiceEmbedder
from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.errors import (
    ApiKeyError,
    EmbedderError,
    EmbedderRefusedError,
    EmbedderReplyError,
    SqlindexError,
)
from tests.faults import sqlindex
from tests.unit.embedding.fault_server import (
    MODEL,
    Fault,
    changed,
    echo,
    half,
    raw,
    redirect,
    reset,
    running_service,
    status,
)

CANARY = "sk-canary-0123456789abcdefXYZ+/"
PACKAGE = os.path.dirname(package.__file__)
FORMS = (
    CANARY,
    CANARY[3:15],
    quote(CANARY, safe=""),
    base64.b64encode(CANARY.encode()).decode(),
    base64.b64encode(f"Bearer {CANARY}".encode()).decode()[12:30],
)
DOCUMENTS = [Document(f"d{n}", f"pump number {n}") for n in range(3)]


@pytest.fixture(autouse=True)
def allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "services"
    monkeypatch.setenv("SQLINDEX_SERVICES", str(path))
    monkeypatch.setenv("CANARY_KEY", CANARY)
    return path


def _key_file(folder: Path, content: str = f"{CANARY}\n", mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_text(content)
    path.chmod(mode)
    return path


def _said(exc: BaseException) -> str:
    """Everything that the error says, and what a traceback can show of the frames of the package."""
    frames: list[str] = []
    linked: BaseException | None = exc
    while linked is not None:
        found = traceback.TracebackException.from_exception(linked, capture_locals=True)
        frames += [str(f.locals) for f in found.stack if f.filename.startswith(PACKAGE)]
        frames += [str(linked), repr(linked), str(getattr(linked, "hint", ""))]
        linked = linked.__cause__ or linked.__context__
    return "".join(frames)


def _assert_absent(text: str | bytes, where: str) -> None:
    for form in FORMS:
        is_there = form in text if isinstance(text, str) else form.encode() in text
        assert not is_there, f"the key is in {where}"


def _spread(form: str) -> dict[str, Fault]:
    return {
        "in a message": status(400, f"bad key {form}"),
        "in a 401": status(401, f"Incorrect API key provided: {form}"),
        "in a page": raw(f"<html>{form}".encode()),
        "as revision": changed(lambda body: body.update(embedding={"revision": form})),
        "as model": changed(lambda body: body.update(model=form)),
        "as vector": changed(lambda body: body["data"][0].update(embedding=form)),
        "as index": changed(lambda body: body["data"][0].update(index=form)),
        "in a redirect": redirect(f"https://elsewhere/{form}"),
        "in a wait": status(429, retry_after=form),
        "in an encoding": raw(b"{}", Content_Encoding=form),
    }


def _spread_as(name: str, form: str) -> Fault:
    return _spread(form)[name]


ECHOES: dict[str, Callable[[str], Fault]] = {
    **{name: partial(_spread_as, name) for name in _spread("")},
    "the header": lambda form: echo,
    "reset": lambda form: reset,
    "half a body": lambda form: half,
}


@pytest.mark.req("C-13")
@pytest.mark.parametrize("place", ["env", "file"])
@pytest.mark.parametrize("name", ECHOES)
def test_the_key_is_sent_and_found_nowhere(
    name: str,
    place: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    key: dict[str, Any] = {"key_env": "CANARY_KEY"}
    if place == "file":
        key = {"key_file": str(_key_file(tmp_path))}
    folder = tmp_path / "index"
    folder.mkdir()
    for form in FORMS[:4]:
        with running_service(key=CANARY) as service:
            config = ServiceConfig(service.url, MODEL, retries=0, **key)
            with Index.open(folder / "i.db", create=True) as index:
                index.set_embedder(config)
                service.faults[:] = [ECHOES[name](form)] * 3
                with pytest.raises(EmbedderError) as caught:
                    index.upsert("host", DOCUMENTS)
                said = f"{caught.value} {caught.value.hint}"
                if form != FORMS[1]:  # a frame may hold a reply with a part of it
                    said += _said(caught.value)
                _assert_absent(said, "the error")
                _assert_absent(pickle.dumps(caught.value), "the pickled error")
                service.faults.clear()
                index.upsert("host", DOCUMENTS)
                _assert_absent(repr(index.status()), "the status")
                _assert_absent(pickle.dumps(index), "the pickled index")
                for file in folder.iterdir():
                    _assert_absent(file.read_bytes(), file.name)
            assert all(h["Authorization"] == f"Bearer {CANARY}" for h in service.headers)
            embedder = ServiceEmbedder(config)
            embedder.embed_query("pump")
            for shown in (repr(embedder), repr(config), repr(vars(embedder)), config.to_json()):
                _assert_absent(shown, "what is shown")
            _assert_absent(pickle.dumps(embedder), "the pickled embedder")
    _assert_absent(caplog.text, "the log")
    printed = capfd.readouterr()
    _assert_absent(printed.out + printed.err, "what is printed")


@pytest.mark.req("C-13")
def test_a_key_in_the_list_of_models_does_not_reach_the_identity() -> None:
    with running_service(key=CANARY, revision=CANARY) as service:
        embedder = ServiceEmbedder(ServiceConfig(service.url, MODEL, key_env="CANARY_KEY"))
        with pytest.raises(EmbedderReplyError) as caught:
            _ = embedder.identity
        _assert_absent(_said(caught.value), "the error")


@pytest.mark.req("C-13")
def test_the_key_is_read_for_each_request_so_that_it_can_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running_service(key=CANARY) as service:
        embedder = ServiceEmbedder(ServiceConfig(service.url, MODEL, key_env="CANARY_KEY"))
        embedder.embed_query("one")
        service.key = "another-key"
        with pytest.raises(EmbedderRefusedError, match="401"):
            embedder.embed_query("two")
        monkeypatch.setenv("CANARY_KEY", "another-key")
        embedder.embed_query("three")


def _link(folder: Path) -> Path:
    (folder / "link").symlink_to(_key_file(folder))
    return folder / "link"


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe", 0o600)
    return folder / "pipe"


@pytest.mark.req("C-13")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: _key_file(folder, mode=0o640), "0640"),
        (lambda folder: _key_file(folder, mode=0o604), "0604"),
        (_link, "link"),
        (_pipe, "not a regular file"),
        (lambda folder: folder, "key file"),
        (lambda folder: folder / "none", "cannot be read"),
        (lambda folder: _key_file(folder, ""), "no key"),
        (lambda folder: _key_file(folder, f"{CANARY} {CANARY}"), "no key"),
        (lambda folder: _key_file(folder, f"{CANARY}\n\nX: y"), "no key"),
        (lambda folder: _key_file(folder, f"{CANARY}é"), "no key"),
        (lambda folder: _key_file(folder, CANARY * 1000), "longer"),
    ],
)
def test_a_key_file_that_is_not_the_users_alone_or_holds_no_key_is_refused(
    make: Callable[[Path], Path], words: str, tmp_path: Path
) -> None:
    config = ServiceConfig("https://host/v1", MODEL, key_file=str(make(tmp_path)))
    with pytest.raises(ApiKeyError, match=words) as caught:
        read_key(config)
    _assert_absent(_said(caught.value), "the error")


@pytest.mark.req("C-13")
def test_a_variable_that_is_not_set_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ServiceConfig("https://host/v1", MODEL, key_env="CANARY_KEY")
    monkeypatch.setenv("CANARY_KEY", f"{CANARY}\nX: y")
    with pytest.raises(ApiKeyError, match="no key") as caught:
        read_key(config)
    _assert_absent(_said(caught.value), "the error")
    monkeypatch.delenv("CANARY_KEY")
    with pytest.raises(ApiKeyError, match="variable CANARY_KEY"):
        read_key(config)


def test_a_key_is_not_pickled_and_does_not_print() -> None:
    key = ApiKey(CANARY)
    _assert_absent(f"{key} {key!r}", "its repr")
    with pytest.raises(TypeError):
        pickle.dumps(key)


def test_a_short_key_is_an_echo_only_by_itself() -> None:
    key = ApiKey("none")
    assert key.is_in("none")
    assert not key.is_in("none of the models")


@pytest.mark.req("C-13")
def test_an_index_from_elsewhere_sends_nothing_before_its_service_is_chosen_here(
    tmp_path: Path, allowed: Path
) -> None:
    path = tmp_path / "i.db"
    with running_service(key=CANARY) as service:
        config = ServiceConfig(service.url, MODEL, key_env="CANARY_KEY")
        with Index.open(path, create=True) as index:
            index.set_embedder(config)
            index.upsert("host", DOCUMENTS)
        allowed.unlink()  # as on another machine
        sent = len(service.headers)
        with Index.open(path) as index:
            for call in (
                lambda: index.search("pump"),
                lambda: index.upsert("host", [Document("new", "new")]),
            ):
                with pytest.raises(EmbedderRefusedError, match="not chosen on this machine"):
                    call()
            assert index.search("pump", mode="lexical").hits
        assert len(service.headers) == sent
        doctor = sqlindex("doctor", "--json", "--db", str(path))
        assert "not chosen" in doctor.out
        allow_service(config)
        with Index.open(path) as index:
            assert index.search("pump").hits
        require_allowed(ServiceConfig(service.url, MODEL))  # loopback, no key
        for other in (
            ServiceConfig("https://elsewhere/v1", MODEL),
            ServiceConfig(service.url, MODEL, key_env="HOME"),
            ServiceConfig(service.url, MODEL, key_file="CANARY_KEY"),
        ):
            with pytest.raises(EmbedderRefusedError):
                require_allowed(other)


def test_a_list_of_services_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SQLINDEX_SERVICES", str(tmp_path / "file" / "services"))
    with pytest.raises(SqlindexError, match="cannot be written"):
        allow_service(ServiceConfig("https://host/v1", MODEL))
