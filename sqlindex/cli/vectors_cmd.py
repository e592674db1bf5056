"""`sqlindex vectors`: carry vectors from one index file to another."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import plural, print_json, print_message
from sqlindex.cli.progress import shown_progress
from sqlindex.store.vector_transfer import VectorTransfer

_DONE_IN_PART = 5


@click.group("vectors")
def command() -> None:
    """Carry vectors from one index file to another, so that nothing is embedded twice.

    A vector is found again by its model and the exact text, whatever file or place the text is in.
    """


@command.command("import")
@click.argument("other", type=click.Path(path_type=Path), metavar="OTHER")
@wait_option
@json_option
@db_option
def _import(other: Path, wait_s: float, as_json: bool, db: Path) -> int:
    """Take over the vectors of the index OTHER; the next refresh uses those that it needs.

    OTHER is an index, or what 'sqlindex vectors export' made; it is not changed. Its vectors are as good
    as it is: bytes are checked, not their meaning. Damaged ones are left out (exit code 5).
    """
    with (
        open_index(db) as index,
        cancelled_by_signals() as cancel,
        shown_progress() as progress,
    ):
        done = index.import_vectors(other, cancel=cancel, progress=progress, wait_s=wait_s)
    return _told(done, f"taken over from {other}", as_json=as_json)


@command.command("export")
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@json_option
@db_option
def _export(out: Path, as_json: bool, db: Path) -> int:
    """Write all vectors to OUT, an index without documents; add what it lacks if it is there.

    For the cache of a build machine, or another index over the same texts. OUT holds no text, only the
    SHA-256 of each. Damaged vectors are left out (exit code 5).
    """
    with (
        open_index(db) as index,
        cancelled_by_signals() as cancel,
        shown_progress() as progress,
    ):
        done = index.export_vectors(out, cancel=cancel, progress=progress)
    return _told(done, f"written to {out}", as_json=as_json)


def _told(done: VectorTransfer, what: str, *, as_json: bool) -> int:
    if as_json:
        print_json(asdict(done))
    else:
        present = f", {done.present:,} were there already" if done.present else ""
        print_message(f"{plural(done.copied, 'vector')} {what}{present}")
        if done.damaged:
            print_message(f"{plural(done.damaged, 'damaged vector')} left out")
    return _DONE_IN_PART if done.damaged else 0
