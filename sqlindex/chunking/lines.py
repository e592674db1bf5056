"""Line numbers of a text, counted as `grep -n` counts them."""

from __future__ import annotations

from bisect import bisect_right


def without_crs(text: str, floor: int, end_char: int) -> int:
    """`end_char`, the end of a line or of the text, without the CRs before it down to `floor`."""
    while end_char > floor and text[end_char - 1] == "\r":
        end_char -= 1
    return end_char


class LineTable:
    """Translates between characters and 1-based lines of one text.

    A line ends at LF, so at CRLF too. A lone CR, a form feed, U+0085 or U+2028 ends none:
    numbers agree with `grep -n` and with editors. A text that ends in LF has no line after it;
    an empty text has no line.

    Building it reads the text once; each lookup is a binary search.
    """

    __slots__ = ("_starts", "_text")

    def __init__(self, text: str) -> None:
        starts = [0] if text else []
        append, find = starts.append, text.find
        start = find("\n") + 1
        while start:
            append(start)
            start = find("\n", start) + 1
        if text.endswith("\n"):
            starts.pop()
        self._text = text
        self._starts = starts

    @property
    def count(self) -> int:
        """Number of lines."""
        return len(self._starts)

    def line_of(self, char: int) -> int:
        """Line that holds the character at offset `char`; a line ending belongs to its line.

        The offset after the last character belongs to the last line.

        Raises:
            IndexError: `char` is outside the text.
        """
        if not 0 <= char <= len(self._text) or not self._starts:
            raise IndexError(f"offset {char} is outside a text of {len(self._text)} characters")
        return bisect_right(self._starts, char)

    def char_of(self, line: int) -> int:
        """Offset of the first character of `line`.

        Raises:
            IndexError: there is no such line.
        """
        if not 1 <= line <= len(self._starts):
            raise IndexError(f"line {line} of a text of {len(self._starts)} lines")
        return self._starts[line - 1]

    def end_of(self, line: int) -> int:
        """Offset after the last character of `line`, its LF or CRLF excluded.

        Raises:
            IndexError: there is no such line.
        """
        start = self.char_of(line)
        if line < len(self._starts):
            end = self._starts[line] - 1
        elif self._text.endswith("\n"):
            end = len(self._text) - 1
        else:
            return len(self._text)
        return end - 1 if end > start and self._text[end - 1] == "\r" else end
