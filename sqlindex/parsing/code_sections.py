"""Sections of code: which definitions stand alone, which share a section with their neighbours."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlindex.chunking.lines import LineTable
from sqlindex.model.documents import Section
from sqlindex.parsing.code_outline import Definition, MaskedCode

SPLIT_CHARS = 1_200
"""A longer definition is split at its members."""

SHORT_CHARS = 200
"""A shorter definition shares a section with its neighbours."""

REST_CHARS = 80
"""Less that defines nothing, inside a definition, stays with the section above it."""

RUN_CHARS = 1_000
"""Neighbours share a section up to this length."""

MAX_DEPTH = 24
"""Definitions nested deeper stay part of the one around them."""

MAX_NAME_CHARS = 200

_ONLY_CLOSES = re.compile(r"(?:\s|[{}()\[\];,]|end\b|fi\b)*+\Z")


def code_sections(
    text: str, masked: MaskedCode, definitions: Sequence[Definition]
) -> tuple[Section, ...]:
    """Sections of a source file, in order, over all its text.

    A section begins at the line of a definition, or at the comment lines right above it, and
    ends where the next one begins. Short neighbours share one, named after them all. Text between
    definitions belongs to the one around them. A line belongs to the first definition that has a
    part of it.

    Args:
        text: the file.
        masked: the same without strings and comments.
        definitions: the outermost ones, in order and disjoint, as are the members of each.
    """
    if not text or text.isspace():
        return ()
    builder = _Builder(text, masked)
    builder.add_parts((), 0, len(text), definitions)
    return builder.sections()


class _Builder:
    def __init__(self, text: str, masked: MaskedCode) -> None:
        self._text = text
        self._masked = masked
        self._table = LineTable(text)
        self._starts: list[tuple[int, tuple[str, ...], int]] = []

    def sections(self) -> tuple[Section, ...]:
        """What was added, each section up to the start of the next one."""
        ends = [start for start, _, _ in self._starts[1:]] + [len(self._text)]
        return tuple(
            Section(
                start,
                end,
                path,
                len(path),
                heading_line,
                # The one line that opens a class says as little alone as a heading does.
                is_bare=heading_line > 0 and "\n" not in self._text[start:end].strip(),
            )
            for (start, path, heading_line), end in zip(self._starts, ends, strict=True)
        )

    def add_parts(
        self,
        path: tuple[str, ...],
        start: int,
        end: int,
        definitions: Sequence[Definition],
        *,
        is_head: bool = False,
    ) -> None:
        """Add sections for `start` to `end`, which belongs to `path`, and for what it defines.

        Args:
            path: names of the definition whose parts these are.
            start, end: line starts.
            definitions: its members.
            is_head: whether its section is open at `start` and goes on.
        """
        short: list[Definition] = []
        run_start = floor = start
        for definition in definitions:
            line_start = self._line_start(definition.start_char)
            if line_start < floor:
                continue
            first = self._with_comments(line_start, floor)
            floor = min(self._line_end(definition.end_char), end)
            if floor - first < SHORT_CHARS:
                if short and floor - run_start > RUN_CHARS:
                    if not is_head:
                        self._add_run(path, run_start, first, short)
                    run_start, short, is_head = first, [], False
                short.append(definition)
                continue
            if not is_head and self._is_caption(run_start, first):
                first = run_start
            elif not is_head:
                self._add_run(path, run_start, first, short)
            self._add(definition, path, first, floor)
            run_start, short, is_head = floor, [], False
        if not is_head:
            self._add_run(path, run_start, end, short)

    def _add(self, definition: Definition, path: tuple[str, ...], start: int, end: int) -> None:
        path += _cut(definition.names)
        self._starts.append((start, path, self._table.line_of(definition.name_char)))
        if end - start > SPLIT_CHARS and definition.members and len(path) < MAX_DEPTH:
            body = self._line_end(definition.name_char + 1)
            self.add_parts(path, body, end, definition.members, is_head=True)

    def _add_run(
        self, path: tuple[str, ...], start: int, end: int, short: list[Definition]
    ) -> None:
        """Add what stands between definitions that have a section of their own."""
        visible = end - len(self._text[start:end].lstrip())
        if visible == end:
            return
        is_little = len(self._text[visible:end].rstrip()) < REST_CHARS
        if not short and path and self._starts and is_little:
            return  # a last line of the definition that it stands in, too little to stand alone
        closes = self._text if end - start >= SHORT_CHARS else self._masked.text
        if self._starts and _ONLY_CLOSES.match(closes, start, end):
            return  # a brace closes what is above it, perhaps with a comment
        first = self._line_start(visible)
        if short:
            own = path + (_cut(short[0].names) if len(short) == 1 else (_all_names(short),))
            self._starts.append((first, own, self._table.line_of(short[0].name_char)))
        else:
            self._starts.append((first, path, 0))

    def _is_caption(self, start: int, end: int) -> bool:
        """Whether only a few comments stand there: they announce the definition below."""
        return (
            end - start < SHORT_CHARS
            and not self._masked.text[start:end].strip()
            and not self._text[start:end].isspace()
        )

    def _with_comments(self, line_start: int, floor: int) -> int:
        """Start of the comment lines that stand right above a line, at `floor` or below it."""
        while line_start > floor:
            above = self._line_start(line_start - 1)
            comment = self._masked.comment_ending_in(max(above, floor), line_start)
            if comment is None or comment < floor:
                break
            first = self._line_start(comment)
            if first < floor or self._masked.text[first:line_start].strip():
                break
            line_start = first
        return line_start

    def _line_start(self, char: int) -> int:
        return self._table.char_of(self._table.line_of(char))

    def _line_end(self, char: int) -> int:
        """Offset of the line below the one that ends at or holds the character before `char`."""
        line = self._table.line_of(max(char - 1, 0))
        return self._table.char_of(line + 1) if line < self._table.count else len(self._text)


def _all_names(definitions: Sequence[Definition]) -> str:
    names = ", ".join(".".join(definition.names) for definition in definitions)
    return (
        names
        if len(names) <= MAX_NAME_CHARS
        else names[:MAX_NAME_CHARS].rpartition(", ")[0] + ", …"
    )


def _cut(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name[:MAX_NAME_CHARS] for name in names)
