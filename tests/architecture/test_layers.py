"""Imports point down, and heavy packages are imported where they belong."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "sqlindex"

LEVEL_BY_PART = {
    "errors": -1,
    **dict.fromkeys(
        ("model", "config", "cancellation", "child_process", "dates", "encodable", "text_lines"), 0
    ),
    **dict.fromkeys(("ports", "filetypes", "rendering", "mounts"), 1),
    **dict.fromkeys(("store", "analysis", "chunking"), 2),
    **dict.fromkeys(("sources", "parsing", "embedding", "indexing", "search"), 3),
    # One level in many files: adapters meet pipelines, the state, and the public class over both.
    **dict.fromkeys(("adapters", "verdict"), 4),
    "wiring": 5,
    **dict.fromkeys(("gating", "overview", "question_files", "registration", "snapshot"), 6),
    "questions": 7,
    "index": 8,
    **dict.fromkeys(("async_index", "evaluation", "serving", "testing"), 9),
    "cli": 10,  # its eval command runs the evaluation
}
OUTSIDE = {"__init__", "__main__"}
"""The public names and the command line's door: they only forward."""


def _imports(path: Path) -> Iterator[tuple[str, bool]]:
    """(imported module, whether only for type checkers) of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            typing_only.update(inner for child in node.body for inner in ast.walk(child))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node in typing_only
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node in typing_only


def _part(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def _files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", _files(), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_a_module_imports_only_lower_levels_and_its_own_folder(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own in OUTSIDE:
        return
    for module, _ in _imports(path):
        if module.startswith("sqlindex."):
            part = _part(module)
            assert part in LEVEL_BY_PART, f"{part} has no level"
            assert part == own or LEVEL_BY_PART[part] < LEVEL_BY_PART[own], (
                f"{own} imports {module}"
            )


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("sqlite3", set()),  # store/driver.py imports it by name, once
        ("pysqlite3", set()),
        ("onnxruntime", {"embedding/onnx_session.py"}),
        ("tokenizers", {"embedding/local.py"}),
        ("onnx", {"embedding/graph_writer.py"}),
        (
            "urllib3",
            {"embedding/hub.py", "embedding/retrying.py", "embedding/service_http.py"},
        ),
        ("pathspec", {"sources/ignore.py", "sources/patterns.py"}),
        (
            "markdown_it",
            {"parsing/markdown.py", "parsing/markdown_blocks.py", "parsing/markdown_links.py"},
        ),
        ("ir_measures", {"evaluation/measures.py"}),
    ],
)
def test_a_package_is_imported_only_by_its_adapter(package: str, allowed: set[str]) -> None:
    importers = {
        path.relative_to(PACKAGE).as_posix()
        for path in _files()
        for module, is_typing in _imports(path)
        if module.split(".")[0] == package and not is_typing
    }
    assert importers <= allowed


HEAVY = (
    "numpy",
    "sqlite_utils",
    "rich",
    "onnxruntime",
    "tokenizers",
    "markdown_it",
    "yaml",
    "pathspec",
)


def _loaded_after(program: str) -> set[str]:
    code = f"import sys\n{program}\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    return set(answer.stdout.splitlines()[-1].split())


def test_importing_opening_and_searching_lexically_load_no_heavy_package(tmp_path: Path) -> None:
    from sqlindex import Document, Index

    path = tmp_path / "index.db"
    with Index.open(path, create=True) as index:
        index.upsert("notes", [Document("a", "the pump valve was replaced")])
    program = (
        "from sqlindex import Index\n"
        f"with Index.open({str(path)!r}) as index:\n"
        "    assert index.search('valve').hits[0].document_id == 'a'"
    )
    assert _loaded_after(program) == set()


def test_a_lexical_query_on_the_command_line_loads_no_heavy_package(tmp_path: Path) -> None:
    from sqlindex import Document, Index

    path = tmp_path / "index.db"
    with Index.open(path, create=True) as index:
        index.upsert("notes", [Document("a", "the pump valve was replaced")])
    program = (
        "from sqlindex.cli.main import run\n"
        f"assert run(['search', 'valve', '--db', {str(path)!r}]) == 0"
    )
    assert _loaded_after(program) == set()
