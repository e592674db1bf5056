"""What a host's sources and parsers give, looked at before it is stored.

A value of another type than promised must be told as the fault of who gave it, at the document that it
is about: SQLite would take some silently, and call others damage in the middle of a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from sqlindex.model.documents import (
    Block,
    DocumentRef,
    FileStat,
    Link,
    ParsedDocument,
    RawDocument,
    Refusal,
    RefusalReason,
    Rendered,
    Section,
    SectionKind,
)

_INT64 = range(-(2**63), 2**63)


def check_entry(entry: object) -> None:
    """Check what a source lists.

    Raises:
        TypeError, ValueError: it is no usable reference or refusal; the message says what is wrong.
    """
    if isinstance(entry, Refusal):
        _require_texts("refusal", entry.document_id, entry.detail, entry.hint)
        _require(isinstance(entry.reason, RefusalReason), f"the reason {entry.reason!r} is none")
    elif isinstance(entry, DocumentRef):
        _require_texts("reference", entry.document_id, entry.path, entry.type_name)
        _check_stat(entry.stat)
    else:
        raise TypeError(f"the listing names {type(entry).__name__}, no DocumentRef or Refusal")
    if not entry.document_id or "\0" in entry.document_id:
        raise ValueError(f"document id {entry.document_id!r} is empty or holds a NUL")


def check_raw(raw: object) -> None:
    """Check what a source reads.

    Raises:
        TypeError, ValueError: a field has another type than it says, or cannot be stored.
    """
    if not isinstance(raw, RawDocument):
        raise TypeError(f"it was read as {type(raw).__name__}, no RawDocument")
    if not isinstance(raw.data, bytes):
        raise TypeError(f"data is {type(raw.data).__name__}, not bytes")
    _require(isinstance(raw.tags, tuple), f"tags are {raw.tags!r}, not a tuple")
    _require_texts("document", *raw.tags)
    for name, value in (("uri", raw.uri), ("title", raw.title), ("date", raw.date)):
        if value is not None:
            _require_texts(name, value)
    if raw.modified_ns is not None:
        _require_number("modified_ns", raw.modified_ns, _INT64)
    _check_stat(raw.stat)
    if not isinstance(raw.metadata, Mapping):
        raise TypeError(f"metadata is {type(raw.metadata).__name__}, no mapping")
    if raw.metadata:
        json.dumps(dict(raw.metadata), ensure_ascii=False, allow_nan=False).encode("utf-8")


def check_parsed(text: str, parsed: object) -> None:
    """Check what a parser found: whole lines in order over all of the text, and texts where they belong.

    Raises:
        TypeError, ValueError: it breaks what `ParsedDocument` promises.
    """
    if not isinstance(parsed, ParsedDocument):
        raise TypeError(f"it gave {type(parsed).__name__}, no ParsedDocument")
    for name in ("sections", "links", "blocks", "rendered", "tags", "aliases"):
        _require(isinstance(getattr(parsed, name), tuple), f"{name} are no tuple")
    _require_texts("parse", parsed.language, parsed.front_matter, *parsed.tags, *parsed.aliases)
    for value in (parsed.title, parsed.date):
        if value is not None:
            _require_texts("title or date", value)
    _check_sections(text, parsed.sections)
    length = len(text)
    position = 0
    for part in parsed.rendered:
        _require(isinstance(part, Rendered), f"{part!r} is no Rendered")
        _require_texts("rendered part", part.text)
        _require_number("start_char", part.start_char, range(position, length))
        _require_number("end_char", part.end_char, range(part.start_char + 1, length + 1))
        position = part.end_char
    position = 0
    for block in parsed.blocks:
        _require(isinstance(block, Block), f"{block!r} is no Block")
        _require_number("start_char", block.start_char, range(position, length))
        _require_number("end_char", block.end_char, range(block.start_char, length + 1))
        header = range(block.start_char, block.end_char + 1)
        _require_number("header_end_char", block.header_end_char, header)
        position = block.start_char
    for link in parsed.links:
        _require(isinstance(link, Link), f"{link!r} is no Link")
        _require_texts("link", link.target, link.label)
        _require(isinstance(link.is_wiki, bool), f"is_wiki is {link.is_wiki!r}")
        _require_number("start_char", link.start_char, range(length))


def _check_sections(text: str, sections: Iterable[object]) -> None:
    position = 0
    lines = text.count("\n") + 1
    for section in sections:
        if not isinstance(section, Section):
            raise TypeError(f"{section!r} is no Section")
        _require_number("start_char", section.start_char, range(position, len(text)))
        _require_number("end_char", section.end_char, range(section.start_char + 1, len(text) + 1))
        _require_number("level", section.level, range(2**31))
        _require_number("heading_line", section.heading_line, range(lines + 1))
        _require(isinstance(section.heading_path, tuple), "a heading path is no tuple")
        _require_texts("heading", *section.heading_path)
        _require(isinstance(section.kind, SectionKind), f"{section.kind!r} is no SectionKind")
        start = section.start_char
        _require(
            start == 0 or text[start - 1] == "\n", f"a section begins within a line, at {start}"
        )
        gap = text[position:start]
        _require(not gap or gap.isspace(), f"no section holds the text at {position}")
        position = section.end_char
    rest = text[position:]
    _require(not rest or rest.isspace(), f"no section holds the text at {position}")


def _check_stat(stat: object) -> None:
    if stat is None:
        return
    if not isinstance(stat, FileStat):
        raise TypeError(f"the stat is {type(stat).__name__}, no FileStat")
    for name in ("byte_size", "mtime_ns", "ctime_ns", "inode", "device"):
        _require_number(name, getattr(stat, name), _INT64)


def _require(is_right: bool, message: str) -> None:
    if not is_right:
        raise ValueError(message)


def _require_number(name: str, value: object, allowed: range) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
        raise ValueError(f"{name} is {value!r}, which is out of place")


def _require_texts(what: str, *values: object) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{what}: {value!r} is no text")
        if not value.isascii():
            value.encode("utf-8")
