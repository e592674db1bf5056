"""Lines of files that people write, by number: every complaint names the file and the line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sqlindex.errors import UsageError


def text_lines(stream: Iterable[bytes], path: Path, *, hint: str) -> Iterator[tuple[int, str]]:
    """(number from 1, text without its line ending) of every line that is not blank.

    A byte-order mark at the start of the first line is no part of it.

    Args:
        stream: the lines as a file opened for bytes gives them: only LF ends one.
        path, hint: of the file, for the error.

    Raises:
        UsageError: a line is not UTF-8.
    """
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as exc:
            raise UsageError(f"{path}, line {number}: not UTF-8: {exc.reason}", hint=hint) from exc
        if text.strip():
            yield number, text.rstrip("\r\n")
