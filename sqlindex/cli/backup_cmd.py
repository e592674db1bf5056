"""`sqlindex backup`: copy the index while it is in use."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index
from sqlindex.cli.output import print_json, print_message
from sqlindex.cli.progress import shown_progress


@click.command("backup")
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@click.option("--force", is_flag=True, help="Replace an earlier backup that is not in use.")
@db_option
@json_option
def command(out: Path, force: bool, db: Path, as_json: bool) -> None:
    """Copy the index, as it is at this moment, to the new file OUT.

    Searches and a refresh go on meanwhile. OUT is an index with all kept generations.
    """
    with (
        open_index(db) as index,
        cancelled_by_signals() as cancel,
        shown_progress() as progress,
    ):
        backup = index.backup(out, force=force, cancel=cancel, progress=progress)
    if as_json:
        print_json(asdict(backup))
    else:
        size = f"{backup.file_bytes / 1_000_000:,.1f} MB"
        print_message(f"generation {backup.generation} copied to {backup.path} ({size})")
