"""Documents: what a source lists and reads, and what a parser makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from sqlindex.model.rendered import Rendered as Rendered

NO_METADATA: Mapping[str, object] = MappingProxyType({})


class RefusalReason(StrEnum):
    """Why a document that a source offers, or a file that it leaves out, is not in the index."""

    TRAVERSAL = "traversal"
    """The id leaves the root (`..`, absolute, or NUL)."""
    SYMLINK = "symlink"
    """The file or a folder above it is a symbolic link."""
    LOOP = "loop"
    """A folder that is one of those above it, as a bind mount makes it; not entered again."""
    NOT_A_FILE = "not_a_file"
    """A FIFO, socket or device."""
    UNSUPPORTED = "unsupported"
    """No file type is registered for the extension."""
    TOO_LARGE = "too_large"
    """Over the file type's size limit."""
    ENCODING = "encoding"
    """Neither UTF-8 nor UTF-16 with a byte-order mark."""
    NUL = "nul"
    """The decoded text holds NUL characters: a binary file."""
    UNREADABLE = "unreadable"
    """The operating system refused to open or read it; the last indexed version is kept."""
    CHANGED = "changed"
    """It changed while it was read, twice; the last indexed version is kept."""
    VANISHED = "vanished"
    """It was listed and is gone."""
    ID = "id"
    """A row without a usable id: NULL, empty, bytes, or a number with a fraction."""
    PARSER = "parser"
    """The parser failed on it."""
    HIDDEN = "hidden"
    """Left out: its name begins with a dot."""
    SECRET = "secret"
    """Left out: files of this name commonly hold keys or logins."""
    IGNORED = "ignored"
    """Left out by an ignore file."""
    DEFAULT_IGNORED = "default_ignored"
    """Left out by name: version control, installed packages, environments, caches."""
    EXCLUDED = "excluded"
    """Left out by an exclude pattern of its source."""
    NOT_INCLUDED = "not_included"
    """Left out: no include pattern of its source matches."""
    OWN_FILE = "own_file"
    """Left out: the index itself or one of its sidecars."""
    OTHER_FILESYSTEM = "other_filesystem"
    """Left out: another file system is mounted here, and its source stays on one."""

    @property
    def keeps_last_version(self) -> bool:
        """Whether the version indexed earlier stays, because the reason may be transient."""
        return self in (RefusalReason.UNREADABLE, RefusalReason.CHANGED)

    @property
    def is_left_out(self) -> bool:
        """Whether a rule of the source keeps it out: no fault of the document."""
        return self in _LEFT_OUT


_LEFT_OUT = frozenset(
    (
        RefusalReason.HIDDEN,
        RefusalReason.SECRET,
        RefusalReason.IGNORED,
        RefusalReason.DEFAULT_IGNORED,
        RefusalReason.EXCLUDED,
        RefusalReason.NOT_INCLUDED,
        RefusalReason.OWN_FILE,
        RefusalReason.OTHER_FILESYSTEM,
    )
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A document that cannot be indexed: `reason` for programs, `detail` and `hint` for people."""

    document_id: str
    reason: RefusalReason
    detail: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class FileStat:
    """What the file system says of a file; equal stats and no race mean equal bytes."""

    byte_size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int


@dataclass(frozen=True, slots=True)
class DocumentRef:
    """One document as a source lists it.

    Attributes:
        document_id: identity within the source.
        path: for display and path filters; never an identity.
        type_name: what the file-type registry looks up: an extension without dot, lower case.
        stat: present for files; None means "read it to know whether it changed".
    """

    document_id: str
    path: str
    type_name: str
    stat: FileStat | None = None


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A document as read: its bytes and what only the source knows of it.

    Attributes:
        data: the file's bytes, or the host's text in UTF-8.
        uri: a re-openable origin given by the host; folders leave it None (root + id say it).
        title: given by the host, else None.
        date: ISO 8601 date or date-time given by the host, else None.
        tags: given by the host, in its order.
        metadata: JSON-serialisable fields of the host, for filters.
        modified_ns: time of the last change in nanoseconds since 1970, or None.
        stat: for files, what belongs to exactly these bytes; it may differ from the listing's.
    """

    data: bytes
    uri: str | None = None
    title: str | None = None
    date: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=lambda: NO_METADATA)
    modified_ns: int | None = None
    stat: FileStat | None = None


class SectionKind(StrEnum):
    """What a section holds."""

    BODY = "body"
    FRONT_MATTER = "front_matter"
    """Metadata above a text: found lexically, never embedded, joined with nothing."""
    RAW = "raw"
    """What people do not read as text (scripts in HTML, outputs of a notebook): found lexically,
    never embedded."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document under one heading.

    The sections of a document are in order, do not overlap and cover its text. Each begins at the
    start of a line.

    Attributes:
        start_char: offset of the first character, the heading's line included.
        end_char: offset after the last character.
        heading_path: headings from the outermost to this section's own; empty before the first.
            For code the names of definitions, for structured text its keys.
        level: depth of the heading from 1 (in Markdown 1 to 6); 0 where `heading_path` is empty
            and the section has no heading.
        heading_line: 1-based line of the heading, which is the section's first line or one of its
            first (below decorators, comments); 0 if the section has none of its own: the text
            before the first one, or what stands in a class after its last method.
        kind: see `SectionKind`.
        is_bare: whether the section holds nothing but its heading; it then joins the section right
            below it.
    """

    start_char: int
    end_char: int
    heading_path: tuple[str, ...] = ()
    level: int = 0
    heading_line: int = 0
    kind: SectionKind = SectionKind.BODY
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """An outgoing link as written: `target` raw, `label` as displayed, `start_char` where."""

    target: str
    label: str
    start_char: int
    is_wiki: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of one section that read as one: kept in one chunk where they fit into it.

    Blocks are in order of `start_char`, outer before inner; they nest or are disjoint. Each begins
    at the start of a line and ends at the end of one.

    Attributes:
        start_char: offset of the first character of its first line.
        end_char: offset after the last character of its last line, line ending excluded.
        header_end_char: end of the lines that explain all others, from the block's start on (the
            head of a table, the first record of a CSV file): a chunk that begins below them gets
            them as its context. Equal to `start_char` for none.
    """

    start_char: int
    end_char: int
    header_end_char: int


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What a parser found in a text; offsets index that text as it is.

    Attributes:
        sections: see `Section`; never empty for a text with a non-blank line.
        links: in order of `start_char`.
        blocks: see `Block`.
        rendered: see `Rendered`; empty for texts that read as they stand.
        title: from the text (front matter or first heading), else None.
        date: ISO 8601, from front matter, else None.
        tags: from front matter, in order, without duplicates.
        aliases: other names that wiki links may use for the document, from front matter.
        language: programming or markup language of the text (`python`, `markdown`, …).
        front_matter: raw front matter without its fences, or an empty string.
    """

    sections: tuple[Section, ...]
    language: str
    links: tuple[Link, ...] = ()
    blocks: tuple[Block, ...] = ()
    rendered: tuple[Rendered, ...] = ()
    title: str | None = None
    date: str | None = None
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    front_matter: str = ""
