"""Model files that are on this machine already: in a folder, a wheel, or an installed package."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from sqlindex.embedding.models import KnownModel, PinnedFile
from sqlindex.embedding.pinned_copy import RouteError, Watch, copy_pinned

_ZIP_SUFFIXES = (".whl", ".zip")
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)


def copy_from_path(model: KnownModel, source: Path, folder: Path, watch: Watch) -> str:
    """Copy the pinned files from what the user named.

    Args:
        source: a folder with the files anywhere below it, a wheel or zip with them inside, or
            one of the files, with the others beside it.

    Returns:
        Where the bytes came from, in words.

    Raises:
        RouteError: a file is not there or has other bytes.
    """
    if source.is_dir():
        _copy_from_folder(model, source, folder, watch)
        return f"folder {source}"
    if source.suffix.lower() in _ZIP_SUFFIXES and source.is_file():
        copy_from_zip(model, source, folder, watch)
        return f"archive {source}"
    if source.is_file():
        _copy_from_folder(model, source.parent, folder, watch)
        return f"folder {source.parent}"
    raise RouteError(f"{source} is neither a folder nor a file")


def copy_from_zip(model: KnownModel, archive_path: Path, folder: Path, watch: Watch) -> None:
    """Copy the pinned files out of a wheel or zip, in whatever folder of it they are.

    Raises:
        RouteError: the archive cannot be read, lacks a file or has one with other bytes.
    """
    try:
        with _open(archive_path) as file, zipfile.ZipFile(file) as archive:
            members = [entry for entry in archive.infolist() if not entry.is_dir()]
            for pinned in model.files:
                named = [m for m in members if m.filename.rsplit("/", 1)[-1] == pinned.name]
                right = [member for member in named if member.file_size == pinned.byte_size]
                _require_any(pinned, found=len(named), right=len(right), place=archive_path.name)
                with archive.open(right[0]) as reader:
                    copy_pinned(reader, pinned, folder, watch)
    except _BAD_ZIP as exc:
        raise RouteError(f"{archive_path} cannot be read as a zip: {exc}") from exc


def copy_from_installed(model: KnownModel, folder: Path, watch: Watch) -> str:
    """Copy the pinned files from an installed carrier.

    The package is looked up in the installer's records and its files are read; none of its
    code runs. Any version will do, since the bytes decide.

    Returns:
        Where the bytes came from, in words.

    Raises:
        RouteError: no carrier is installed, or none has the pinned bytes.
    """
    from importlib import metadata

    reasons = []
    for carrier in model.carriers:
        try:
            distribution = metadata.distribution(carrier.distribution)
        except metadata.PackageNotFoundError:
            continue
        paths = [Path(str(distribution.locate_file(f))) for f in distribution.files or ()]
        try:
            _copy_files(model, paths, carrier.distribution, folder, watch)
        except RouteError as exc:
            reasons.append(str(exc))
            continue
        return f"installed package {carrier.distribution} {distribution.version}"
    names = ", ".join(carrier.distribution for carrier in model.carriers)
    raise RouteError("; ".join(reasons) or f"no package with the files is installed ({names})")


def _copy_from_folder(model: KnownModel, source: Path, folder: Path, watch: Watch) -> None:
    beside = [source / pinned.name for pinned in model.files]
    if all(path.is_file() for path in beside):
        _copy_files(model, beside, str(source), folder, watch)
        return
    names = {pinned.name for pinned in model.files}
    below = sorted(path for path in source.rglob("*") if path.name in names and path.is_file())
    _copy_files(model, below, str(source), folder, watch)


def _copy_files(
    model: KnownModel, paths: Iterable[Path], place: str, folder: Path, watch: Watch
) -> None:
    """Copy each pinned file from the first path of its name and size."""
    paths = list(paths)
    for pinned in model.files:
        named = [path for path in paths if path.name == pinned.name and path.is_file()]
        right = [path for path in named if path.stat().st_size == pinned.byte_size]
        _require_any(pinned, found=len(named), right=len(right), place=place)
        with _open(right[0]) as reader:
            copy_pinned(reader, pinned, folder, watch)


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as exc:
        raise RouteError(f"{path} cannot be opened: {exc.strerror}") from exc


def _require_any(pinned: PinnedFile, *, found: int, right: int, place: str) -> None:
    if not found:
        raise RouteError(f"{place} has no {pinned.name}")
    if not right:
        raise RouteError(f"{pinned.name} in {place} does not have {pinned.byte_size} bytes")
