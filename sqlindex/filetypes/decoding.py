"""Decoding: bytes to text without guessing, or a reason that says what to do."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from sqlindex.model.documents import RefusalReason

_LOOKED_AT = 1_024
"""Characters or bytes looked at to guess what a refused file is."""

_UTF16_BY_BOM = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text and the encoding it was in: `utf-8`, `utf-8-sig`, `utf-16-le` or `utf-16-be`.

    The byte-order mark is not part of the text: `utf-8-sig` and both UTF-16 had one. Line
    endings are as in the file.
    """

    text: str
    encoding: str


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Why bytes are no text: `ENCODING` or `NUL`, with words for people."""

    reason: RefusalReason
    detail: str
    hint: str


def decode(data: bytes) -> Decoded | Undecodable:
    """The text of a file that is strictly UTF-8, or UTF-16 with a byte-order mark.

    Everything else is refused: a wrong guess would be stored and searched as if it were the
    author's text, and no replacement character tells the two apart later. So a result of
    `Decoded` encodes back to exactly `data`.
    """
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        # Before UTF-16: its little-endian mark is the first half of that of UTF-32.
        return _refuse_encoding("the byte-order mark is that of UTF-32", "UTF-32")
    utf16 = _UTF16_BY_BOM.get(data[:2])
    if utf16 is not None:
        return _decode_utf16(data, utf16)
    has_bom = data.startswith(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8-sig" if has_bom else "utf-8")
    except UnicodeDecodeError as exc:
        # The decoder of utf-8-sig counts from behind the mark.
        return _refuse_utf8(data, exc.start + (len(codecs.BOM_UTF8) if has_bom else 0))
    return _refuse_nul(text) or Decoded(text, "utf-8-sig" if has_bom else "utf-8")


def _decode_utf16(data: bytes, encoding: str) -> Decoded | Undecodable:
    try:
        text = data[2:].decode(encoding)
    except UnicodeDecodeError as exc:
        name = encoding.upper()
        return _refuse_encoding(
            f"the byte-order mark says {name}, but offset {exc.start + 2} is not {name}: "
            f"{exc.reason}",
            name,
        )
    return _refuse_nul(text) or Decoded(text, encoding)


def _refuse_nul(text: str) -> Undecodable | None:
    position = text.find("\0")
    if position < 0:
        return None
    detail = f"character {position} is NUL: "
    guess = _utf16_without_mark(text[:_LOOKED_AT].encode("utf-8"))
    if guess is None:
        return Undecodable(RefusalReason.NUL, detail + "a binary file", "exclude it")
    return Undecodable(
        RefusalReason.NUL,
        f"{detail}looks like {guess} without a byte-order mark",
        f"convert with iconv -f {guess} -t UTF-8",
    )


def _refuse_utf8(data: bytes, offset: int) -> Undecodable:
    found = f"byte 0x{data[offset]:02x} at offset {offset} is not UTF-8"
    if b"\0" in data:
        guess = _utf16_without_mark(data[:_LOOKED_AT])
        if guess is None:
            return Undecodable(
                RefusalReason.ENCODING, f"{found}; it holds NULs too: a binary file", "exclude it"
            )
        return _refuse_encoding(f"{found}; looks like {guess} without a byte-order mark", guess)
    if _looks_like_windows_1252(data):
        return _refuse_encoding(f"{found}; looks like Windows-1252", "WINDOWS-1252")
    return Undecodable(
        RefusalReason.ENCODING, found, "convert it to UTF-8 with iconv, or exclude it"
    )


def _utf16_without_mark(data: bytes) -> str | None:
    """`UTF-16LE` or `UTF-16BE` if every second byte is mostly NUL, as in Western text."""
    pairs = len(data) // 2
    high, low = data[0 : 2 * pairs : 2].count(0), data[1 : 2 * pairs : 2].count(0)
    if low > pairs // 2 and high <= pairs // 10:
        return "UTF-16LE"
    if high > pairs // 2 and low <= pairs // 10:
        return "UTF-16BE"
    return None


def _refuse_encoding(detail: str, source_encoding: str) -> Undecodable:
    return Undecodable(
        RefusalReason.ENCODING, detail, f"convert with iconv -f {source_encoding} -t UTF-8"
    )


def _looks_like_windows_1252(data: bytes) -> bool:
    """Whether every byte is a character there and none a control character."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return False
    return not any(c < " " and c not in "\t\n\r\f" for c in text)
