"""Make a file beside its final name and put it in place whole: nobody ever sees half of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlindex.errors import StorageError

SIDECARS = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite may make beside a database."""


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A new empty file of mode 0600 under a temporary name, put at `path` when the block ends.

    It is synced before it gets its name, and the folder after that. If the block fails, nothing is
    left; if the process dies, the temporary file is (`.NAME.….new`), never a half one at `path`.

    Args:
        path: the final name.

    Raises:
        FileExistsError: something is at `path` already.
        StorageError: the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        _make(temporary, path)
        yield temporary
        try:
            _sync(temporary)
            _link(temporary, path)
            sync_folder(path.parent)
        except FileExistsError:
            raise
        except OSError as exc:
            raise StorageError(
                f"cannot put {path} in place: {exc.strerror}",
                hint="check the disk and the folder's permissions",
            ) from exc
    finally:
        remove_database(temporary)


def remove_database(path: Path) -> None:
    """Unlink a database that no process has open, and its sidecars, as far as they are there."""
    for suffix in ("", *SIDECARS):
        with suppress(OSError):
            os.unlink(f"{path}{suffix}")


def sync_folder(folder: Path) -> None:
    """Make names in a folder survive a power loss, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make(temporary: Path, path: Path) -> None:
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as exc:
        raise StorageError(
            f"cannot create index {path}: {exc.strerror}",
            hint="check the folder's name and permissions",
        ) from exc


def _sync(path: Path) -> None:
    # The file has no other user yet: closing this descriptor drops no lock that SQLite holds.
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links; O_EXCL keeps the promise that nothing is overwritten.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        os.replace(temporary, path)
