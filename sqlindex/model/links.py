"""Links between documents: which document a link leads to, and what in its text says so."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

MAX_KEY_CHARS = 200

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_FOLDER_PAGES = frozenset(("index", "readme", "_index"))


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """The document that a link leads to.

    Attributes:
        source, document_id: its identity.
        anchor: what stood behind `#`, decoded; empty for none.
        heading_line: 1-based line of the heading that the anchor names, or None.
    """

    source: str
    document_id: str
    anchor: str = ""
    heading_line: int | None = None


@dataclass(frozen=True, slots=True)
class DocumentLink:
    """A link in a document.

    Attributes:
        source, document_id: the document that it stands in.
        line: 1-based line of its first character.
        start_char: offset of that character.
        target: as written.
        label: as displayed.
        is_wiki: whether it is a wiki link.
        leads_to: the document of the same generation that it leads to; None for what is outside
            the index, and for a link that leads nowhere.
    """

    source: str
    document_id: str
    line: int
    start_char: int
    target: str
    label: str
    is_wiki: bool
    leads_to: LinkTarget | None


@dataclass(frozen=True, slots=True)
class TargetParts:
    """A target taken apart.

    Attributes:
        path: without query and anchor, percent-decoded; of a URL the path behind the host. A byte
            that is no UTF-8 is written as document ids write it. Of a wiki link the name.
        anchor: decoded, without `#`; may be empty.
        is_url: whether it has a scheme, or a host without one.
    """

    path: str
    anchor: str
    is_url: bool


def target_parts(target: str, is_wiki: bool) -> TargetParts:
    """Take a link's target apart."""
    rest, _, anchor = target.partition("#")
    if is_wiki:
        return TargetParts(rest.strip(), anchor.strip(), is_url=False)
    path = rest.partition("?")[0].strip()
    scheme = _SCHEME.match(path)
    if scheme is not None:
        path = path[scheme.end() :]
        if scheme[0] == "//" or path.startswith("//"):
            host, slash, path = path.removeprefix("//").partition("/")
            path = slash + path if slash else host
    return TargetParts(_decoded(path), _decoded(anchor.strip()), scheme is not None)


def link_key(target: str, is_wiki: bool) -> str | None:
    """Key under which a link is found when one asks who links to a document.

    See `name_key`; None for a link within its own document.
    """
    path = target_parts(target, is_wiki).path
    return name_key(path) if path else None


def name_key(name: str) -> str:
    """The last part of a path or name without extension, folded; `.` where it is dots or empty.

    Every name by which a link can reach a document has a key among its `document_keys`, so equal
    keys are needed, and never enough, for a link to lead there.
    """
    last = name.rstrip("/").rpartition("/")[2]
    if last in ("", ".", ".."):
        return "."
    return folded((stem(last) or last).replace("\\", ""))[:MAX_KEY_CHARS]


def document_keys(path: str, title: str, aliases: Iterable[str], uri: str | None) -> set[str]:
    """Keys of all the names by which links can reach a document."""
    without_extension = stem(path)
    names = [path, without_extension, title, *aliases]
    folder, _, name = without_extension.rpartition("/")
    if folded(name) in _FOLDER_PAGES:
        names += [folder, "."]
    if uri is not None:
        names.append(target_parts(uri, False).path)
    return {name_key(name) for name in names}


def stem(path: str) -> str:
    """The path without its extension; a name that begins with its only dot has none."""
    head, dot, extension = path.rpartition(".")
    return head if dot and head and "/" not in extension and not head.endswith("/") else path


def folded(text: str) -> str:
    """Composed (NFC) and case-folded: equal for names that differ in just that."""
    if text.isascii():
        return text.lower()
    composed = unicodedata.normalize("NFC", text)
    return unicodedata.normalize("NFC", composed.casefold())


def _decoded(text: str) -> str:
    if "%" not in text:
        return text
    return unquote_to_bytes(text).decode("utf-8", "backslashreplace")
