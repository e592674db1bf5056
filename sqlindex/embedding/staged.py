"""Staged models: the folder an embedder loads from, and how it is found and checked.

A staged folder holds the graph, its matrices, the tokenizer and a manifest with size, time and
SHA-256 of each. Opening compares sizes and times and hashes only the small files; a file whose
time changed (a copied cache) is hashed in full. `verify_files` always hashes everything.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlindex.embedding.graph_writer import external_locations
from sqlindex.embedding.models import KNOWN_MODELS, TOKENIZER, KnownModel, known_model
from sqlindex.embedding.recipes import ENCODER, ENCODER_DATA, recipe_of
from sqlindex.errors import ModelFilesError, ModelNotInstalledError

MANIFEST = "manifest.json"
STAGED_FILES = (ENCODER, ENCODER_DATA, TOKENIZER)

MANIFEST_VERSION = 1
"""1: first."""

_MAX_MANIFEST_BYTES = 1 << 16
_ALWAYS_HASHED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StagedModel:
    """A model whose files are on this machine.

    Attributes:
        model: which model.
        folder: where the files are.
        origin: where the bytes came from, in words.
        graph_version: of the graph builder that made the encoder.
    """

    model: KnownModel
    folder: Path
    origin: str
    graph_version: int

    @property
    def encoder_path(self) -> Path:
        """The ONNX graph; its matrices are beside it."""
        return self.folder / ENCODER

    @property
    def tokenizer_path(self) -> Path:
        """The tokenizer's definition, as upstream published it."""
        return self.folder / TOKENIZER


@dataclass(frozen=True, slots=True)
class ModelState:
    """A known model: installed (`staged`), damaged (`problem` says how) or neither."""

    model: KnownModel
    staged: StagedModel | None
    problem: str = ""


def default_models_dir() -> Path:
    """`SQLINDEX_MODELS`, or `models` in the user's cache folder of this program."""
    configured = os.environ.get("SQLINDEX_MODELS")
    if configured:
        return Path(configured)
    import platformdirs

    return Path(platformdirs.user_cache_dir("sqlindex", appauthor=False)) / "models"


def staged_folder(model: KnownModel, models_dir: Path | None = None) -> Path:
    """Where a model is staged; the name changes with everything that changes the files."""
    version = recipe_of(model).graph_version
    name = f"{model.name}-{model.short_revision}-{model.dtype}-g{version}"
    return (models_dir or default_models_dir()) / name


def find_staged(name: str, models_dir: Path | None = None) -> StagedModel | None:
    """The staged model, or None if it is not installed.

    Raises:
        UnknownModelError: no model is called so.
        ModelFilesError: it is installed and its files are damaged.
    """
    return find_staged_model(known_model(name), models_dir)


def require_staged(name: str, models_dir: Path | None = None) -> StagedModel:
    """The staged model.

    Raises:
        UnknownModelError: no model is called so.
        ModelNotInstalledError: it is not installed.
        ModelFilesError: it is installed and its files are damaged.
    """
    staged = find_staged(name, models_dir)
    if staged is None:
        raise ModelNotInstalledError(
            f"model {name} is not installed",
            hint=f"sqlindex model install {name}; or search with mode lexical",
        )
    return staged


def list_models(models_dir: Path | None = None) -> list[ModelState]:
    """Every known model and whether it is installed; damage is told, not raised."""
    states = []
    for model in KNOWN_MODELS.values():
        try:
            states.append(ModelState(model, find_staged_model(model, models_dir)))
        except ModelFilesError as exc:
            states.append(ModelState(model, None, problem=str(exc)))
    return states


def find_staged_model(model: KnownModel, models_dir: Path | None = None) -> StagedModel | None:
    """As `find_staged`, for a model that need not be in the table."""
    folder = staged_folder(model, models_dir)
    if not (folder / MANIFEST).exists():
        return None
    manifest = _read_manifest(model, folder)
    for name, entry in _file_entries(model, folder, manifest).items():
        _check_file(model, folder / name, entry, full=False)
    origin = str(manifest.get("origin", ""))
    return StagedModel(model, folder, origin, recipe_of(model).graph_version)


def verify_files(staged: StagedModel) -> None:
    """Hash every file again and look where the graph points: reads about 90 MB.

    Raises:
        ModelFilesError: a file is missing or differs, or the graph names a file outside.
    """
    manifest = _read_manifest(staged.model, staged.folder)
    for name, entry in _file_entries(staged.model, staged.folder, manifest).items():
        _check_file(staged.model, staged.folder / name, entry, full=True)
    check_external_locations(staged.model, staged.encoder_path)


def check_external_locations(model: KnownModel, encoder_path: Path) -> None:
    """Make sure the graph's matrices are in the one file beside it.

    Raises:
        ModelFilesError: the graph points to another file.
    """
    if external_locations(encoder_path) - {ENCODER_DATA}:
        raise _damaged(model, f"{encoder_path} points to files outside its folder")


def write_manifest(model: KnownModel, folder: Path, origin: str) -> None:
    """Describe the files of a folder in its manifest.

    Times are cut to whole seconds first: archives and image layers keep no more, and a copied
    cache should not be hashed at every start.
    """
    files: dict[str, dict[str, object]] = {}
    for name in STAGED_FILES:
        path = folder / name
        seconds = int(path.stat().st_mtime)
        os.utime(path, (seconds, seconds))
        files[name] = {
            "byte_size": path.stat().st_size,
            "mtime_ns": path.stat().st_mtime_ns,
            "sha256": sha256_of(path),
        }
    manifest = {
        "manifest_version": MANIFEST_VERSION,
        **_identity_fields(model),
        "origin": origin,
        "files": files,
    }
    with (folder / MANIFEST).open("x", encoding="utf-8") as file:
        json.dump(manifest, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _identity_fields(model: KnownModel) -> dict[str, object]:
    """What a manifest must say to belong to this model and this builder."""
    return {
        "model": model.name,
        "repository": model.repository,
        "revision": model.revision,
        "dtype": model.dtype,
        "graph_version": recipe_of(model).graph_version,
        "source_sha256": {file.name: file.sha256 for file in model.files},
    }


def _read_manifest(model: KnownModel, folder: Path) -> Mapping[str, object]:
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            manifest = json.loads(file.read(_MAX_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError) as exc:
        raise _damaged(model, f"{path} cannot be read") from exc
    expected = {"manifest_version": MANIFEST_VERSION, **_identity_fields(model)}
    if not isinstance(manifest, dict):
        raise _damaged(model, f"{path} is not an object")
    for key, value in expected.items():
        if manifest.get(key) != value:
            raise _damaged(model, f"{path} says {manifest.get(key)!r} for {key}, not {value!r}")
    return manifest


def _file_entries(
    model: KnownModel, folder: Path, manifest: Mapping[str, object]
) -> dict[str, Mapping[str, object]]:
    """The manifest's entry of each file; exactly the files we write, no other name."""
    files = manifest.get("files")
    if (
        not isinstance(files, dict)
        or set(files) != set(STAGED_FILES)
        or not all(isinstance(entry, dict) for entry in files.values())
    ):
        raise _damaged(model, f"{folder / MANIFEST} does not list the files of a staged model")
    return files


def _check_file(model: KnownModel, path: Path, entry: Mapping[str, object], *, full: bool) -> None:
    try:
        found = path.lstat()
    except OSError as exc:
        raise _damaged(model, f"{path} is missing") from exc
    # A link could lead out of the folder, so it is refused even if its target is right.
    if not stat.S_ISREG(found.st_mode):
        raise _damaged(model, f"{path} is not a regular file")
    if found.st_size != entry.get("byte_size"):
        raise _damaged(model, f"{path} has {found.st_size} bytes, not {entry.get('byte_size')}")
    hashed = (
        full or found.st_size <= _ALWAYS_HASHED_BYTES or found.st_mtime_ns != entry.get("mtime_ns")
    )
    if hashed and sha256_of(path) != entry.get("sha256"):
        raise _damaged(model, f"{path} has other bytes than when it was staged")


def _damaged(model: KnownModel, why: str) -> ModelFilesError:
    return ModelFilesError(
        f"model {model.name} is damaged: {why}", hint=f"sqlindex model install {model.name}"
    )
