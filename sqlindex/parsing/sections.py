"""From headings to the sections of a text, and what else depends on where sections begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlindex.model.documents import Block, Section, SectionKind

MAX_HEADING_CHARS = 1_000
"""A longer heading is cut: it is repeated for each chunk of its section."""

MAX_HEADINGS = 20_000
"""Further ones of a document begin no section: megabytes of nothing but headings would take a
gigabyte of memory."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading that begins a section.

    Attributes:
        start_char: offset of the first character of the section's first line.
        line: 1-based line of the heading.
        level: depth from 1.
        name: what a reader sees of it, on one line; an empty one adds nothing to the path.
        end_char: offset behind it and its markup, an underline included.
    """

    start_char: int
    line: int
    level: int
    name: str
    end_char: int


def whole_text(text: str) -> tuple[Section, ...]:
    """One section over all of `text`, or none if every line is blank."""
    return (Section(0, len(text)),) if text and not text.isspace() else ()


def heading_sections(
    text: str,
    start_char: int,
    headings: Sequence[Heading],
    raw_spans: Sequence[tuple[int, int]] = (),
) -> Iterator[Section]:
    """Sections of `text` from `start_char` on, each from one heading to the next.

    Text before the first heading is a section of its own. A raw span is one too, under the heading
    above it, and so is the text between it and the next heading. A section's path are the headings
    above it of smaller level. Blank text without a heading is left out.

    Args:
        text: the document.
        start_char: where the sections begin, at the start of a line.
        headings: in order, at most one for each line; those beyond `MAX_HEADINGS` do not count.
        raw_spans: (start, end) of whole lines that are no prose, in order; a heading begins in
            none of them.
    """
    headings = headings[:MAX_HEADINGS]
    path: list[Heading] = []
    names: tuple[str, ...] = ()
    position, line = start_char, 0

    def body(end: int) -> Iterator[Section]:
        if line or whole_text(text[position:end]):
            level = path[-1].level if line or names else 0
            is_bare = line > 0 and not text[path[-1].end_char : end].strip()
            yield Section(position, end, names, level, line, is_bare=is_bare)

    openings: list[tuple[int, Heading | None, int]] = [(h.start_char, h, 0) for h in headings]
    if raw_spans:
        openings += [(start, None, end) for start, end in raw_spans]
        openings.sort(key=lambda opening: opening[0])
    for start, heading, end in openings:
        yield from body(start)
        if heading is None:
            level = path[-1].level if names else 0
            yield Section(start, end, names, level, kind=SectionKind.RAW)
            position, line = end, 0
        else:
            while path and path[-1].level >= heading.level:
                path.pop()
            path.append(heading)
            names = tuple(above.name for above in path if above.name)
            position, line = start, heading.line
    yield from body(len(text))


def blocks_in_sections(blocks: Iterable[Block], sections: Sequence[Section]) -> Iterator[Block]:
    """Those of `blocks` that lie in one section; both are in order."""
    at = 0
    for block in blocks:
        while at < len(sections) and sections[at].end_char <= block.start_char:
            at += 1
        if at == len(sections):
            return
        if block.start_char >= sections[at].start_char and block.end_char <= sections[at].end_char:
            yield block
