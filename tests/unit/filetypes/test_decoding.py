"""Decoding: what is text, in which encoding, and why the rest is refused."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.filetypes.decoding import Decoded, Undecodable, decode
from sqlindex.model.documents import RefusalReason

LINES = "Liste\r\nGröße 42\r\nEnde\r\n"

BOM_BY_ENCODING = {
    "utf-8": b"",
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}


def encoded(text: str, encoding: str) -> bytes:
    return BOM_BY_ENCODING[encoding] + text.encode(encoding.removesuffix("-sig"))


def refusal(data: bytes) -> Undecodable:
    outcome = decode(data)
    assert isinstance(outcome, Undecodable)
    return outcome


@pytest.mark.req("A-2", "A-10")
@pytest.mark.parametrize("encoding", BOM_BY_ENCODING)
def test_text_keeps_its_line_endings_and_loses_its_byte_order_mark(encoding: str) -> None:
    assert decode(encoded(LINES, encoding)) == Decoded(LINES, encoding)


@pytest.mark.req("A-2")
@pytest.mark.parametrize("encoding", BOM_BY_ENCODING)
def test_an_empty_text_keeps_its_encoding(encoding: str) -> None:
    assert decode(encoded("", encoding)) == Decoded("", encoding)


@pytest.mark.req("A-2")
@given(
    data=st.binary() | st.text().map(str.encode) | st.text().map(lambda t: encoded(t, "utf-16-le"))
)
def test_whatever_is_decoded_encodes_back_to_the_same_bytes(data: bytes) -> None:
    outcome = decode(data)
    if isinstance(outcome, Decoded):
        assert encoded(outcome.text, outcome.encoding) == data
        assert "\0" not in outcome.text
    else:
        assert outcome.reason in (RefusalReason.ENCODING, RefusalReason.NUL)
        assert outcome.detail
        assert outcome.hint


@pytest.mark.req("A-2")
def test_only_the_first_byte_order_mark_is_removed() -> None:
    assert decode(codecs.BOM_UTF8 * 2) == Decoded("\ufeff", "utf-8-sig")


@pytest.mark.req("A-2")
def test_windows_1252_is_refused_and_recognised() -> None:
    outcome = refusal("Prüfgerät für Maße".encode("cp1252"))
    assert outcome == Undecodable(
        RefusalReason.ENCODING,
        "byte 0xfc at offset 2 is not UTF-8; looks like Windows-1252",
        "convert with iconv -f WINDOWS-1252 -t UTF-8",
    )


@pytest.mark.req("A-2")
def test_the_offset_counts_from_the_start_of_the_file_behind_a_byte_order_mark_too() -> None:
    assert "byte 0xff at offset 4 " in refusal(codecs.BOM_UTF8 + b"a\xff").detail


@pytest.mark.req("A-2")
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["plain ascii", LINES])
def test_utf_16_without_a_byte_order_mark_is_never_text_with_nuls(text: str, encoding: str) -> None:
    outcome = refusal(text.encode(encoding))
    assert outcome.reason in (RefusalReason.ENCODING, RefusalReason.NUL)
    name = {"utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE"}[encoding]
    assert f"looks like {name} without a byte-order mark" in outcome.detail
    assert outcome.hint.startswith(f"convert with iconv -f {name}")


@pytest.mark.req("A-2")
@pytest.mark.parametrize("encoding", BOM_BY_ENCODING)
def test_a_nul_is_refused_in_every_encoding(encoding: str) -> None:
    outcome = refusal(encoded("ab\0c", encoding))
    assert outcome.reason is RefusalReason.NUL
    assert "character 2 is NUL" in outcome.detail


@pytest.mark.req("A-2")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(codecs.BOM_UTF16_LE + b"\x00\xd8", id="high surrogate alone"),
        pytest.param(codecs.BOM_UTF16_LE + b"\x00\xdc\x61\x00", id="low surrogate alone"),
        pytest.param(codecs.BOM_UTF16_BE + b"\xd8\x00\x00\x61", id="high surrogate and a letter"),
        pytest.param(codecs.BOM_UTF16_LE + b"a", id="half a code unit"),
        pytest.param(codecs.BOM_UTF32_LE + "ab".encode("utf-32-le"), id="UTF-32 little-endian"),
        pytest.param(codecs.BOM_UTF32_BE + "ab".encode("utf-32-be"), id="UTF-32 big-endian"),
        pytest.param(b"\xed\xa0\x80", id="surrogate in UTF-8"),
        pytest.param(b"\xc0\xaf", id="overlong UTF-8"),
        pytest.param(b"abc\xe2\x82", id="cut UTF-8"),
        pytest.param(b"\xf5\x80\x80\x80", id="beyond Unicode"),
    ],
)
def test_malformed_text_is_refused_as_encoding(data: bytes) -> None:
    assert refusal(data).reason is RefusalReason.ENCODING


def test_a_binary_file_is_not_called_windows_1252() -> None:
    assert "Windows-1252" not in refusal(b"\x89PNG\r\n\x1a\n\x01\x02").detail
