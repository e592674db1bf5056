"""The wheel, installed elsewhere without extras, opens an index and searches lexically."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.packaging

PROGRAM = """
import sys
from sqlindex import Document, Index
with Index.open("i.db", create=True) as index:
    index.upsert("notes", [Document("a", "the pump valve K7 was replaced")])
    assert [hit.document_id for hit in index.search("valve").hits] == ["a"]
    assert index.check() == []
import sqlindex
assert "site-packages" in sqlindex.__file__, sqlindex.__file__
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "-w",
        str(folder),
        str(REPOSITORY),
    ]
    subprocess.run(command, check=True)
    (built,) = folder.glob("sqlindex-*.whl")
    return built


@pytest.mark.req("A-31")
def test_the_wheel_holds_migrations_types_and_demo_files_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    migrations = sorted(path.name for path in (REPOSITORY / "migrations").glob("*.sql"))
    assert [f"sqlindex/migrations/{name}" for name in migrations] == sorted(
        name for name in names if name.endswith(".sql")
    )
    assert "sqlindex/py.typed" in names
    assert "sqlindex/demo_corpora/gesetze/ifg.md" in names
    tops = {name.split("/")[0] for name in names}
    assert all(top == "sqlindex" or top.endswith(".dist-info") for top in tops)
    assert any(name.endswith("LICENSE") for name in names)


@pytest.mark.req("A-26")
def test_the_wheel_without_extras_indexes_and_searches_lexically(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", str(wheel)], check=True)
    subprocess.run([python, "-c", PROGRAM], check=True, cwd=tmp_path)
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    ).stdout
    assert "onnxruntime" not in listed
    command = environment / "bin" / "sqlindex"
    run = subprocess.run(
        [command, "search", "valve", "--db", "i.db", "--files"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert run.stdout == "a\n"
    refused = subprocess.run(
        [command, "model", "install", "minilm"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SQLINDEX_MODELS": str(tmp_path / "models")},
    )
    assert refused.returncode == 1
    assert "pip install 'sqlindex[minilm]'" in refused.stderr
    assert "Traceback" not in refused.stderr
