"""Relative paths and document ids: one text for any byte name, and back."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sqlindex.sources.paths import document_id_of, file_uri, path_of

# Bytes that meet the escapes: backslashes, what looks like an escape, halves of characters.
AWKWARD = st.lists(
    st.sampled_from([b"\\", b"x", b"e9", b"\\xe9", b"\xc3", b"\xa9", b"\xff", b"/", b"\n", b"a"])
).map(b"".join)
PATHS = st.binary() | AWKWARD | st.text().map(str.encode)


@pytest.mark.req("A-5")
@given(path=PATHS)
@example(b"caf\xe9.md")
@example(b"caf\\xe9.md")
@example("Übung.md".encode())
@example("U\u0308bung.md".encode())
@example(b"\xed\xb3\xa9")
def test_an_id_turns_back_into_the_bytes_of_its_path(path: bytes) -> None:
    assert path_of(document_id_of(path)) == path


@pytest.mark.req("A-5")
@given(path=PATHS)
def test_an_id_is_always_encodable_to_utf_8(path: bytes) -> None:
    document_id_of(path).encode("utf-8")


@pytest.mark.req("A-5")
@given(one=PATHS, other=PATHS)
def test_two_paths_never_share_an_id(one: bytes, other: bytes) -> None:
    assert (document_id_of(one) == document_id_of(other)) == (one == other)


@pytest.mark.req("A-5")
@given(path=st.text(alphabet=st.characters(exclude_characters="\\", exclude_categories=["Cs"])))
def test_a_utf_8_path_without_backslash_is_its_own_id(path: str) -> None:
    assert document_id_of(path.encode()) == path


@pytest.mark.req("A-5")
@given(folder=PATHS, name=PATHS)
def test_the_id_of_a_folder_is_a_prefix_of_the_ids_below_it(folder: bytes, name: bytes) -> None:
    joined = document_id_of(folder + b"/" + name)
    assert joined == document_id_of(folder + b"/") + document_id_of(name)


@pytest.mark.req("A-5")
@given(document_id=st.text(alphabet=st.characters() | st.sampled_from("\\xe9ä")))
@example(r"\x41")
@example(r"\xc3\xa9")
@example(r"\xE9")
@example("\\")
@example("\udce9")
def test_a_text_is_the_id_of_one_path_or_refused(document_id: str) -> None:
    try:
        path = path_of(document_id)
    except ValueError:
        return
    assert document_id_of(path) == document_id


@pytest.mark.req("A-5")
@pytest.mark.parametrize("document_id", [r"\x41", r"\xc3\xa9", r"\xE9", "\\", r"a\b", "\udce9"])
def test_an_id_that_no_path_has_is_refused(document_id: str) -> None:
    with pytest.raises(ValueError, match=r"not the id|surrogate"):
        path_of(document_id)


@pytest.mark.req("A-5")
@given(path=PATHS)
def test_a_file_uri_holds_exactly_the_bytes_of_the_path(path: bytes) -> None:
    uri = file_uri("/srv/größe", document_id_of(path))
    assert uri.isascii()
    assert unquote_to_bytes(uri.removeprefix("file://")) == "/srv/größe/".encode() + path


@pytest.mark.req("A-5")
def test_a_file_uri_escapes_what_urls_reserve() -> None:
    assert file_uri("/r", "a b/c#d?e%41.md") == "file:///r/a%20b/c%23d%3Fe%2541.md"
    assert file_uri("/", "caf\\xe9.md") == "file:///caf%E9.md"


def test_a_file_uri_needs_an_absolute_root() -> None:
    with pytest.raises(ValueError, match="not absolute"):
        file_uri("r", "a.md")
