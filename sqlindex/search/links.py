"""Where links lead: resolved when asked, against the documents of a generation.

A target is text that a parser found; which parser does not matter. What it leads to is never
stored: another document may come or go and change it.

- A *path* is relative to the linking document's folder, or from `/` on to its source's root. It is
  tried as it stands, then with the extension of the linking document and the usual ones of texts,
  then as a folder with an `index`, `README` or `_index`. It never leaves the source.
- A *wiki link* names a document of its source by the end of its path (with or without extension),
  else by its title, else by an alias, in any case. Of several, one in the linking document's
  folder comes first, then the one in the fewest folders, then the first by path.
- A *URL* leads to the document with that URI; a `file:` URL to the file of a folder.
- `#anchor` names a heading by the slug that GitHub makes of it (or Python-Markdown, which makes one
  hyphen of several), by an id written behind it (`{#id}`), or as wiki links do: by its text, or by several from the outer to the inner.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from sqlindex.model.links import (
    DocumentLink,
    LinkTarget,
    TargetParts,
    document_keys,
    folded,
    name_key,
    stem,
    target_parts,
)
from sqlindex.search.lookup import find_document
from sqlindex.store.driver import Connection
from sqlindex.store.links import (
    DocumentPlace,
    LinkRow,
    headings_of,
    links_of,
    links_towards,
    named_places,
    place_of,
    places,
    roots,
)

EXTENSIONS = ("md", "markdown", "rst", "org", "txt", "html", "htm", "tex", "ipynb")
"""Extensions that a link may leave out, in the order tried."""

FOLDER_PAGES = ("index", "README", "Readme", "readme", "_index")
"""Names of the document that stands for its folder, in the order tried."""

_WRITTEN_ID = re.compile(r"[ \t]*\{:?[ \t]*#([^\s{}]+)[^{}]*\}[ \t]*$")
_HYPHENS = re.compile(r"-+")
_FILE_URL = re.compile(r"file:(?://(?:localhost)?(?=/))?(/[^?#]*)", re.IGNORECASE)


def outgoing_links(
    connection: Connection, path_or_id: str, source: str | None, at: int | None = None
) -> list[DocumentLink]:
    """The links of a document in order: O(links × log documents).

    Args:
        at: the generation; the head if None.

    Raises:
        UnknownDocumentError: there is no such document, or several sources have one.
    """
    generation, place = _find(connection, path_or_id, source, at)
    resolver = _Resolver(connection, generation)
    return [resolver.link(place, link) for link in links_of(connection, place.parse_id)]


def backlinks(
    connection: Connection, path_or_id: str, source: str | None, at: int | None = None
) -> list[DocumentLink]:
    """The links that lead to a document from others, by source, document id and position.

    Reads the links whose target ends in a name of the document, whatever its folder.

    Args:
        at: the generation; the head if None.

    Raises:
        UnknownDocumentError: there is no such document, or several sources have one.
    """
    generation, place = _find(connection, path_or_id, source, at)
    resolver = _Resolver(connection, generation)
    keys = document_keys(place.path, place.title, place.aliases, place.uri)
    wanted = (place.source_id, place.document_id)
    found = []
    for linking, link in links_towards(connection, generation, place.source_id, keys):
        if (linking.source_id, linking.document_id) != wanted:
            target = resolver.resolve(linking, link)
            if target is not None and (target.source_id, target.document_id) == wanted:
                found.append(resolver.link_to(linking, link, target))
    return found


def _find(
    connection: Connection, path_or_id: str, source: str | None, at: int | None
) -> tuple[int, DocumentPlace]:
    generation, name, document_id = find_document(connection, path_or_id, source, at)
    return generation, place_of(connection, generation, name, document_id)


class _Resolver:
    """Resolves links of one read transaction, and remembers what it looked up."""

    def __init__(self, connection: Connection, generation: int) -> None:
        self._connection = connection
        self._generation = generation
        self._named: dict[str, list[DocumentPlace]] = {}
        self._bearers: dict[tuple[int, str], _Bearers] = {}
        self._headings: dict[int, _Headings] = {}

    def link(self, place: DocumentPlace, link: LinkRow) -> DocumentLink:
        """A stored link with where it leads."""
        return self.link_to(place, link, self.resolve(place, link))

    def link_to(
        self, place: DocumentPlace, link: LinkRow, found: DocumentPlace | None
    ) -> DocumentLink:
        """A stored link that leads to `found`."""
        parts = target_parts(link.target, link.is_wiki)
        leads_to = None
        if found is not None:
            line = self._heading_line(found, parts.anchor, link.is_wiki)
            leads_to = LinkTarget(found.source, found.document_id, parts.anchor, line)
        return DocumentLink(
            place.source,
            place.document_id,
            link.line,
            link.start_char,
            link.target,
            link.label,
            link.is_wiki,
            leads_to,
        )

    def resolve(self, place: DocumentPlace, link: LinkRow) -> DocumentPlace | None:
        """The document that a link in the document at `place` leads to, or None."""
        parts = target_parts(link.target, link.is_wiki)
        if "\0" in parts.path:
            return None  # `%00`: no document has such a name, and SQL would read it as its end
        if parts.is_url:
            return self._by_url(link.target, parts)
        if not parts.path:
            return place if link.target else None
        is_path = not link.is_wiki or parts.path.startswith(("./", "../"))
        return self._by_path(place, parts.path) if is_path else self._by_name(place, parts.path)

    def _by_path(self, place: DocumentPlace, path: str) -> DocumentPlace | None:
        if place.source_kind == "folder":
            path = path.replace("\\", "\\\\")  # as in the ids of files
        folder = [] if path.startswith("/") else place.path.split("/")[:-1]
        for part in path.split("/"):
            if part == "..":
                if not folder:
                    return None
                folder.pop()
            elif part not in ("", "."):
                folder.append(part)
        joined = "/".join(folder)
        own = place.path[len(stem(place.path)) + 1 :]
        extensions = list(dict.fromkeys((own, *EXTENSIONS) if own else EXTENSIONS))
        names = [] if path.endswith(("/", "/.", "..")) or path == "." else [joined]
        names += [f"{joined}.{extension}" for extension in extensions if names]
        base = f"{joined}/" if joined else ""
        names += [f"{base}{page}.{extension}" for extension in extensions for page in FOLDER_PAGES]
        found = places(self._connection, self._generation, place.source_id, names)
        if not found and not joined.isascii():
            composed = [unicodedata.normalize("NFC", name) for name in names]
            found = [
                other
                for other in self._documents_named(name_key(path))
                if other.source_id == place.source_id
                and unicodedata.normalize("NFC", other.path) in composed
            ]
            names = composed
        order = {name: number for number, name in enumerate(names)}

        def position(other: DocumentPlace) -> int:
            composed_path = unicodedata.normalize("NFC", other.path)
            known = (order.get(name) for name in (other.document_id, other.path, composed_path))
            return min(number for number in known if number is not None)

        return min(found, key=position, default=None)

    def _by_name(self, place: DocumentPlace, name: str) -> DocumentPlace | None:
        key = (place.source_id, name_key(name))
        if key not in self._bearers:
            named = self._documents_named(key[1])
            self._bearers[key] = _Bearers([n for n in named if n.source_id == place.source_id])
        return self._bearers[key].best(folded(name.strip("/")), place.path.rpartition("/")[0])

    def _by_url(self, target: str, parts: TargetParts) -> DocumentPlace | None:
        file_path = _FILE_URL.match(target)
        if file_path is not None:
            path = unquote_to_bytes(file_path[1]).replace(b"\\", b"\\\\")
            found = self._by_file(path.decode("utf-8", "backslashreplace"))
            if found is not None:
                return found
        uris = (target, target.partition("#")[0])
        named = self._documents_named(name_key(parts.path))
        return next((place for uri in uris for place in named if place.uri == uri), None)

    def _by_file(self, path: str) -> DocumentPlace | None:
        for source_id, root in roots(self._connection):
            prefix = root.rstrip("/") + "/"
            if path.startswith(prefix):
                found = places(self._connection, self._generation, source_id, [path[len(prefix) :]])
                if found:
                    return found[0]
        return None

    def _documents_named(self, key: str) -> list[DocumentPlace]:
        if key not in self._named:
            self._named[key] = named_places(self._connection, self._generation, key)
        return self._named[key]

    def _heading_line(self, place: DocumentPlace, anchor: str, is_wiki: bool) -> int | None:
        if not anchor or (is_wiki and anchor.startswith("^")):
            return None
        if place.parse_id not in self._headings:
            self._headings[place.parse_id] = _Headings(
                headings_of(self._connection, place.parse_id)
            )
        headings = self._headings[place.parse_id]
        return headings.under(anchor) if is_wiki else headings.line_by_anchor.get(anchor.lower())


class _Bearers:
    """Documents of one source, and which of them a name means."""

    def __init__(self, places: list[DocumentPlace]) -> None:
        self._ranked: dict[str, tuple[int, list[DocumentPlace]]] = {}
        for place in places:
            path = folded(place.path)
            for name in dict.fromkeys((*_path_ends(path), *_path_ends(stem(path)))):
                self._bears(name, 0, place)
            self._bears(folded(place.title), 1, place)
            for alias in place.aliases:
                self._bears(folded(alias), 2, place)
        self._best: dict[str, tuple[dict[str, DocumentPlace], DocumentPlace]] = {}

    def _bears(self, name: str, rank: int, place: DocumentPlace) -> None:
        known, bearers = self._ranked.setdefault(name, (rank, []))
        if rank < known:
            self._ranked[name] = (rank, [place])
        elif rank == known and place not in bearers[-1:]:
            bearers.append(place)

    def best(self, name: str, folder: str) -> DocumentPlace | None:
        """The bearer in the folder, else in the fewest folders, then the first by path."""
        if name not in self._ranked:
            return None
        if name not in self._best:
            ordered = sorted(
                self._ranked[name][1], key=lambda p: (p.path.count("/"), p.path, p.document_id)
            )
            by_folder: dict[str, DocumentPlace] = {}
            for place in ordered:
                by_folder.setdefault(place.path.rpartition("/")[0], place)
            self._best[name] = (by_folder, ordered[0])
        by_folder, first = self._best[name]
        return by_folder.get(folder, first)


def _path_ends(path: str) -> Iterator[str]:
    """The path, and what is left of it without its first folders."""
    yield path
    at = path.find("/")
    while at >= 0:
        yield path[at + 1 :]
        at = path.find("/", at + 1)


class _Headings:
    """The headings of one document by what anchors may call them."""

    def __init__(self, found: list[tuple[int, tuple[str, ...]]]) -> None:
        self.line_by_anchor: dict[str, int] = {}
        self._by_name: dict[str, list[_Heading]] = {}
        self._lines: dict[str, int | None] = {}
        for heading in _headings(found):
            for anchor in heading.anchors:
                self.line_by_anchor.setdefault(anchor, heading.line)
            if heading.path:
                self._by_name.setdefault(heading.path[-1], []).append(heading)

    def under(self, anchor: str) -> int | None:
        """Line of the first heading that a wiki link's anchor names, from the outer to the inner."""
        if anchor not in self._lines:
            outer_to_inner = [slug(part) for part in anchor.split("#")]
            named = self._by_name.get(outer_to_inner[-1], ())
            lines = (heading.line for heading in named if heading.is_under(outer_to_inner))
            self._lines[anchor] = next(lines, None)
        return self._lines[anchor]


class _Heading:
    """A heading with all that an anchor may call it."""

    __slots__ = ("anchors", "line", "path")

    def __init__(self, line: int, path: list[str], anchors: set[str]) -> None:
        self.line = line
        self.path = path
        self.anchors = anchors

    def is_under(self, outer_to_inner: list[str]) -> bool:
        """Whether these headings stand above it in their order, itself the last."""
        above = iter(self.path)
        return all(part in above for part in outer_to_inner)


def _headings(found: list[tuple[int, tuple[str, ...]]]) -> Iterator[_Heading]:
    count_by_slug: dict[str, int] = {}
    for line, path in found:
        name = path[-1] if path else ""
        written = _WRITTEN_ID.search(name)
        bare = name[: written.start()] if written is not None else name
        anchors = set() if written is None else {written[1].lower()}
        for text in dict.fromkeys((name, bare)):
            made = slug(text)
            number = count_by_slug.get(made, 0)
            count_by_slug[made] = number + 1
            anchor = f"{made}-{number}" if number else made
            anchors |= {anchor, _HYPHENS.sub("-", anchor)}
        yield _Heading(line, [slug(_WRITTEN_ID.sub("", part)) for part in path], anchors)


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading of that text, before it numbers equal ones.

    Lower case; letters, digits, marks, `_` and `-` stay, a space becomes `-`, all else goes.
    """
    kept = (
        c
        for c in heading.strip().lower()
        if c in " -_" or c.isalnum() or unicodedata.category(c) in ("Mn", "Mc", "Me", "Pc")
    )
    return "".join(kept).replace(" ", "-")
