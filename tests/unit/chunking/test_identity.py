"""Names of content and chunks."""

from __future__ import annotations

import pytest

from sqlindex.chunking.identity import chunk_id, content_fingerprint, occurrences

pytestmark = pytest.mark.req("A-12")


def test_a_fingerprint_is_sixteen_bytes_and_depends_on_the_text_alone() -> None:
    assert len(content_fingerprint("")) == 16
    assert content_fingerprint("a") == content_fingerprint("a")
    assert content_fingerprint("a") != content_fingerprint("a ")


def test_the_fingerprint_never_changes_between_releases() -> None:
    assert content_fingerprint("Größe").hex() == "ba94ef9b04a20d4d71328310afe38a62"


def test_equal_chunks_are_numbered_in_order() -> None:
    assert occurrences([b"a", b"b", b"a", b"a", b"b"]) == [0, 0, 1, 2, 1]
    assert occurrences([]) == []


def test_a_chunk_id_is_32_hexadecimal_digits_and_stable() -> None:
    name = chunk_id("docs", "a/b.md", content_fingerprint("x"), 0)
    assert name == "bbac02ced6575eb4c129c195265a5037"
    assert len(name) == 32


def test_parts_of_an_identity_do_not_run_into_each_other() -> None:
    fingerprint = content_fingerprint("x")
    ids = {
        chunk_id(source, document, fingerprint, occurrence)
        for source, document, occurrence in [
            ("ab", "c", 0),
            ("a", "bc", 0),
            ("", "abc", 0),
            ("abc", "", 0),
            ("ab", "c", 1),
            ("ab\0", "c", 0),
        ]
    }
    assert len(ids) == 6


def test_an_undecodable_file_name_has_an_identity() -> None:
    assert chunk_id("s", "\udcff", b"", 0) != chunk_id("s", "\ufffd", b"", 0)


def test_a_negative_occurrence_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        chunk_id("s", "d", b"", -1)
