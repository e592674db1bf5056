"""Staged folders: found by name, checked quickly at load and fully on request."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from sqlindex.embedding.models import KNOWN_MODELS, KnownModel
from sqlindex.embedding.staged import (
    StagedModel,
    default_models_dir,
    find_staged,
    find_staged_model,
    list_models,
    require_staged,
    staged_folder,
    verify_files,
)
from sqlindex.embedding.staging import stage_model
from sqlindex.errors import ModelFilesError, ModelNotInstalledError, UnknownModelError
from tests.unit.embedding.tiny_model import tiny_model


@pytest.fixture
def model(tmp_path: Path) -> KnownModel:
    return tiny_model(tmp_path / "upstream")


@pytest.fixture
def staged(model: KnownModel, tmp_path: Path) -> StagedModel:
    return stage_model(model, source=tmp_path / "upstream", models_dir=tmp_path / "models")


def _find(staged: StagedModel) -> StagedModel | None:
    return find_staged_model(staged.model, staged.folder.parent)


def test_a_model_that_is_not_installed_is_none_and_requiring_it_says_how(tmp_path: Path) -> None:
    assert find_staged("minilm", tmp_path) is None
    with pytest.raises(ModelNotInstalledError) as caught:
        require_staged("minilm", tmp_path)
    assert caught.value.hint.startswith("sqlindex model install minilm")


def test_an_unknown_model_is_an_error_and_not_none(tmp_path: Path) -> None:
    with pytest.raises(UnknownModelError):
        find_staged("maxilm", tmp_path)


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLINDEX_MODELS", str(tmp_path))
    assert default_models_dir() == tmp_path
    monkeypatch.delenv("SQLINDEX_MODELS")
    assert default_models_dir().parts[-2:] == ("sqlindex", "models")


def test_every_known_model_is_listed_with_its_state(tmp_path: Path) -> None:
    absent = list_models(tmp_path)
    assert [state.model for state in absent] == list(KNOWN_MODELS.values())
    assert all((state.staged, state.problem) == (None, "") for state in absent)
    folder = staged_folder(absent[0].model, tmp_path)
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    damaged, *others = list_models(tmp_path)
    assert damaged.staged is None
    assert "manifest.json" in damaged.problem
    assert not any(state.problem for state in others)


@pytest.mark.parametrize("name", ["encoder.onnx", "encoder.onnx.data", "tokenizer.json"])
def test_a_missing_cut_or_linked_file_is_noticed_at_load(staged: StagedModel, name: str) -> None:
    path = staged.folder / name
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(ModelFilesError, match=name):
        _find(staged)
    path.unlink()
    with pytest.raises(ModelFilesError, match=name):
        _find(staged)
    elsewhere = staged.folder.parent / "elsewhere"
    elsewhere.write_bytes(content)
    path.symlink_to(elsewhere)
    with pytest.raises(ModelFilesError, match="not a regular file"):
        _find(staged)


def test_a_copied_cache_is_accepted_because_its_bytes_are_right(staged: StagedModel) -> None:
    for path in staged.folder.iterdir():
        os.utime(path, (1, 1))
    assert _find(staged) == staged


def test_changed_bytes_with_a_new_time_are_noticed_at_load(staged: StagedModel) -> None:
    path = staged.folder / "encoder.onnx.data"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    os.utime(path, (1, 1))
    with pytest.raises(ModelFilesError, match="other bytes"):
        _find(staged)


def test_changed_bytes_with_the_old_time_are_noticed_by_verifying(
    staged: StagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tiny matrices count as a large file here, as the real ones do.
    monkeypatch.setattr("sqlindex.embedding.staged._ALWAYS_HASHED_BYTES", 0)
    path = staged.folder / "encoder.onnx.data"
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _find(staged) == staged
    with pytest.raises(ModelFilesError, match="other bytes"):
        verify_files(staged)


@pytest.mark.parametrize(
    "change",
    [
        {"revision": "f" * 40},
        {"graph_version": 0},
        {"manifest_version": 2},
        {"files": {}},
        {"files": {"../outside": {}}},
        {"files": [1]},
    ],
)
def test_a_manifest_of_something_else_is_refused(
    staged: StagedModel, change: dict[str, object]
) -> None:
    path = staged.folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ModelFilesError):
        _find(staged)


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, "\udcff"])
def test_a_manifest_that_is_none_is_refused(staged: StagedModel, content: str) -> None:
    (staged.folder / "manifest.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelFilesError):
        _find(staged)


def test_a_graph_that_points_outside_its_folder_is_refused(staged: StagedModel) -> None:
    graph = staged.encoder_path.read_bytes()
    outside = graph.replace(b"encoder.onnx.data", b"../../secret.data")
    assert outside != graph
    staged.encoder_path.write_bytes(outside)
    path = staged.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["encoder.onnx"]["sha256"] = hashlib.sha256(outside).hexdigest()
    path.write_text(json.dumps(manifest))
    with pytest.raises(ModelFilesError, match="outside its folder"):
        verify_files(staged)
