"""One entry of a folder by its name, as reading the whole folder would show it."""

from __future__ import annotations

import errno
import os
import stat as stat_modes
import unicodedata
from collections.abc import Iterable

from sqlindex.sources.names import FolderNames
from sqlindex.sources.paths import text_of


def look_up(folder: int, name: bytes, markers: Iterable[str], ignore_case: bool) -> FolderNames:
    """What `names.read_names` would give if the folder held only this entry and its markers.

    The folder is read only where a look at the name does not settle it: where the file system may
    know the entry under another spelling, and where it may be listed but not entered.

    Raises:
        OSError: the folder cannot be read.
    """
    for marker in markers:
        if _kind(folder, marker.encode(), in_any_case=ignore_case) is not None:
            return FolderNames(marker=marker)
    is_folder = _kind(folder, name, in_any_case=False)
    if is_folder is None:
        return FolderNames()
    return FolderNames(folders=iter((name,))) if is_folder else FolderNames(files=iter((name,)))


def _kind(folder: int, name: bytes, *, in_any_case: bool) -> bool | None:
    """Whether an entry is a folder; None if there is none of this name."""
    try:
        found = os.lstat(name, dir_fd=folder)
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            return None
        return _kind_as_listed(folder, name)
    if not in_any_case and may_have_other_spelling(folder, name, found):
        return _kind_as_listed(folder, name)
    return stat_modes.S_ISDIR(found.st_mode)


def _kind_as_listed(folder: int, name: bytes) -> bool | None:
    with os.scandir(folder) as scan:
        for entry in scan:
            if os.fsencode(entry.name) == name:
                return entry.is_dir(follow_symlinks=False)
    return None


def may_have_other_spelling(folder: int, name: bytes, found: os.stat_result) -> bool:
    """Whether a file system takes another spelling of a name for the same entry.

    Where it does, an entry that is found need not be listed under this name. Tried are swapped
    case and both Unicode normal forms. Hard links may make it a false alarm.

    Args:
        folder: open descriptor.
        name: of the entry.
        found: its `lstat`.
    """
    text = text_of(name)
    spellings = {text.swapcase()}
    if not text.isascii():
        spellings |= {unicodedata.normalize(form, text) for form in ("NFC", "NFD")}
    spellings.discard(text)
    for spelling in spellings:
        try:
            if os.path.samestat(found, os.lstat(os.fsencode(spelling), dir_fd=folder)):
                return True
        except OSError:
            continue
    return False
