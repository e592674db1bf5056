"""Downloads from a hub: resumed, bounded, only the pinned bytes, only over safe addresses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sqlindex.cancellation import CancelToken
from sqlindex.embedding.hub import download_from_hub
from sqlindex.embedding.models import CHECKPOINT, TOKENIZER, KnownModel
from sqlindex.embedding.pinned_copy import RouteError, Watch
from sqlindex.errors import CancelledError
from tests.unit.embedding.hub_server import Hub, running_hub
from tests.unit.embedding.tiny_model import tiny_model


@pytest.fixture
def model(tmp_path: Path) -> KnownModel:
    return tiny_model(tmp_path / "upstream")


@pytest.fixture
def hub(tmp_path: Path, model: KnownModel) -> Iterator[Hub]:
    with running_hub(tmp_path / "upstream") as hub:
        yield hub


def _download(model: KnownModel, hub: Hub, folder: Path, watch: Watch | None = None) -> str:
    target = folder / "target"
    target.mkdir(exist_ok=True)
    return download_from_hub(model, target, folder / "partial", watch or Watch(), hub_url=hub.url)


def _assert_downloaded(folder: Path) -> None:
    for name in (CHECKPOINT, TOKENIZER):
        upstream = (folder / "upstream" / name).read_bytes()
        assert (folder / "target" / name).read_bytes() == upstream


@pytest.mark.req("A-28")
def test_files_are_asked_for_by_repository_revision_and_name(
    tmp_path: Path, model: KnownModel, hub: Hub
) -> None:
    origin = _download(model, hub, tmp_path)
    _assert_downloaded(tmp_path)
    assert hub.url in origin
    base = f"/{model.repository}/resolve/{model.revision}"
    assert hub.requests == [(f"{base}/{CHECKPOINT}", ""), (f"{base}/{TOKENIZER}", "")]


def test_a_broken_connection_is_resumed_where_it_broke(
    tmp_path: Path, model: KnownModel, hub: Hub
) -> None:
    hub.break_after_bytes = 20_000
    _download(model, hub, tmp_path)
    _assert_downloaded(tmp_path)
    assert hub.requests_of(CHECKPOINT)[:2] == ["", "bytes=20000-"]


def test_a_cancelled_download_is_resumed_by_the_next_one(
    tmp_path: Path, model: KnownModel, hub: Hub
) -> None:
    hub.break_after_bytes = 15_000
    cancel = CancelToken()

    def stop_halfway(what: str, done_bytes: int, total_bytes: int) -> None:
        if done_bytes >= 15_000:
            cancel.cancel()

    with pytest.raises(CancelledError):
        _download(model, hub, tmp_path, Watch(stop_halfway, cancel))
    hub.break_after_bytes = None
    _download(model, hub, tmp_path)
    _assert_downloaded(tmp_path)
    assert hub.requests_of(CHECKPOINT) == ["", "bytes=15000-"]


def test_a_hub_without_ranges_sends_the_file_again(
    tmp_path: Path, model: KnownModel, hub: Hub
) -> None:
    hub.knows_ranges = False
    (tmp_path / "partial").mkdir()
    (tmp_path / "partial" / f"{CHECKPOINT}.part").write_bytes(b"x" * 100)
    _download(model, hub, tmp_path)
    _assert_downloaded(tmp_path)


def test_a_partial_file_of_other_bytes_is_thrown_away(
    tmp_path: Path, model: KnownModel, hub: Hub
) -> None:
    part = tmp_path / "partial" / f"{CHECKPOINT}.part"
    part.parent.mkdir()
    part.write_bytes(b"x" * 100)
    with pytest.raises(RouteError, match="pinned bytes"):
        _download(model, hub, tmp_path)
    assert not part.exists()
    _download(model, hub, tmp_path)
    _assert_downloaded(tmp_path)


def test_a_file_of_the_right_size_and_other_bytes_is_refused(
    tmp_path: Path, model: KnownModel, hub: Hub
) -> None:
    hub.replacement = b"x" * model.files[0].byte_size
    with pytest.raises(RouteError, match="pinned bytes"):
        _download(model, hub, tmp_path)
    assert not list((tmp_path / "target").iterdir())


def test_a_longer_file_is_not_read_to_its_end(tmp_path: Path, model: KnownModel, hub: Hub) -> None:
    hub.replacement = b"x" * (32 << 20)
    with pytest.raises(RouteError, match="longer"):
        _download(model, hub, tmp_path)
    assert (tmp_path / "partial" / f"{CHECKPOINT}.part").stat().st_size == 0


@pytest.mark.parametrize("replacement", [b"", b"short"])
def test_a_shorter_file_is_refused(
    tmp_path: Path, model: KnownModel, hub: Hub, replacement: bytes
) -> None:
    hub.replacement = replacement
    with pytest.raises(RouteError):
        _download(model, hub, tmp_path)


@pytest.mark.parametrize("status", [401, 404, 416, 429, 500])
def test_a_refusal_is_told_with_its_status(
    tmp_path: Path, model: KnownModel, hub: Hub, status: int
) -> None:
    hub.status = status
    with pytest.raises(RouteError, match="shorter" if status == 416 else str(status)):
        _download(model, hub, tmp_path)


def test_a_redirect_to_plain_http_elsewhere_is_not_followed(
    tmp_path: Path, model: KnownModel, hub: Hub
) -> None:
    hub.redirect_to = "http://192.0.2.1/model.safetensors"
    with pytest.raises(RouteError, match="not https"):
        _download(model, hub, tmp_path)


def test_a_redirect_on_this_machine_is_followed(
    tmp_path: Path, model: KnownModel, hub: Hub
) -> None:
    with running_hub(hub.folder) as other:
        hub.redirect_to = f"{other.url}/cdn/{TOKENIZER}"
        only_tokenizer = [file for file in model.files if file.name == TOKENIZER]
        target = tmp_path / "target"
        target.mkdir()
        download_from_hub(
            replace(model, files=tuple(only_tokenizer)),
            target,
            tmp_path / "partial",
            Watch(),
            hub_url=hub.url,
        )
        assert other.requests == [(f"/cdn/{TOKENIZER}", "")]


def test_redirects_in_a_circle_end(tmp_path: Path, model: KnownModel, hub: Hub) -> None:
    hub.redirect_to = f"{hub.url}/again"
    with pytest.raises(RouteError, match="redirects"):
        _download(model, hub, tmp_path)


@pytest.mark.parametrize("url", ["http://192.0.2.1", "ftp://127.0.0.1", "file:///tmp"])
def test_an_unsafe_hub_address_is_refused(tmp_path: Path, model: KnownModel, url: str) -> None:
    with pytest.raises(RouteError, match="not https"):
        download_from_hub(model, tmp_path, tmp_path / "partial", Watch(), hub_url=url)


def test_a_hub_that_is_not_there_is_told(tmp_path: Path, model: KnownModel) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(RouteError, match=CHECKPOINT):
            download_from_hub(model, tmp_path, tmp_path / "partial", Watch(), hub_url=url)
