"""A text as lines, for formats whose structure is one of lines."""

from __future__ import annotations

from collections.abc import Iterator


class SourceLines:
    """The lines of a text, 0-based; `texts` are without their line endings, `starts` offsets."""

    __slots__ = ("starts", "texts")

    def __init__(self, text: str) -> None:
        self.texts: list[str] = []
        self.starts: list[int] = []
        start = 0
        for line in text.split("\n"):
            self.starts.append(start)
            start += len(line) + 1
            self.texts.append(line.rstrip("\r"))

    def __len__(self) -> int:
        return len(self.texts)

    def end(self, line: int) -> int:
        """Offset after the last character of a line, its ending excluded."""
        return self.starts[line] + len(self.texts[line])

    def paragraphs(self, is_left_out: bytearray) -> Iterator[tuple[int, int]]:
        """(start, end) offsets of each run of non-blank lines, those left out excluded."""
        first = -1
        for line, text in enumerate(self.texts):
            if is_left_out[line] or not text.strip():
                if first >= 0:
                    yield self.starts[first], self.end(line - 1)
                first = -1
            elif first < 0:
                first = line
        if first >= 0:
            yield self.starts[first], self.end(len(self.texts) - 1)
