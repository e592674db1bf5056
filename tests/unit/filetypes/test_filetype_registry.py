"""The registry of file types: lookups, overrides and what fails early."""

from __future__ import annotations

import pytest

from sqlindex.errors import DuplicateError
from sqlindex.filetypes.builtin import BUILTIN_FILE_TYPES, BUILTIN_REGISTRY
from sqlindex.filetypes.registry import FileType, FileTypeRegistry

ADOC = FileType("asciidoc", ("adoc",), "markup", "asciidoc", "text")

REQUIRED = [
    "md", "txt", "js", "jsx", "mjs", "cjs", "ts", "tsx", "py", "rs", "go", "java", "c", "h", "cpp",
    "hpp", "html", "css", "scss", "json", "yaml", "yml", "toml", "sh", "bash", "fish", "sql", "rst",
    "org", "tex", "ini", "csv", "ipynb",
]  # fmt: skip


@pytest.mark.req("A-7")
@pytest.mark.parametrize("extension", REQUIRED)
def test_every_required_extension_has_a_type(extension: str) -> None:
    file_type = BUILTIN_REGISTRY.for_extension(extension)
    assert file_type is not None
    assert extension in file_type.extensions


@pytest.mark.req("A-7", "A-3")
def test_extensions_are_found_in_any_case_of_letters() -> None:
    assert BUILTIN_REGISTRY.for_extension("MD") is BUILTIN_REGISTRY.for_extension("md")


@pytest.mark.req("A-7", "A-10")
@pytest.mark.parametrize("extension", ["", "exe", "png", ".md", "license", "pdf"])
def test_unknown_extensions_have_no_type(extension: str) -> None:
    assert BUILTIN_REGISTRY.for_extension(extension) is None


@pytest.mark.req("A-7")
def test_every_builtin_type_has_the_limit_of_two_mebibytes() -> None:
    assert {file_type.max_bytes for file_type in BUILTIN_FILE_TYPES} == {2 * 1024 * 1024}


@pytest.mark.req("A-8")
def test_added_types_are_found_and_leave_the_first_registry_as_it_was() -> None:
    extended = BUILTIN_REGISTRY.with_types(ADOC)
    assert extended.for_extension("adoc") is ADOC
    assert BUILTIN_REGISTRY.for_extension("adoc") is None


@pytest.mark.req("A-8")
def test_a_taken_name_fails_early_and_names_both() -> None:
    other = FileType("markdown", ("mdx",), "markdown", "mdx", "markdown")
    with pytest.raises(DuplicateError, match=r"'markdown': for \.md \.markdown and for \.mdx"):
        BUILTIN_REGISTRY.with_types(other)


@pytest.mark.req("A-8")
def test_a_taken_extension_fails_early_and_names_both() -> None:
    other = FileType("mine", ("md",), "markdown", "markdown", "mine")
    with pytest.raises(DuplicateError, match=r"\.md of file type 'mine' belongs to 'markdown'"):
        BUILTIN_REGISTRY.with_types(other)


@pytest.mark.req("A-8")
def test_an_extension_named_twice_by_one_type_fails_early() -> None:
    with pytest.raises(DuplicateError, match=r"\.x of file type 'twice' belongs to 'twice'"):
        FileTypeRegistry([FileType("twice", ("x", "x"), "text", "text", "text")])


@pytest.mark.req("A-8")
def test_replacing_takes_an_extension_over_and_leaves_the_others_to_their_type() -> None:
    mine = FileType("mine", ("h",), "code", "c++", "mine")
    registry = BUILTIN_REGISTRY.with_types(mine, replace=True)
    assert registry.for_extension("h") is mine
    c = registry.for_extension("c")
    assert c is not None
    assert c.extensions == ("c",)


@pytest.mark.req("A-8")
def test_replacing_by_name_drops_the_old_row_with_all_its_extensions() -> None:
    mine = FileType("markdown", ("md",), "markdown", "markdown", "mine")
    registry = BUILTIN_REGISTRY.with_types(mine, replace=True)
    assert registry.for_extension("md") is mine
    assert registry.for_extension("markdown") is None


@pytest.mark.req("A-8")
def test_replacing_still_refuses_two_added_types_that_collide() -> None:
    with pytest.raises(DuplicateError):
        BUILTIN_REGISTRY.with_types(
            ADOC, FileType("other", ("adoc",), "text", "text", "text"), replace=True
        )


@pytest.mark.req("A-8")
@pytest.mark.parametrize("extension", ["", ".md", "MD", "tar.gz", "a/b", "a b", "a\0"])
def test_an_extension_that_could_never_match_fails_early(extension: str) -> None:
    with pytest.raises(ValueError, match="extension"):
        FileType("x", (extension,), "text", "text", "text")


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"language": ""},
        {"parser": ""},
        {"extensions": ()},
        {"extensions": "md"},
        {"max_bytes": 0},
    ],
)
def test_a_row_with_an_empty_field_fails_early(arguments: dict[str, object]) -> None:
    fields = {
        "name": "x",
        "extensions": ("x",),
        "kind": "text",
        "language": "text",
        "parser": "text",
    }
    with pytest.raises(ValueError, match="file type"):
        FileType(**(fields | arguments))  # type: ignore[arg-type]  # wrong values on purpose


@pytest.mark.req("A-29")
def test_the_fingerprint_changes_with_a_row_and_not_with_the_order() -> None:
    reordered = FileTypeRegistry(reversed(BUILTIN_FILE_TYPES))
    assert reordered.fingerprint == BUILTIN_REGISTRY.fingerprint
    assert BUILTIN_REGISTRY.with_types(ADOC).fingerprint != BUILTIN_REGISTRY.fingerprint
