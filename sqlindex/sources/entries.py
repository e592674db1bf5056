"""What becomes of the files of a folder: each is a document, or has its reason not to be one."""

from __future__ import annotations

import os
import stat as stat_modes
from collections.abc import Iterator

from sqlindex.filetypes.registry import FileTypeRegistry
from sqlindex.filetypes.unsupported import unsupported
from sqlindex.model.documents import DocumentRef, Refusal, RefusalReason
from sqlindex.sources.containment import not_a_file
from sqlindex.sources.paths import document_id_of, text_of
from sqlindex.sources.stable_read import HINTS, file_stat, too_large
from sqlindex.sources.walk import VisitedFolder


def entries_of(
    visited: VisitedFolder, registry: FileTypeRegistry
) -> Iterator[DocumentRef | Refusal]:
    """Yield every file of a folder in order; its names are used up.

    One stat for each file that is not left out. What is removed meanwhile is not named.
    """
    path, descriptor = visited.path, visited.descriptor
    leave_out = visited.rules.leave_out
    links = visited.rules.links
    type_of = registry.for_extension
    prefix = document_id_of(path)
    for name in visited.names:
        if visited.only_links and not _is_link(name, descriptor):
            continue
        text = text_of(name)
        # Nearly every name is its own id, which is cheap to see.
        is_plain = text.isascii() and "\\" not in text
        document_id = prefix + (text if is_plain else document_id_of(name))
        if name in links:
            yield Refusal(
                document_id,
                RefusalReason.SYMLINK,
                "an ignore file that is a symbolic link has no effect",
                "replace the link by a file",
            )
            continue
        rule = leave_out(name, text, path)
        if rule is not None:
            yield Refusal(document_id, rule.reason, rule.detail, rule.hint)
            continue
        try:
            found = os.lstat(name, dir_fd=descriptor)
        except FileNotFoundError:
            continue  # removed during the listing
        except OSError as exc:
            yield Refusal(
                document_id,
                RefusalReason.UNREADABLE,
                exc.strerror or "cannot stat",
                HINTS[RefusalReason.UNREADABLE],
            )
            continue
        if not stat_modes.S_ISREG(found.st_mode):
            yield _no_file(document_id, found.st_mode)
            continue
        dot = text.rfind(".")
        extension = text[dot + 1 :].lower() if dot > 0 else ""
        file_type = type_of(extension)
        if file_type is None:
            yield unsupported(document_id, extension)
        elif found.st_size > file_type.max_bytes:
            yield Refusal(
                document_id,
                RefusalReason.TOO_LARGE,
                too_large(found.st_size, file_type.max_bytes),
                HINTS[RefusalReason.TOO_LARGE],
            )
        else:
            yield DocumentRef(document_id, document_id, extension, file_stat(found))


def _no_file(document_id: str, mode: int) -> Refusal:
    reason, detail = not_a_file(mode)
    return Refusal(document_id, reason, detail, HINTS.get(reason, ""))


def _is_link(name: bytes, folder: int) -> bool:
    try:
        return stat_modes.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False
