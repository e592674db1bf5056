"""Keys of a structured text as a tree, and the sections that the tree makes."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlindex.model.documents import Section
from sqlindex.parsing.sections import whole_text

SECTION_CHARS = 800
"""A container no longer than this stays whole, and so do neighbours that fit into it together."""

MAX_DEPTH = 20
"""Deeper keys begin no section: each section repeats the keys above it."""

MAX_NAME_CHARS = 200
"""A longer key is cut in a heading path."""

_BARE_OPENING_CHARS = 120
"""What stands above the first key of a container, if shorter, goes with that key."""

_TELLING_MEMBERS = ("name", "title", "id", "key")
_EARLY_MEMBERS = 5


@dataclass(slots=True)
class Entry:
    """A key, or an element of a list, with what lies below it.

    Attributes:
        names: added to the heading path: one, several for a dotted key, none for what groups
            without a name (the text itself, a document of a YAML stream).
        start_char: start of its first line, comments directly above it included.
        line_start: start of the line that holds the key.
        line: number of that line from 1; 0 for the text itself.
        children: in order, each on another line than the one before.
        shares_line: another key stands on the same line before this one.
        is_implied: named only by the way to something deeper (`a` in `[a.b]`).
    """

    names: tuple[str, ...]
    start_char: int
    line_start: int
    line: int
    children: list[Entry] = field(default_factory=list)
    shares_line: bool = False
    is_implied: bool = False

    def add(self, names: tuple[str, ...], start_char: int, line_start: int, line: int) -> Entry:
        """Append a child. Of several on one line the last stands for all: it may go on below."""
        if line == self.line:
            start_char = self.start_char
        entry = Entry(names, start_char, line_start, line)
        if self.children and self.children[-1].line == line:
            entry.start_char = self.children[-1].start_char
            entry.shares_line = True
            self.children[-1] = entry
        else:
            self.children.append(entry)
        return entry


@dataclass(slots=True)
class ElementNaming:
    """Names an element of a list by a telling member, if one of its first members is one."""

    element: Entry
    _members: int = 0
    _rank: int = len(_TELLING_MEMBERS)

    def wants(self, key: str) -> bool:
        """Count a member; say whether its value would be a better name than the one so far."""
        self._members += 1
        return self._members <= _EARLY_MEMBERS and key in _TELLING_MEMBERS[: self._rank]

    def take(self, key: str, value: str) -> None:
        """Use the value of a member that was wanted; a blank one names nothing."""
        if value.strip():
            self._rank = _TELLING_MEMBERS.index(key)
            self.element.names = (heading_name(value),)


def root_entry() -> Entry:
    """The entry that stands for the whole text."""
    return Entry((), 0, 0, 0)


def heading_name(key: str) -> str:
    """A key as it stands in a heading path: on one line, not endless, `""` for an empty one."""
    return " ".join(key[: 2 * MAX_NAME_CHARS].split())[:MAX_NAME_CHARS].rstrip() or '""'


def key_sections(text: str, root: Entry) -> tuple[Section, ...]:
    """Sections by key path.

    A container longer than `SECTION_CHARS` is divided among what lies in it. Neighbours in one
    container that fit into `SECTION_CHARS` together are one section, named after the first and the
    last of them if they are not all of the container; an entry alone has its own path. What follows the last entry of a container (closing brackets)
    belongs to that entry. Each section begins at the start of a line, so entries on one line stay
    together.
    """
    if len(text) <= SECTION_CHARS or not _parts(root, len(text)):
        return whole_text(text)
    sections: list[Section] = []
    _divide(text, root, (), 0, len(text), sections)
    return tuple(sections)


def _divide(
    text: str, container: Entry, path: tuple[str, ...], start: int, end: int, out: list[Section]
) -> None:
    """Append the sections of `text[start:end]`, which `container` holds."""
    parts = _parts(container, end)
    # An opening that says something counts as an entry of its own, without a name.
    has_opening = len(text[start : parts[0].start_char].strip()) > _BARE_OPENING_CHARS
    run_start = start
    run: list[Entry] = []

    def end_run(run_end: int) -> None:
        nonlocal run_start
        if not run and not has_opening:
            return
        if len(run) == 1 and not has_opening:
            out.append(_section(run_start, run_end, path, run[0]))
        else:
            is_own = bool(path) and run_start <= container.line_start < run_end
            line = container.line if is_own else 0
            names = _span_name(run) if len(run) < len(parts) and not has_opening else ""
            if names:
                above, line = (*path, names), run[0].line
                out.append(Section(run_start, run_end, above, len(above), line))
            else:
                out.append(Section(run_start, run_end, path, len(path), line))
        run_start = run_end

    ends = [part.start_char for part in parts[1:]]
    for part, part_end in zip(parts, [*ends, end], strict=True):
        is_large = part_end - part.start_char > SECTION_CHARS
        if is_large or ((run or has_opening) and part_end - run_start > SECTION_CHARS):
            end_run(part.start_char)
            run, has_opening = [], False
        if not is_large:
            run.append(part)
            continue
        if _parts(part, part_end):
            _divide(text, part, path + part.names, run_start, part_end, out)
        else:
            out.append(_section(run_start, part_end, path, part))
        run_start = part_end
    end_run(end)


def _span_name(run: list[Entry]) -> str:
    """What the neighbours are called together: the first and the last of them."""
    first, last = run[0], run[-1]
    if first.shares_line or not first.names or not last.names:
        return ""
    return f"{first.names[0]} – {last.names[0]}"


def _parts(entry: Entry, end: int) -> list[Entry]:
    """The children that can begin sections: on a line of their own, before `end`."""
    children = entry.children
    while children and children[-1].line_start >= end:
        children.pop()
    if children and children[0].line == entry.line:
        first_end = children[1].start_char if len(children) > 1 else end
        if not _parts(children[0], first_end):
            return children[1:]
    return children


def _section(start: int, end: int, path: tuple[str, ...], entry: Entry) -> Section:
    """The section of one entry that is not divided."""
    if entry.shares_line or not entry.names:
        return Section(start, end, path, len(path))
    path += entry.names
    while entry.is_implied and len(entry.children) == 1:
        entry = entry.children[0]
        path += entry.names
    return Section(start, end, path, len(path), entry.line)
