"""Patterns of `.gitignore` files, matched in time bounded by path length × pattern length.

Own translation, because pathspec's regular expressions backtrack: `**/a/` six times needs a second
for one path, and ignore files come with the documents. Here each `*` and each `**` ends in an
atomic group: what follows it is taken at its first place and never tried again, which is exact for
globs, since a later star reaches everything an earlier one could have left. Matching is on bytes,
as git does it, so a `?` is one byte and names that are no UTF-8 match too.

One difference from git: a `**` beside other characters (`a**/b`) is an ordinary `*`, as git's
manual says; git itself takes it as `**` when only literal characters come before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlindex.sources.bracket import read_bracket

MAX_PATTERN_BYTES = 4_096

_SPECIAL = frozenset(b"*?[\\")
_SPECIAL_OR_DOT = _SPECIAL | {ord(".")}
_SEGMENT_END = rb"(?=/|\Z)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One parsed line.

    Attributes:
        regex: matches the whole name, or the whole path from the folder of the ignore file.
        is_for_name: whether `regex` is for the name alone (a pattern without inner slash).
        is_for_folders: whether it matches folders only (a pattern with a slash at its end).
        is_negated: whether it takes a match back (`!`).
        literal: the exact name or path, if it has no wildcards.
        suffix: `.ext` of a pattern `*.ext`, which is most of what people write.
        text: the line as written, for people.
        line_number: in its ignore file, from 1; 0 for a pattern that no file holds.
    """

    regex: bytes
    is_for_name: bool
    is_for_folders: bool
    is_negated: bool
    literal: bytes | None
    suffix: bytes | None
    text: bytes
    line_number: int


def parse_pattern(line: bytes, line_number: int = 0) -> Pattern | None:
    """Parse one line without its line ending; None for a blank line or a comment.

    Args:
        line: as written.
        line_number: kept in the pattern.

    Raises:
        ValueError: the line is malformed and matches nothing (an open bracket, a backslash at the
            end, two slashes in a row), or it is longer than `MAX_PATTERN_BYTES`.
    """
    if line.startswith(b"#"):
        return None
    if len(line) > MAX_PATTERN_BYTES:
        raise ValueError(f"a pattern of {len(line):,} bytes; the limit is {MAX_PATTERN_BYTES:,}")
    glob = _without_trailing_spaces(line)
    is_negated = glob.startswith(b"!")
    glob = glob[is_negated:]
    is_for_folders = glob.endswith(b"/")
    glob = glob.removesuffix(b"/")
    is_for_name = b"/" not in glob
    glob = glob.removeprefix(b"/")
    if not glob:
        return None
    segments = _segments(glob)
    has_suffix = is_for_name and glob.startswith(b"*.") and not _SPECIAL_OR_DOT & set(glob[2:])
    return Pattern(
        regex=segments[0].regex if is_for_name else _path_regex(segments),
        is_for_name=is_for_name,
        is_for_folders=is_for_folders,
        is_negated=is_negated,
        literal=None if _SPECIAL & set(glob) else glob,
        suffix=glob[1:] if has_suffix else None,
        text=line,
        line_number=line_number,
    )


def _without_trailing_spaces(line: bytes) -> bytes:
    kept = line.rstrip(b" ")
    escapes = len(kept) - len(kept.rstrip(b"\\"))
    # A backslash keeps the one space behind it, unless the backslash is itself escaped.
    return kept + b" " if escapes % 2 and len(kept) < len(line) else kept


@dataclass(frozen=True, slots=True)
class _Segment:
    """What stands between two slashes; a `**` is an ordinary star if it is all of a pattern."""

    regex: bytes
    is_double_star: bool


def _segments(glob: bytes) -> list[_Segment]:
    """Split at slashes (not those in brackets) and translate each segment."""
    segments: list[_Segment] = []
    pieces = [b""]
    star_count = 0
    position = 0

    def close_segment() -> None:
        if pieces == [b""]:
            raise ValueError("an empty part between slashes")
        is_double_star = star_count >= 2 and not any(pieces)
        regex = pieces[0] + b"".join(rb"(?>[^/]*?" + piece + rb")" for piece in pieces[1:-1])
        if len(pieces) > 1:
            # The last star may have to give back, but only until the segment's end.
            regex += rb"(?>[^/]*" + pieces[-1] + _SEGMENT_END + rb")"
        segments.append(_Segment(regex, is_double_star))

    while position < len(glob):
        char = glob[position : position + 1]
        position += 1
        if char == b"\\":
            char = glob[position : position + 1]
            position += 1
            if not char:
                raise ValueError("a backslash at the end of a pattern")
            if char != b"/":
                pieces[-1] += re.escape(char)
                continue
        if char == b"/":
            close_segment()
            pieces, star_count = [b""], 0
        elif char == b"*":
            star_count += 1
            if len(pieces) == 1 or pieces[-1]:
                pieces.append(b"")
        elif char == b"?":
            pieces[-1] += b"[^/]"
        elif char == b"[":
            members, position = read_bracket(glob, position)
            pieces[-1] += members
        else:
            pieces[-1] += re.escape(char)
    close_segment()
    return segments


def _path_regex(segments: Sequence[_Segment]) -> bytes:
    """Join segments; runs of segments between `**` are blocks of fixed depth."""
    blocks: list[list[bytes]] = [[]]
    for segment in segments:
        if not segment.is_double_star:
            blocks[-1].append(segment.regex)
        elif blocks[-1] or len(blocks) == 1:
            blocks.append([])
    first, *others = (b"/".join(block) for block in blocks)
    if not others:
        return first
    regex = first + b"/" if first else b""
    for block in others[:-1]:
        regex += rb"(?>(?:[^/]+/)*?" + block + rb"/)"
    # A pattern that ends in `/**` matches all that is inside, not the folder itself.
    return regex + (rb"(?:[^/]+/)*" + others[-1] if others[-1] else rb".+")


_Matcher = tuple[int, Callable[[bytes], object], bool]
"""Position of the pattern, its full match, whether that is for the name alone."""


class PatternSet:
    """The patterns of one ignore file; the last one that matches decides.

    Exact names and `*.extension`, nearly all of what people write, are looked up in dictionaries;
    the others are tried from the last to the first.
    """

    __slots__ = ("_last_by_name", "_last_by_suffix", "_others", "_patterns", "needs_path")

    def __init__(self, patterns: Sequence[Pattern], *, ignore_case: bool = False) -> None:
        flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        self._patterns = tuple(patterns)
        # One table for files and one for folders, since some patterns are for folders only.
        self._last_by_name: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})
        self._last_by_suffix: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})
        self._others: tuple[list[_Matcher], list[_Matcher]] = ([], [])
        for index, pattern in enumerate(patterns):
            is_exact = pattern.is_for_name and not ignore_case
            matcher = None
            for is_folder in (True,) if pattern.is_for_folders else (False, True):
                if is_exact and pattern.literal is not None:
                    self._last_by_name[is_folder][pattern.literal] = index
                elif is_exact and pattern.suffix is not None:
                    self._last_by_suffix[is_folder][pattern.suffix] = index
                else:
                    matcher = matcher or re.compile(pattern.regex, flags).fullmatch
                    self._others[is_folder].append((index, matcher, pattern.is_for_name))
        for others in self._others:
            others.reverse()  # the last pattern decides, so it is tried first
        self.needs_path = any(not pattern.is_for_name for pattern in patterns)
        """Whether `last_match` looks at the path; else any value will do."""

    def last_match(self, name: bytes, path: bytes, is_folder: bool) -> Pattern | None:
        """The last pattern that matches, which decides; a negated one takes matches back.

        Args:
            name: last component of the path.
            path: path from the folder of the ignore file, without a slash at either end.
            is_folder: whether patterns for folders apply.
        """
        last = self._last_by_name[is_folder].get(name, -1)
        by_suffix = self._last_by_suffix[is_folder]
        if by_suffix:
            last = max(last, by_suffix.get(name[name.rfind(b".") :], -1))
        for index, fullmatch, is_for_name in self._others[is_folder]:
            if index < last:
                break
            if fullmatch(name if is_for_name else path):
                last = index
                break
        return None if last < 0 else self._patterns[last]
