"""The registry of file types: which extensions are indexed, by which parser, up to which size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Literal

from sqlindex.errors import DuplicateError

Kind = Literal["markdown", "text", "code", "structured", "markup"]

DEFAULT_MAX_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileType:
    """One row of the registry.

    Attributes:
        name: unique id of the type.
        extensions: without dot, lower case; the first one is the usual spelling.
        kind: what the files are, for people and filters.
        language: programming or markup language of the text, kept with each chunk.
        parser: id of the parser that reads it.
        structure_aware: whether the parser finds sections, not only one body.
        text_fallback: whether the plain text parser may serve where `parser` is missing.
        max_bytes: larger files are refused as `too_large`.
    """

    name: str
    extensions: tuple[str, ...]
    kind: Kind
    language: str
    parser: str
    structure_aware: bool = False
    text_fallback: bool = True
    max_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        for field_name in ("name", "language", "parser"):
            if not getattr(self, field_name):
                raise ValueError(f"file type {self.name!r}: {field_name} is empty")
        if _is_one_text(self.extensions) or not self.extensions:
            raise ValueError(f"file type {self.name!r}: extensions must be a tuple of at least one")
        for extension in self.extensions:
            # A lookup sees what follows the last dot of a name, so "tar.gz" could never match.
            is_plain = extension and not any(c in "./\\\0" or c.isspace() for c in extension)
            if not is_plain or extension != extension.lower():
                raise ValueError(
                    f"file type {self.name!r}: extension {extension!r} must be lower case, "
                    "without dot, slash or space"
                )
        if self.max_bytes < 1:
            raise ValueError(f"file type {self.name!r}: max_bytes must be at least 1")


class FileTypeRegistry:
    """File types by extension; immutable, so that an index and its sources see the same table.

    Raises:
        DuplicateError: two types share a name or an extension; the message names both.
    """

    def __init__(self, types: Iterable[FileType]) -> None:
        self._types = tuple(types)
        self._type_by_extension: dict[str, FileType] = {}
        type_by_name: dict[str, FileType] = {}
        for file_type in self._types:
            other = type_by_name.setdefault(file_type.name, file_type)
            if other is not file_type:
                raise DuplicateError(
                    f"two file types are named {file_type.name!r}: for {_dotted(other)} "
                    f"and for {_dotted(file_type)}",
                    hint="rename one, or override with with_types(..., replace=True)",
                )
            for extension in file_type.extensions:
                taken_by = self._type_by_extension.get(extension)
                if taken_by is not None:
                    raise DuplicateError(
                        f"extension .{extension} of file type {file_type.name!r} belongs to "
                        f"{taken_by.name!r}",
                        hint="drop it from one, or override with with_types(..., replace=True)",
                    )
                self._type_by_extension[extension] = file_type

    @property
    def types(self) -> tuple[FileType, ...]:
        """All types in the order given."""
        return self._types

    def for_extension(self, extension: str) -> FileType | None:
        """The type of files with this extension, in any case, without dot; None for unknown ones.

        Only extensions count: a name without one (`Makefile`, `LICENSE`, `.env`) has no type.
        """
        return self._type_by_extension.get(extension) or self._type_by_extension.get(
            extension.lower()
        )

    def with_types(self, *types: FileType, replace: bool = False) -> FileTypeRegistry:
        """A new registry that holds `types` too; this one stays as it is.

        Args:
            types: added behind the present ones.
            replace: an added type takes over its name and its extensions. A present type of the
                same name goes; one that shares an extension loses it, and goes with its last one.

        Raises:
            DuplicateError: a name or an extension is taken and `replace` is false, or two of
                `types` collide.
        """
        present = _without(self._types, types) if replace else self._types
        return FileTypeRegistry((*present, *types))

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that change with any row, whatever the order of rows."""
        rows = sorted(repr([getattr(t, f.name) for f in fields(t)]) for t in self._types)
        return hashlib.blake2b("\n".join(rows).encode(), digest_size=16).hexdigest()


def _without(present: Iterable[FileType], added: Iterable[FileType]) -> list[FileType]:
    names = {file_type.name for file_type in added}
    extensions = {extension for file_type in added for extension in file_type.extensions}
    kept = []
    for file_type in present:
        left = tuple(e for e in file_type.extensions if e not in extensions)
        if file_type.name not in names and left:
            kept.append(replace(file_type, extensions=left))
    return kept


def _is_one_text(value: object) -> bool:
    return isinstance(value, str)  # a tuple of one without its comma


def _dotted(file_type: FileType) -> str:
    return " ".join(f".{extension}" for extension in file_type.extensions)
