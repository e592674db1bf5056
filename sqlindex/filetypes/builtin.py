"""The built-in table of file types; `docs/reference/file-types.md` is generated from it."""

from __future__ import annotations

from sqlindex.filetypes.registry import FileType, FileTypeRegistry


def _code(name: str, *extensions: str) -> FileType:
    return FileType(name, extensions, "code", language=name, parser="code", structure_aware=True)


BUILTIN_FILE_TYPES = (
    FileType("markdown", ("md", "markdown"), "markdown", "markdown", "markdown", True),
    FileType("text", ("txt",), "text", "text", "text"),
    FileType("rst", ("rst",), "markup", "rst", "rst", True),
    FileType("org", ("org",), "markup", "org", "org", True),
    FileType("tex", ("tex",), "markup", "tex", "tex", True),
    FileType("html", ("html", "htm"), "markup", "html", "html", True),
    FileType("csv", ("csv", "tsv"), "structured", "csv", "csv", True),
    FileType("json", ("json", "jsonl"), "structured", "json", "json", True),
    FileType("yaml", ("yaml", "yml"), "structured", "yaml", "yaml", True),
    FileType("toml", ("toml",), "structured", "toml", "toml", True),
    FileType("ini", ("ini", "cfg"), "structured", "ini", "ini", True),
    # No text fallback: a notebook as plain text is mostly encoded pictures.
    FileType("notebook", ("ipynb",), "structured", "json", "notebook", True, text_fallback=False),
    _code("javascript", "js", "jsx", "mjs", "cjs"),
    _code("typescript", "ts", "tsx"),
    _code("python", "py", "pyi"),
    _code("rust", "rs"),
    _code("go", "go"),
    _code("java", "java"),
    _code("c", "c", "h"),
    _code("cpp", "cpp", "hpp", "cc", "hh", "cxx"),
    _code("css", "css"),
    _code("scss", "scss"),
    _code("shell", "sh", "bash"),
    _code("fish", "fish"),
    _code("sql", "sql"),
)
"""Prose and markup first, then structured text, then code."""

BUILTIN_REGISTRY = FileTypeRegistry(BUILTIN_FILE_TYPES)
"""What a folder source looks up unless the host gives its own registry."""
