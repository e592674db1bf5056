"""`sqlindex publish`: publish a generation that a gate keeps back."""

from __future__ import annotations

from pathlib import Path

import click

from sqlindex.cli.gate import gate_option, gate_or_none
from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import print_json, print_message
from sqlindex.cli.progress import shown_progress
from sqlindex.model.requests import Mode


@click.command("publish")
@click.option("--force", is_flag=True, help="Publish it whatever a gate says.")
@gate_option
@wait_option
@db_option
@json_option
def command(
    force: bool, gate: str | None, gate_mode: Mode | None, wait_s: float, db: Path, as_json: bool
) -> None:
    """Publish the generation that 'refresh --gate' has measured and kept back.

    With --force as it is; with --gate if it meets these conditions. Nothing is read or embedded anew.
    Exit code 7 if the gate is missed again.
    """
    asked = gate_or_none(gate, gate_mode)
    if force is (asked is not None):
        raise click.UsageError("say --force, or --gate with other conditions")
    with (
        open_index(db) as index,
        cancelled_by_signals() as cancel,
        shown_progress() as progress,
    ):
        generation = index.publish(
            gate=asked, force=force, cancel=cancel, progress=progress, wait_s=wait_s
        )
    if as_json:
        print_json({"generation": generation})
    else:
        print_message(f"published generation {generation}")
