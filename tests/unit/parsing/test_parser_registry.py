"""Parsers by id."""

from __future__ import annotations

import pytest

from sqlindex.errors import DuplicateError, UsageError
from sqlindex.model.documents import ParsedDocument, Section
from sqlindex.parsing.registry import ParserRegistry, builtin_parsers


class HostParser:
    """A parser of a host, without a behaviour version."""

    def __init__(self, parser_id: str) -> None:
        self.id = parser_id
        self.version: int | str | None = None

    def parse(self, text: str, language: str) -> ParsedDocument:
        return ParsedDocument(sections=(Section(0, len(text)),), language=language)


@pytest.mark.req("A-7")
def test_the_builtin_parsers_have_ids_and_versions() -> None:
    registry = builtin_parsers()
    assert registry.ids == (
        *("code", "csv", "html", "ini", "json", "markdown", "notebook", "org", "rst", "tex"),
        *("text", "toml", "yaml"),
    )
    versions = {name: str(registry.parser(name).version) for name in registry.ids}
    assert versions.pop("markdown").startswith("2+markdown-it-")
    assert versions.pop("notebook").startswith("1+json-1+markdown-2+markdown-it-")
    assert versions.pop("code") == "2"
    assert set(versions.values()) == {"1"}


@pytest.mark.req("A-8")
def test_a_host_adds_a_parser_without_a_version() -> None:
    registry = builtin_parsers().with_parsers([HostParser("host")])
    assert registry.parser("host").version is None
    assert "host" in registry
    assert "host" not in builtin_parsers()


@pytest.mark.req("A-8")
def test_a_duplicate_id_fails_early() -> None:
    with pytest.raises(DuplicateError, match="'text'") as caught:
        builtin_parsers().with_parsers([HostParser("text")])
    assert caught.value.hint
    with pytest.raises(DuplicateError, match="'a'"):
        ParserRegistry([HostParser("a"), HostParser("a")])
    with pytest.raises(DuplicateError, match="'a'"):
        builtin_parsers().with_parsers([HostParser("a"), HostParser("a")], override=True)


@pytest.mark.req("A-8")
def test_a_host_overrides_a_parser_on_purpose() -> None:
    mine = HostParser("text")
    registry = builtin_parsers().with_parsers([mine], override=True)
    assert registry.parser("text") is mine
    assert registry.ids == builtin_parsers().ids


def test_an_unknown_id_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'nope'") as caught:
        builtin_parsers().parser("nope")
    assert "markdown" in caught.value.hint
