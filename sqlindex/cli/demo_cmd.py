"""`sqlindex demo`: the main job on real files, in a temporary folder."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.output import print_message, print_text, visible
from sqlindex.cli.progress import shown_progress
from sqlindex.errors import StorageError
from sqlindex.index import Index
from sqlindex.model.requests import MODES

_MODEL = "minilm"
_QUESTIONS = (
    "what happens to the old index when a refresh crashes",
    "Anspruch auf Zugang zu amtlichen Informationen",
    "how is a renamed file recognised",
)
_EDIT = "\n## Zebra crossing\n\nThe demo added this paragraph about zebras to show an incremental refresh.\n"
_INSPECTION = "SELECT path, start_line, end_line, heading FROM v_chunk WHERE heading LIKE '%Zebra%'"


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the temporary folder and say where it is.")
def command(keep: bool) -> None:
    """Stage the model, index real files, search in three modes, refresh after an edit, inspect by SQL."""
    from sqlindex.embedding.staging import install_model

    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="sqlindex-demo-"))
    try:
        with cancelled_by_signals() as cancel:
            _say(f"1. Install model {_MODEL} (pinned hashes, kept in the user's cache)")
            staged = install_model(_MODEL, cancel=cancel)
            print_text(f"   {staged.folder}")
            installed = time.monotonic()
            corpora = _copy_corpora(folder)
            with (
                Index.open(folder / "demo.db", create=True) as index,
                shown_progress() as progress,
            ):
                index.set_embedder(_MODEL)
                _say(f"2. Index {len(corpora)} folders: {', '.join(path.name for path in corpora)}")
                for path in corpora:
                    index.add_source(path)
                report = index.refresh(cancel=cancel, progress=progress)
                print_text(
                    f"   {report.changes.count('added')} documents, {report.embedded} texts embedded, "
                    f"generation {report.generation} in {report.duration_s:.1f} s"
                )
                _say("3. Ask in three modes")
                for question in _QUESTIONS:
                    _ask(index, question)
                _say("4. Edit one file and refresh")
                edited = sorted(corpora[0].rglob("*.md"))[0]
                edited.write_text(edited.read_text(encoding="utf-8") + _EDIT, encoding="utf-8")
                report = index.refresh(cancel=cancel, progress=progress)
                print_text(
                    f"   {report.changes.count('changed')} changed, {report.changes.unchanged} unchanged, "
                    f"{report.embedded} embedded, {report.reused} reused, generation {report.generation}"
                )
                _ask(index, "zebra crossing")
                report = index.refresh(cancel=cancel)
                print_text(
                    f"   a refresh without changes: {report.embedded} embedded, nothing published"
                )
                _say("5. Look into the file with SQL")
                _inspect(folder / "demo.db")
                findings = index.check(cancel=cancel)
                print_text(f"   check: {findings or 'ok'}")
        print_message(
            f"done in {time.monotonic() - started:.1f} s, {time.monotonic() - installed:.1f} s after the model"
        )
    finally:
        if keep:
            print_message(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _copy_corpora(folder: Path) -> list[Path]:
    """Copies of the project's documents (in a checkout) and of the fixture statutes."""
    copies = []
    for origin in _corpora():
        copies.append(folder / origin.name)
        shutil.copytree(origin, copies[-1])
    return copies


def _corpora() -> Iterator[Path]:
    package = Path(str(resources.files("sqlindex")))
    docs = package.parent / "docs"
    if (package.parent / "pyproject.toml").is_file() and docs.is_dir():
        yield docs
    for corpus in (package / "demo_corpora", package.parent / "fixtures" / "corpora"):
        if (corpus / "gesetze").is_dir():
            yield corpus / "gesetze"
            return
    raise StorageError("the demo's files are missing", hint="install sqlindex again")


def _ask(index: Index, question: str) -> None:
    print_text(f"   {question}?")
    for mode in MODES:
        result = index.search(question, mode=mode, limit=1)
        for hit in result.hits:
            where = f"{hit.path}:{hit.start_line}-{hit.end_line}"
            print_text(f"     {mode:<8} {where}  {' › '.join(hit.heading_path)}")
        if not result.hits:
            print_text(f"     {mode:<8} nothing")


def _inspect(db: Path) -> None:
    shell = shutil.which("sqlite3")
    print_text(f'   sqlite3 demo.db "{_INSPECTION}"')
    if shell is None:
        print_text("   (the sqlite3 shell is not installed: apt-get install sqlite3)")
        return
    answer = subprocess.run(
        [shell, "-readonly", str(db), _INSPECTION], capture_output=True, text=True, check=True
    )
    for line in answer.stdout.splitlines():
        print_text(f"   {visible(line)}")


def _say(step: str) -> None:
    print_text()
    print_text(step)
