"""A parsed document becomes chunks: whole lines, within sections, near a target size."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from sqlindex.chunking.blocks import HeaderFinder, block_ends, fitting_spans
from sqlindex.chunking.boundaries import boundary_strength, cut_at, torn
from sqlindex.chunking.embedding_text import embedding_text, lost_heading
from sqlindex.chunking.headings import is_direct_descendant
from sqlindex.chunking.lines import LineTable, without_crs
from sqlindex.chunking.long_lines import line_windows
from sqlindex.chunking.token_limit import Excess, TokenLimit
from sqlindex.config import ChunkConfig
from sqlindex.model.chunks import ChunkSpan, Cut
from sqlindex.model.documents import ParsedDocument, SectionKind
from sqlindex.rendering import rendered_text, rendered_within

CHUNKER_VERSION = 3
"""1: first. 2: a piece below the least size joins the longer line behind it. 3: blocks stay whole
where they fit, headers of cut blocks are context, token limits."""


def chunk_document(
    text: str, parsed: ParsedDocument, config: ChunkConfig, limit: TokenLimit | None = None
) -> list[ChunkSpan]:
    """Cut a document into chunks.

    Every non-blank line lies in at least one chunk, and `text[start_char:end_char]` is the
    chunk's text: it begins at the start of a non-blank line and ends at the end of one, line
    ending excluded. A chunk stays within its section, except that a section of a bare heading
    joins the section right below it (the chunk then belongs to the deeper one). A section
    longer than the target is cut at the best boundary of the window's second half; a line longer
    than the target stays whole. A block (table, fence, record) that fits into a chunk is not cut.
    A piece below `min_chars` joins the long line or the block behind it, or if it is the last one
    the piece before it. With a token limit, a piece whose embedding text is over it gets fewer
    lines, down to one; a line that is over it alone is cut at spaces, if the limit cuts lines.

    Linear in the text's length.

    Args:
        text: the decoded document that `parsed` describes.
        parsed: its sections, in order, each beginning at the start of a line, and its blocks.
        config: sizes and overlap.
        limit: how much the embedder takes; None for no limit.

    Returns:
        Chunks in order; start and end offsets strictly increase.
    """
    table = LineTable(text)
    headers = HeaderFinder(parsed.blocks)
    chunks: list[ChunkSpan] = []
    for section_at, start, end in _groups(text, parsed):
        is_body = parsed.sections[section_at].kind is SectionKind.BODY
        excess = _excess(text, parsed, section_at, limit if is_body else None, headers)
        is_continuation = False
        pieces = _pieces(text, parsed, table, start, end, config, excess)
        if limit is not None and limit.cuts_lines and excess is not None:
            pieces = line_windows(text, pieces, excess)
        for piece_start, piece_end, cut in pieces:
            rendered = rendered_within(parsed.rendered, piece_start, piece_end)
            # What is markup alone has no meaning to embed.
            is_readable = not rendered or bool(
                rendered_text(text[piece_start:piece_end], rendered).strip()
            )
            chunks.append(
                ChunkSpan(
                    start_char=piece_start,
                    end_char=piece_end,
                    start_line=table.line_of(piece_start),
                    end_line=table.line_of(piece_end - 1),
                    section=section_at,
                    is_continuation=is_continuation,
                    is_embedded=is_body and is_readable,
                    context=_context(text, parsed, headers, piece_start),
                    rendered=rendered,
                    cut=cut,
                )
            )
            is_continuation = True
    return chunks


def _context(text: str, parsed: ParsedDocument, headers: HeaderFinder, start: int) -> str:
    header = headers.header(start)
    if header is None:
        return ""
    return rendered_text(text[slice(*header)], rendered_within(parsed.rendered, *header)).strip()


def _excess(
    text: str,
    parsed: ParsedDocument,
    section_at: int,
    limit: TokenLimit | None,
    headers: HeaderFinder,
) -> Excess | None:
    """Measures pieces of a section; None without a limit."""
    if limit is None:
        return None
    section = parsed.sections[section_at]

    def excess(start: int, end: int, is_continuation: bool) -> float:
        body = rendered_text(text[start:end], rendered_within(parsed.rendered, start, end))
        heading = lost_heading(section.heading_path, section.heading_line, is_continuation)
        context = _context(text, parsed, headers, start)
        return limit.excess(embedding_text(body, heading=heading, context=context))

    return excess


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
        if position + 1 < len(spans) and section.is_bare:
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
    return line_start, without_crs(text, visible_end, end if line_end < 0 else line_end)


def _pieces(
    text: str,
    parsed: ParsedDocument,
    table: LineTable,
    start: int,
    end: int,
    config: ChunkConfig,
    excess: Excess | None,
) -> Iterator[tuple[int, int, Cut]]:
    """Yield (start, end, why it ends there) of the chunks of one section."""
    is_short = end - start <= config.target_chars
    if is_short and (excess is None or excess(start, end, False) <= 1.0):
        yield start, end, Cut.SECTION
        return
    lines = _Lines(text, parsed, table, start, end, config)
    last = len(lines.starts) - 1
    # `fresh` is the first line not in an earlier piece; lines before it are overlap.
    first = fresh = 0
    while True:
        first, at, cut = lines.window(first, fresh)
        if excess is not None:
            first, at, cut = lines.within_limit(first, fresh, at, cut, excess)
        is_rest_short = at < last and lines.ends[last] - lines.starts[at + 1] < config.min_chars
        if is_rest_short and _fits(lines, first, last, excess):
            at = last
        if at == last:
            yield lines.starts[first], lines.ends[last], Cut.SECTION
            return
        yield lines.starts[first], lines.ends[at], cut
        first = lines.overlap_start(at + 1, first)
        fresh = at + 1


def _fits(lines: _Lines, first: int, last: int, excess: Excess | None) -> bool:
    return excess is None or excess(lines.starts[first], lines.ends[last], first > 0) <= 1.0


class _Lines:
    """The non-blank lines of one section, and where to cut between them.

    Blank lines are left out, so that a run of lines is trimmed by construction. Lines are named by
    their index here; `numbers` are those in the document.
    """

    def __init__(
        self,
        text: str,
        parsed: ParsedDocument,
        table: LineTable,
        start: int,
        end: int,
        config: ChunkConfig,
    ) -> None:
        self._text = text
        self._config = config
        self.numbers: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        line_start, number = start, table.line_of(start)
        for line in text[start:end].split("\n"):
            line_end = line_start + len(line)
            if line.strip():
                self.numbers.append(number)
                self.starts.append(line_start)
                self.ends.append(without_crs(text, line_start, line_end))
            line_start, number = line_end + 1, number + 1
        spans = fitting_spans(parsed.blocks, start, end, config.target_chars)
        self._block_end = block_ends(spans, self.starts, self.ends) if spans else None

    def window(self, first: int, fresh: int) -> tuple[int, int, Cut]:
        """(first line, last line, why) of the next piece by its size.

        Args:
            first: first line with the overlap; it is given up where it leaves no room.
            fresh: first line that no earlier piece has.
        """
        target, least = self._config.target_chars, self._config.min_chars
        starts, ends, last = self.starts, self.ends, len(self.starts) - 1
        at = bisect_right(ends, starts[first] + target) - 1
        if at < fresh:
            # With the overlap not even one new line fits: the line goes alone.
            first = fresh
            at = max(bisect_right(ends, starts[first] + target) - 1, fresh)
        if at < last and ends[at] - starts[first] < least:
            # A short piece before a line longer than the target, as a title before its abstract,
            # takes that line along: alone it would be a tiny chunk.
            at = min(bisect_left(ends, starts[first] + least), last)
            return first, at, Cut.LINE
        if at == last:
            return first, at, Cut.SECTION
        block_end = self._block_end_at(at)
        if block_end >= 0:
            before = self._last_outside(first, fresh, at)
            if before is not None:
                return first, before, Cut.BLOCK
            if first < fresh:
                return self.window(fresh, fresh)
            if ends[block_end] - starts[first] <= target + least:
                return first, block_end, self._cut(block_end) if block_end < last else Cut.SECTION
        lowest = max(bisect_left(ends, starts[first] + target // 2), fresh)
        at = self._best(min(lowest, at), at)
        return first, at, self._cut(at)

    def within_limit(
        self, first: int, fresh: int, at: int, cut: Cut, excess: Excess
    ) -> tuple[int, int, Cut]:
        """The piece with as many lines as the embedder takes, at least one new one."""
        while True:
            times = excess(self.starts[first], self.ends[at], first > 0)
            if times <= 1.0 or (at == fresh and first == fresh):
                return first, at, cut
            cut = Cut.TOKENS
            if at == fresh:
                first = fresh
                continue
            room = int((self.ends[at] - self.starts[first]) / times * 0.95)
            highest = bisect_right(self.ends, self.starts[first] + room) - 1
            highest = min(max(highest, fresh), at - 1)
            lowest = max(bisect_left(self.ends, self.starts[first] + room // 2), fresh)
            at = self._best(min(lowest, highest), highest)

    def overlap_start(self, fresh: int, previous: int) -> int:
        """First line of a continuation whose first new line is `fresh`.

        Lines count as they stand in the text, so a cut after a blank line needs no second line of
        context. The overlap never takes more than half of the target, and never reaches the start
        of the piece before.
        """
        numbers, starts = self.numbers, self.starts
        first = fresh
        while (
            first - 1 > previous
            and numbers[first - 1] >= numbers[fresh] - self._config.overlap_lines
            and starts[fresh] - starts[first - 1] <= self._config.target_chars // 2
        ):
            first -= 1
        return first

    def _block_end_at(self, at: int) -> int:
        """Last line of the block that a cut after line `at` would tear, or -1."""
        return -1 if self._block_end is None else self._block_end[at]

    def _last_outside(self, first: int, fresh: int, at: int) -> int | None:
        """The last line up to `at` behind which no block is torn, if a piece up to it is no tiny one."""
        floor = self.starts[first] + self._config.min_chars
        while at >= fresh and self.ends[at] >= floor:
            if self._block_end_at(at) < 0:
                return at
            at -= 1
        return None

    def _best(self, lowest: int, highest: int) -> int:
        """The line with the best boundary behind it, among equals the last."""
        return max(range(lowest, highest + 1), key=lambda at: (self._strength(at), at))

    def _strength(self, at: int) -> int:
        """How good a cut between a line and the next one is."""
        strength = boundary_strength(
            self._text[self.starts[at] : self.ends[at]],
            self._text[self.starts[at + 1] : self.ends[at + 1]],
            is_blank_between=self.numbers[at + 1] > self.numbers[at] + 1,
        )
        return strength if self._block_end_at(at) < 0 else torn(strength)

    def _cut(self, at: int) -> Cut:
        return cut_at(self._strength(at))
