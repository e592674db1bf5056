"""A parsed document becomes chunks: whole lines, within sections, near a target size."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from sqlindex.chunking.boundaries import boundary_strength
from sqlindex.chunking.headings import is_direct_descendant, is_heading_only
from sqlindex.chunking.lines import LineTable
from sqlindex.config import ChunkConfig
from sqlindex.model.chunks import ChunkSpan
from sqlindex.model.documents import ParsedDocument, SectionKind

CHUNKER_VERSION = 2
"""1: first. 2: a piece below the least size joins the longer line behind it."""


def chunk_document(text: str, parsed: ParsedDocument, config: ChunkConfig) -> list[ChunkSpan]:
    """Cut a document into chunks.

    Every non-blank line lies in at least one chunk, and `text[start_char:end_char]` is the
    chunk's text: it begins at the start of a non-blank line and ends at the end of one, line
    ending excluded. A chunk stays within its section, except that a section of a bare heading
    joins the section right below it (the chunk then belongs to the deeper one). A section
    longer than the target is cut at the best boundary of the window's second half; a line longer
    than the target stays whole. A piece below `min_chars` joins the long line behind it, or if it
    is the last one the piece before it.

    Linear in the text's length.

    Args:
        text: the decoded document that `parsed` describes.
        parsed: its sections, in order, each beginning at the start of a line.
        config: sizes and overlap.

    Returns:
        Chunks in order; start and end offsets strictly increase.
    """
    table = LineTable(text)
    chunks: list[ChunkSpan] = []
    for section, start, end in _groups(text, parsed):
        is_embedded = parsed.sections[section].kind is SectionKind.BODY
        if end - start <= config.target_chars:
            pieces = iter(((start, end),))
        else:
            pieces = _pieces(text, table, start, end, config)
        is_continuation = False
        for piece_start, piece_end in pieces:
            chunks.append(
                ChunkSpan(
                    start_char=piece_start,
                    end_char=piece_end,
                    start_line=table.line_of(piece_start),
                    end_line=table.line_of(piece_end - 1),
                    section=section,
                    is_continuation=is_continuation,
                    is_embedded=is_embedded,
                )
            )
            is_continuation = True
    return chunks


def _groups(text: str, parsed: ParsedDocument) -> Iterator[tuple[int, int, int]]:
    """Yield (section index, start, end) of what is cut together, trimmed to non-blank lines."""
    spans = [
        (index, *span)
        for index, section in enumerate(parsed.sections)
        if (span := _trimmed(text, section.start_char, section.end_char)) is not None
    ]
    joined_start: int | None = None
    for position, (index, start, end) in enumerate(spans):
        section = parsed.sections[index]
        if position + 1 < len(spans) and is_heading_only(text, start, end, section):
            following = parsed.sections[spans[position + 1][0]]
            if is_direct_descendant(following, section):
                joined_start = start if joined_start is None else joined_start
                continue
        yield index, start if joined_start is None else joined_start, end
        joined_start = None


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Narrow a span to its non-blank lines, or None if it has none.

    A line is blank if `str.strip` leaves nothing of it.
    """
    body = text[start:end]
    visible_end = start + len(body.rstrip())
    if visible_end == start:
        return None
    visible_start = end - len(body.lstrip())
    # The line's indentation and its trailing spaces belong to the chunk, CRs at its end do not.
    line_start = max(text.rfind("\n", start, visible_start) + 1, start)
    line_end = text.find("\n", visible_end, end)
    return line_start, _without_cr(text, visible_end, end if line_end < 0 else line_end)


def _without_cr(text: str, floor: int, end: int) -> int:
    while end > floor and text[end - 1] == "\r":
        end -= 1
    return end


def _pieces(
    text: str, table: LineTable, start: int, end: int, config: ChunkConfig
) -> Iterator[tuple[int, int]]:
    """Cut the span of one section, longer than the target, into overlapping runs of lines."""
    # Blank lines are left out of these lists: a run of lines then is trimmed by construction.
    numbers: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    line_start, number = start, table.line_of(start)
    for line in text[start:end].split("\n"):
        line_end = line_start + len(line)
        if line.strip():
            numbers.append(number)
            starts.append(line_start)
            ends.append(_without_cr(text, line_start, line_end))
        line_start, number = line_end + 1, number + 1

    def strength(index: int) -> int:
        return boundary_strength(
            text[starts[index] : ends[index]],
            text[starts[index + 1] : ends[index + 1]],
            is_blank_between=numbers[index + 1] > numbers[index] + 1,
        )

    last = len(numbers) - 1
    # `fresh` is the first line not in an earlier piece; lines before it are overlap.
    first = fresh = 0
    while True:
        cut = bisect_right(ends, starts[first] + config.target_chars) - 1
        if cut < fresh:
            # With the overlap not even one new line fits: the line goes alone.
            first = fresh
            cut = max(bisect_right(ends, starts[first] + config.target_chars) - 1, fresh)
        if ends[cut] - starts[first] < config.min_chars:
            # A short piece before a line longer than the target, as a title before its abstract,
            # takes that line along: alone it would be a tiny chunk.
            cut = min(bisect_left(ends, starts[first] + config.min_chars), last)
        elif cut < last:
            lowest = max(bisect_left(ends, starts[first] + config.target_chars // 2), fresh)
            # The best boundary, among equals the latest; a window not half full ends as it is.
            cut = max(range(min(lowest, cut), cut + 1), key=lambda at: (strength(at), at))
        if cut >= last or ends[last] - starts[cut + 1] < config.min_chars:
            yield starts[first], ends[last]
            return
        yield starts[first], ends[cut]
        first = _overlap_start(numbers, starts, cut + 1, first, config)
        fresh = cut + 1


def _overlap_start(
    numbers: list[int], starts: list[int], fresh: int, previous: int, config: ChunkConfig
) -> int:
    """Index of the first line of a continuation whose first new line is `fresh`.

    Lines count as they stand in the text, so a cut after a blank line needs no second line of
    context. The overlap never takes more than half of the target, and never reaches the start
    of the piece before.
    """
    first = fresh
    while (
        first - 1 > previous
        and numbers[first - 1] >= numbers[fresh] - config.overlap_lines
        and starts[fresh] - starts[first - 1] <= config.target_chars // 2
    ):
        first -= 1
    return first
