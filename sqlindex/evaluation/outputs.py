"""The files that an evaluation writes: apart from those it reads, and each whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path

from sqlindex.errors import StorageError, UsageError
from sqlindex.evaluation.configurations import DEFAULT_CONFIGURATION, Configuration
from sqlindex.evaluation.report import Level
from sqlindex.model.requests import Mode
from sqlindex.store.opening import SIDECARS

Named = tuple[str, Path]
"""A file after what names it: an option, or words."""


def require_apart(outputs: Sequence[Named], inputs: Sequence[Named]) -> None:
    """Refuse an output that is an input or another output, under whatever name.

    Raises:
        UsageError: there is such a file.
    """
    for written, output in outputs:
        for read, path in inputs:
            if _is_same(output, path):
                raise UsageError(
                    f"{written} would write over {output}, which is {read}",
                    hint="name another file",
                )
    for (one, path), (other, other_path) in combinations(outputs, 2):
        if _is_same(path, other_path):
            raise UsageError(
                f"{one} and {other} would both write {path}", hint="give each its own file"
            )


def require_not_printed(outputs: Sequence[Named]) -> None:
    """Refuse an output that is where the report is printed, as `/dev/stdout` is; a terminal may be.

    Raises:
        UsageError: there is such a file or pipe.
    """
    try:
        printed = os.fstat(1)
    except OSError:  # nothing is printed
        return
    if stat.S_ISCHR(printed.st_mode):
        return
    for option, path in outputs:
        with suppress(OSError):
            if os.path.samestat(path.stat(), printed):
                raise UsageError(
                    f"{option} would write to {path}, where the report is printed",
                    hint="name another file",
                )


def index_files(path: Path) -> list[Named]:
    """An index, and the files that SQLite and writers keep beside it."""
    real = os.path.realpath(path)
    beside = [("kept beside the index", Path(f"{real}{suffix}")) for suffix in SIDECARS]
    return [("the index", path), *beside]


def run_name(
    configurations: Sequence[Configuration], configuration: Configuration, mode: Mode
) -> str:
    """The mode; after its configuration unless the default one is the only one of all."""
    return mode if _is_plain(configurations) else f"{configuration.name}/{mode}"


def run_file(folder: Path, name: str) -> Path:
    """The file of a run: `configuration/mode` is `configuration-mode.run`."""
    return folder / f"{name.replace('/', '-')}.run"


def qrels_file(
    folder: Path,
    configurations: Sequence[Configuration],
    configuration: Configuration,
    level: Level,
) -> Path:
    """Documents are the same in every configuration, chunks are not."""
    if level == "document" or _is_plain(configurations):
        return folder / "qrels.txt"
    return folder / f"{configuration.name}-qrels.txt"


def saved_files(
    folder: Path, configurations: Sequence[Configuration], modes: Sequence[Mode], level: Level
) -> list[Path]:
    """The folder of saved runs and all files that are written to it."""
    found = [folder]
    for one in configurations:
        found.append(qrels_file(folder, configurations, one, level))
        found += [run_file(folder, run_name(configurations, one, mode)) for mode in modes]
    return list(dict.fromkeys(found))


def write_text(path: Path, text: str) -> None:
    """Write a file whole, its folder made if missing; what was there stays if that fails.

    The text goes to a new file beside it, which then takes its name and, if there was one, its mode.
    What is no plain file, such as a pipe or a terminal, is written to as it is. Bytes of a path that are
    no UTF-8 stand in the file as the escapes that a terminal shows.

    Raises:
        StorageError: it cannot be written.
    """
    written = text.encode("utf-8", "backslashreplace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(written)
        else:
            _replace(Path(os.path.realpath(path)), written)
    except OSError as exc:
        raise StorageError(
            f"{path} cannot be written: {exc.strerror or exc}", hint="check the folder and the disk"
        ) from exc


def _replace(path: Path, written: bytes) -> None:
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.new")
    try:
        with temporary.open("xb") as stream:
            if path.exists():
                # Renaming needs no right to write the file that goes away: ask for it.
                path.open("r+b").close()
                temporary.chmod(path.stat().st_mode & 0o777)
            stream.write(written)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _is_plain(configurations: Sequence[Configuration]) -> bool:
    return tuple(configurations) == (DEFAULT_CONFIGURATION,)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there yet
        return os.path.normcase(os.path.realpath(one)) == os.path.normcase(os.path.realpath(other))
