"""Containment: a root that stays what it was, and opens that never follow a link.

Every component of a path is opened by itself with `O_NOFOLLOW`, relative to the folder opened
before it, so no link swapped in between check and use leads out of the root. This protects against
links and special files found in the documents. It is no sandbox against a hostile process of the
same user: that one can write into the root whatever it likes to see indexed.

Linux is tested. The module imports on macOS and Windows and is untested there; where Python lacks
`dir_fd`, opening a root is a typed error.
"""

from __future__ import annotations

import errno
import os
import stat as stat_modes
from collections.abc import Sequence

from sqlindex.errors import SourceError, UsageError
from sqlindex.model.documents import RefusalReason
from sqlindex.sources.paths import path_of

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
# Passing through a folder needs no right to list it; only Linux can say so.
_PASSAGE = _FOLDER | getattr(os, "O_PATH", 0)
# O_NONBLOCK: opening a FIFO that came in place of a file must not wait for a writer.
_FILE = (
    os.O_RDONLY
    | _NO_FOLLOW
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_READ_BYTES = 1024 * 1024


def canonical_root(path: str | os.PathLike[str]) -> str:
    """The one spelling under which a folder is registered: absolute, without links.

    `~` is expanded and links are resolved once, here, so that `r`, `./r/`, and a link to `r` are
    one source; later a link in the root's path is refused (`open_root`).

    Raises:
        UsageError: no such folder, or its path is not UTF-8.
    """
    given = os.fspath(path)
    root = os.path.realpath(os.path.expanduser(given))
    if not os.path.isdir(root):
        what = "is not a folder" if os.path.exists(root) else "does not exist"
        raise UsageError(f"source folder {given!r} {what}", hint="give the path of a folder")
    try:
        root.encode()
    except UnicodeEncodeError as exc:
        raise UsageError(
            f"the path of source folder {given!r} is not UTF-8", hint="rename the folder"
        ) from exc
    return root


def ignores_case(root: str) -> bool:
    """Whether the file system takes names in any case of letters for the same file.

    Judged by the root's own name: the same folder under its name with all cases swapped.
    """
    parent, name = os.path.split(root)
    try:
        return name != name.swapcase() and os.path.samestat(
            os.lstat(root), os.lstat(os.path.join(parent, name.swapcase()))
        )
    except OSError:
        return False


def open_root(root: str, *, to_list: bool) -> int:
    """Open a registered root component by component, from `/`, without following any link.

    Args:
        root: as `canonical_root` gave it.
        to_list: whether the folder will be listed, or only passed through.

    Returns:
        A descriptor that the caller closes.

    Raises:
        SourceError: the root is missing or unreadable, or a part of its path is a link now.
    """
    if os.open not in os.supports_dir_fd:
        raise SourceError(f"folder {root!r} cannot be opened safely on this system")
    components = [os.fsencode(part) for part in root.split("/") if part]
    folder = os.open("/", _PASSAGE if components or not to_list else _FOLDER)
    try:
        for depth, name in enumerate(components, start=1):
            is_last = depth == len(components)
            deeper = os.open(name, _FOLDER if is_last and to_list else _PASSAGE, dir_fd=folder)
            os.close(folder)
            folder = deeper
    except OSError as exc:
        os.close(folder)
        resolved = os.path.realpath(root)
        if resolved != root:
            raise SourceError(
                f"source folder {root!r} leads to {resolved!r} now: a part of its path was "
                "replaced by a link",
                hint="undo that, or register the folder again",
            ) from exc
        raise SourceError(
            f"source folder {root!r} cannot be opened: {exc.strerror}",
            hint="make it available and readable; if it was moved: sqlindex source move NAME FOLDER",
        ) from exc
    return folder


def is_on_other_device(root: str, device: int) -> bool:
    """Whether the folder above a root is on another device than `device`, the root's own."""
    try:
        return os.lstat(os.path.dirname(root)).st_dev != device
    except OSError:
        return False


def contained_components(document_id: str) -> list[bytes]:
    """The components of a document's path below its root.

    Raises:
        ValueError: the id is no path inside a root: absolute, with `..`, an empty part or a NUL,
            or not written as `document_id_of` writes it.
    """
    path = path_of(document_id)
    components = path.split(b"/")
    if b"\0" in path or any(part in (b"", b".", b"..") for part in components):
        raise ValueError(f"{document_id!r} is not a path inside a folder")
    return components


def open_folder(name: bytes, parent: int) -> int:
    """Open a sub-folder for listing. Raises OSError, for a link too; see `why_not_opened`."""
    return os.open(name, _FOLDER, dir_fd=parent)


def open_parent(root: int, components: Sequence[bytes]) -> int:
    """Open the folder that holds the last component, passing each folder without following links.

    Raises:
        NotOpenedError: a folder on the way cannot be passed.
    """
    folder = os.dup(root)
    for name in components[:-1]:
        try:
            deeper = os.open(name, _PASSAGE, dir_fd=folder)
        except OSError as exc:
            error = NotOpenedError(*why_not_opened(exc, name, folder))
            os.close(folder)
            raise error from exc
        os.close(folder)
        folder = deeper
    return folder


def open_file(name: bytes, parent: int) -> int:
    """Open a regular file for reading; never waits, never opens what is known to be no file.

    Raises:
        NotOpenedError: it cannot be opened, or is no regular file.
    """
    try:
        # Opening some devices has effects, so look first; the caller checks again after it.
        if not stat_modes.S_ISREG(mode := os.lstat(name, dir_fd=parent).st_mode):
            raise NotOpenedError(*not_a_file(mode))
        return os.open(name, _FILE, dir_fd=parent)
    except OSError as exc:
        raise NotOpenedError(*why_not_opened(exc, name, parent)) from exc


def read_bounded(file: int, max_bytes: int, expected_bytes: int = 0) -> bytes:
    """Read to the end of the file, but never more than `max_bytes + 1` bytes.

    Args:
        file: an open descriptor.
        max_bytes: a longer result than this says that the file is larger.
        expected_bytes: the size that the first read asks for.
    """
    pieces = []
    left = max_bytes + 1
    wanted = max(expected_bytes + 1, 4096)
    while left and (piece := os.read(file, min(wanted, left))):
        pieces.append(piece)
        left -= len(piece)
        wanted = _READ_BYTES
    return b"".join(pieces)


class NotOpenedError(Exception):
    """Why a file or folder below a root was not opened; internal to the sources.

    Attributes:
        reason: for the refusal.
        detail: for people.
    """

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def why_not_opened(exc: OSError, name: bytes, parent: int) -> tuple[RefusalReason, str]:
    """The refusal for a failed no-follow open of `name` in the folder `parent`."""
    number = exc.errno
    if number in (errno.ENOENT, errno.ENAMETOOLONG):
        return RefusalReason.VANISHED, "it was removed after it was listed"
    if number in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
        # Opening a link as a folder fails with ENOTDIR on Linux, as does a file in its place.
        try:
            mode = os.lstat(name, dir_fd=parent).st_mode
        except OSError:
            mode = 0
        if number != errno.ENOTDIR or stat_modes.S_ISLNK(mode):
            return RefusalReason.SYMLINK, "a symbolic link"
        return RefusalReason.VANISHED, "a folder above it was replaced by a file"
    if number in (errno.ENXIO, errno.ENODEV):
        return RefusalReason.NOT_A_FILE, "a socket, FIFO or device"
    return RefusalReason.UNREADABLE, exc.strerror or "the operating system refused it"


def not_a_file(mode: int) -> tuple[RefusalReason, str]:
    """The refusal for what is no regular file, and what it is in words."""
    if stat_modes.S_ISLNK(mode):
        return RefusalReason.SYMLINK, "a symbolic link"
    for is_kind, words in (
        (stat_modes.S_ISDIR, "a folder"),
        (stat_modes.S_ISFIFO, "a FIFO"),
        (stat_modes.S_ISSOCK, "a socket"),
        (stat_modes.S_ISCHR, "a character device"),
        (stat_modes.S_ISBLK, "a block device"),
    ):
        if is_kind(mode):
            return RefusalReason.NOT_A_FILE, words
    return RefusalReason.NOT_A_FILE, "no regular file"
