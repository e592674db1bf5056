"""Chunks of real trees and of generated files say the truth about the files, judged from outside."""

from __future__ import annotations

import itertools
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.fidelity import StoredChunk, Violations, check_chunks
from bench.shell import shell_rows
from sqlindex import ChunkConfig, Index, IndexConfig

REPOSITORY = Path(__file__).resolve().parents[2]
PIECES = [
    *(
        "# Kopf\n",
        "## Teil\r\n",
        "text\n",
        "größer\n",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\x0c",
        "\u2028",
    ),
    *("\u0085", "e\u0301", "\U0001f469\u200d\U0001f680", "| a | b |\n|---|---|\n| 1 | 2 |\n"),
    *("```\n# kein Kopf\n```\n", "> zitat\n", "- punkt\n\n  mehr\n", "[a](b.md) [[C|d]]\n", "    "),
    *(
        "def f(a):\n    return a\n",
        "class A {\n",
        "}\n",
        '{"k": [\n',
        "]}\n",
        "key: value\n",
        "a,b\n",
    ),
    *(
        "<h1>Ü</h1>\n",
        "<p>a &amp; b</p>",
        "\\section{S}\n",
        "* Punkt\n",
        "===\n",
        "\ufeff",
        "\t",
        " ",
    ),
]
EXTENSIONS = (
    "md",
    "txt",
    "rst",
    "org",
    "tex",
    "html",
    "csv",
    "json",
    "yaml",
    "toml",
    "ini",
    "ipynb",
)
CODE_EXTENSIONS = ("py", "js", "ts", "rs", "go", "java", "c", "cpp", "css", "sh", "fish", "sql")


def violations(index: Index, root: Path) -> tuple[Violations, set[str]]:
    """What is wrong with the chunks of the accepted files, and the ids of these files."""
    found = Violations()
    columns = "document_id, start_char, end_char, start_line, end_line, text"
    rows = shell_rows(index.path, columns, "FROM v_chunk ORDER BY document_id, start_char")
    chunks: dict[str, list[StoredChunk]] = {
        str(document_id): [StoredChunk(*row[1:]) for row in group]  # type: ignore[arg-type]  # from JSON
        for document_id, group in itertools.groupby(rows, key=lambda row: row[0])
    }
    accepted = {str(row[0]) for row in shell_rows(index.path, "document_id", "FROM v_document")}
    for document_id in accepted:
        data = (root / document_id).read_bytes()
        is_utf_16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
        text = data.decode("utf-16" if is_utf_16 else "utf-8").removeprefix("\ufeff")
        check_chunks(text, chunks.get(document_id, []), found)
    return found, accepted


def assert_true_and_told(index: Index, root: Path) -> None:
    found, accepted = violations(index, root)
    assert (found.text, found.lines, found.uncovered) == (0, 0, 0)
    told = {r.refusal.document_id: r.refusal for r in index.refused(with_left_out=True)}
    for path in root.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            continue
        name = path.relative_to(root).as_posix()
        above = [f"{folder.as_posix()}/" for folder in Path(name).parents]
        assert name in accepted or any(told.get(id_) for id_ in (name, *above)), name


@pytest.mark.req("A-2", "A-3", "A-11", "A-12")
@pytest.mark.data
@pytest.mark.parametrize("tree", ["old", "new"])
def test_chunks_of_a_real_tree_are_true(tree: str, data: Path, tmp_path: Path) -> None:
    with tarfile.open(data / "docs-history" / f"{tree}.tar.gz") as archive:
        archive.extractall(tmp_path / "tree", filter="data")
    with Index.open(tmp_path / "i.db", create=True) as index:
        index.add_source(tmp_path / "tree")
        index.refresh()
        assert index.status().documents > 300
        assert_true_and_told(index, (tmp_path / "tree").resolve())


@pytest.mark.req("A-2", "A-3", "A-11", "A-12")
def test_chunks_of_this_repository_are_true(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True) as index:
        index.add_source(REPOSITORY, exclude=[".git/", ".venv/", "build/", "dist/"])
        index.refresh()
        assert index.status().documents > 200
        assert_true_and_told(index, REPOSITORY)


odd_bytes: Any = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(max_size=6), st.just("z" * 350_000)), max_size=25
).map(lambda pieces: "".join(pieces).encode("utf-8", "surrogatepass"))


@pytest.mark.req("A-10", "A-11", "A-12")
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    contents=st.lists(odd_bytes, min_size=1, max_size=4),
    overlap=st.integers(0, 2),
    target=st.sampled_from([40, 300, 1_200]),
)
def test_chunks_of_generated_files_of_every_type_are_true(
    contents: list[bytes], overlap: int, target: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("generated")
    for number, extension in enumerate((*EXTENSIONS, *CODE_EXTENSIONS)):
        (root / f"f.{extension}").write_bytes(contents[number % len(contents)])
    chunks = ChunkConfig(target_chars=target, min_chars=20, overlap_lines=overlap)
    path = tmp_path_factory.mktemp("index") / "i.db"
    with Index.open(path, create=True, config=IndexConfig(chunks=chunks)) as index:
        index.add_source(root)
        index.refresh()
        assert_true_and_told(index, root)
        assert index.check() == []
