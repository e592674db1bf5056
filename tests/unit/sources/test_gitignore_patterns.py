"""Patterns of `.gitignore` files: what they match, and that none is slow."""

from __future__ import annotations

import time

import pytest

from sqlindex.sources.patterns import MAX_PATTERN_BYTES, PatternSet, parse_pattern


def matches(pattern: str, path: str, *, is_folder: bool = False, ignore_case: bool = False) -> bool:
    parsed = parse_pattern(pattern.encode())
    assert parsed is not None
    patterns = PatternSet([parsed], ignore_case=ignore_case)
    raw = path.encode()
    return patterns.last_match(raw.rpartition(b"/")[2], raw, is_folder) is not None


@pytest.mark.req("A-3")
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a.md", "a.md"),
        ("a.md", "deep/a.md"),
        ("*.md", "deep/a.md"),
        ("*.tar.gz", "x.tar.gz"),
        ("/a.md", "a.md"),
        ("deep/a.md", "deep/a.md"),
        ("deep/*.md", "deep/a.md"),
        ("**/a.md", "a.md"),
        ("**/a.md", "x/y/a.md"),
        ("x/**/a.md", "x/a.md"),
        ("x/**/a.md", "x/y/z/a.md"),
        ("x/**/y/**/a.md", "x/y/q/y/a.md"),
        ("x/**", "x/y"),
        ("a*b*c", "axbxbxc"),
        ("a?c", "abc"),
        ("[a-c]x", "bx"),
        ("[!a-c]x", "dx"),
        ("[^a-c]x", "dx"),
        ("[]-]x", "]x"),
        ("[[:digit:][:upper:]]x", "7x"),
        ("[\\]]x", "]x"),
        ("\\#a", "#a"),
        ("\\!a", "!a"),
        ("a\\*", "a*"),
        ("a\\ ", "a "),
        ("a  ", "a"),
        ("***", "anything"),
        ("line\nbreak*", "line\nbreak.md"),
        ("größe*", "größe.md"),
    ],
)
def test_a_pattern_matches(pattern: str, path: str) -> None:
    assert matches(pattern, path)


@pytest.mark.req("A-3")
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a.md", "ba.md"),
        ("*.md", "a.mdx"),
        ("/a.md", "deep/a.md"),
        ("deep/*.md", "deep/er/a.md"),
        ("x/**", "x"),
        ("x/**/a", "xa"),
        ("a*b", "a/b"),
        ("a?b", "a/b"),
        ("a[!x]b", "a/b"),
        ("?.md", "ü.md"),  # a ? is one byte, as in git
        ("a*bc*d", "abd"),
        ("[z-a]", "m"),
        ("a\\*", "ab"),
        ("build/", "build"),  # a file
    ],
)
def test_a_pattern_does_not_match(pattern: str, path: str) -> None:
    assert not matches(pattern, path)


@pytest.mark.req("A-3")
def test_a_pattern_with_a_slash_at_its_end_is_for_folders() -> None:
    assert matches("build/", "x/build", is_folder=True)
    assert matches("*.d/", "x.d", is_folder=True)
    assert not matches("*.d/", "x.d")


@pytest.mark.req("A-3")
def test_patterns_match_in_any_case_where_the_file_system_does() -> None:
    for pattern in ("README.md", "*.MD", "[q-s]eadme.*", "/Readme.md"):
        assert matches(pattern, "readme.md", ignore_case=True)


@pytest.mark.req("A-3")
def test_the_last_pattern_that_matches_decides() -> None:
    lines = [b"*.md", b"!keep.md", b"k??p.md", b"!/keep.md"]
    for count, verdict in enumerate([True, False, True, False], start=1):
        parsed = [pattern for line in lines[:count] if (pattern := parse_pattern(line))]
        last = PatternSet(parsed).last_match(b"keep.md", b"keep.md", False)
        assert last is not None
        assert (not last.is_negated, last.text) == (verdict, lines[count - 1])


@pytest.mark.req("A-3")
@pytest.mark.parametrize("line", [b"", b"   ", b"# comment", b"/", b"!", b"!/"])
def test_a_blank_line_or_a_comment_is_no_pattern(line: bytes) -> None:
    assert parse_pattern(line) is None


@pytest.mark.req("A-3")
@pytest.mark.parametrize(
    "line",
    [b"a[", b"[]", b"[!]", b"a\\", b"[a-", b"[[:none:]]", b"[[:alpha:", b"a//b", b"//a", b"[a\\"],
)
def test_a_malformed_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"bracket|backslash|slashes|class"):
        parse_pattern(line)


@pytest.mark.req("A-3")
def test_an_over_long_pattern_is_refused_but_not_a_comment() -> None:
    assert parse_pattern(b"#" + b"a" * MAX_PATTERN_BYTES) is None
    with pytest.raises(ValueError, match="limit"):
        parse_pattern(b"a" * (MAX_PATTERN_BYTES + 1))


@pytest.mark.req("A-3")
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        pytest.param("**/" * 200 + "b", "a/" * 1_000 + "c", id="double stars"),
        pytest.param("**/a/" * 200 + "b", "a/" * 1_000 + "c", id="double stars and names"),
        pytest.param("**/*a*/" * 200 + "b", "a/" * 1_000 + "c", id="double stars and globs"),
        pytest.param("a*" * 1_000 + "b", "a" * 255, id="stars"),
        pytest.param("*a" * 60 + "b", "a" * 255, id="more stars"),
        pytest.param("x/" + "*a" * 60 + "b", "x/" + "a" * 255, id="stars in a path"),
        pytest.param("*" * 4_000, "a" * 255, id="only stars"),
        pytest.param("[" * 4_000, "[" * 255, id="brackets"),
    ],
)
def test_no_pattern_takes_exponential_time(pattern: str, path: str) -> None:
    start = time.perf_counter()
    try:
        parsed = parse_pattern(pattern.encode())
    except ValueError:
        parsed = None
    if parsed is not None:
        raw = path.encode()
        PatternSet([parsed]).last_match(raw.rpartition(b"/")[2], raw, False)
    assert time.perf_counter() - start < 2
