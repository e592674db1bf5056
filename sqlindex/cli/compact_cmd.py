"""`sqlindex compact`: give free space of the file back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import print_json, print_message
from sqlindex.cli.progress import shown_progress


@click.command("compact")
@click.option(
    "--full", is_flag=True, help="Write the whole file anew, so that nothing deleted is left."
)
@wait_option
@db_option
@json_option
def command(full: bool, wait_s: float, db: Path, as_json: bool) -> None:
    """Collect what is no longer kept, and give the free space of the file back.

    Searches go on meanwhile. --full needs the file's size twice on disk while it runs.
    """
    with (
        open_index(db) as index,
        cancelled_by_signals() as cancel,
        shown_progress() as progress,
    ):
        done = index.compact(
            "full" if full else "incremental", cancel=cancel, progress=progress, wait_s=wait_s
        )
    if as_json:
        print_json({**asdict(done), "freed_bytes": done.freed_bytes})
        return
    before, after = (
        f"{n / 1_000_000:,.1f} MB" for n in (done.file_bytes_before, done.file_bytes_after)
    )
    print_message(f"the file had {before} and has {after}")
    if done.log_bytes:
        print_message("a reader still needs the log: the file shrinks after the next write")
