"""`sqlindex discard`: drop a generation that a gate keeps back."""

from __future__ import annotations

from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import print_json, print_message


@click.command("discard")
@wait_option
@db_option
@json_option
def command(wait_s: float, db: Path, as_json: bool) -> None:
    """Drop the generation that 'refresh --gate' has measured and kept back; the head stays.

    Its vectors are reused if the texts come back, for as long as 'sqlindex gc' keeps unused ones.
    """
    with open_index(db) as index, cancelled_by_signals() as cancel:
        index.discard(cancel=cancel, wait_s=wait_s)
        head = index.status().generation
    if as_json:
        print_json({"generation": head})
    else:
        print_message(f"discarded; the head is generation {head}")
