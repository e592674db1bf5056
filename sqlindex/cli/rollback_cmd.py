"""`sqlindex rollback`: publish an earlier state as a new generation."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import print_json, print_message


@click.command("rollback")
@click.argument("generation")
@wait_option
@json_option
@db_option
def command(generation: str, wait_s: float, as_json: bool, db: Path) -> int:
    """Publish the documents of GENERATION (a number, tag, date or head~1) as a new generation.

    The folders stay as they are: the next refresh follows them again.
    """
    with open_index(db) as index, cancelled_by_signals() as cancel:
        report = index.rollback(generation, cancel=cancel, wait_s=wait_s)
    if as_json:
        print_json(asdict(report))
        return 0
    changes = (
        f"{report.added:,} came back, {report.changed:,} changed back, {report.removed:,} removed"
    )
    print_message(f"rolled back to generation {report.restored}: {changes}")
    if not report.has_vectors and report.is_other_space:
        print_message("hint: it has no vectors: search lexically, or refresh to make them")
    elif report.is_other_space:
        print_message(
            "hint: its vectors are another model's; search with that one, or refresh with the present one"
        )
    state = "published" if report.is_published else "nothing to publish, still"
    print_message(f"{state} generation {report.generation}")
    if report.is_published:
        print_message(f"undo with: sqlindex rollback {report.previous}")
    return 0
