"""`sqlindex reindex`: make layers anew beside what is served, and publish that once."""

from __future__ import annotations

from pathlib import Path

import click

from sqlindex.cli.gate import gate_option, gate_or_none
from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.progress import shown_progress
from sqlindex.cli.refresh_cmd import exit_code_of, print_report
from sqlindex.model.layers import LAYERS, Layer
from sqlindex.model.requests import Mode


@click.command("reindex")
@click.option(
    "--layer",
    "layers",
    multiple=True,
    type=click.Choice(LAYERS),
    help="Only this layer; repeatable. All of them without.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Processes that parse and embed for the one that writes; 0 does it all in one.",
)
@click.option(
    "--restart",
    is_flag=True,
    help="Begin anew although an interrupted reindex was begun with other layers or settings.",
)
@click.option(
    "--lexical-only-on-bad-vector",
    "allow_bad_vectors",
    is_flag=True,
    help="Publish a chunk without a vector instead of failing.",
)
@gate_option
@wait_option
@db_option
@json_option
def command(
    layers: tuple[Layer, ...],
    workers: int,
    restart: bool,
    allow_bad_vectors: bool,
    gate: str | None,
    gate_mode: Mode | None,
    wait_s: float,
    db: Path,
    as_json: bool,
) -> int:
    """Make the index, or layers of it, anew, though nothing that made them has changed.

    chunks: every listed document is read, parsed and cut. lexical: the full-text table. vectors: those
    of the present model. What is not named is reused.

    Searches are answered from the last generation until the new one is published. Ctrl-C stops it, and
    the next reindex goes on where it stopped.
    """
    asked = gate_or_none(gate, gate_mode)
    with (
        open_index(db) as index,
        cancelled_by_signals() as cancel,
        shown_progress() as progress,
    ):
        report = index.reindex(
            layers or None,
            workers=workers,
            restart=restart,
            allow_bad_vectors=allow_bad_vectors,
            gate=asked,
            cancel=cancel,
            progress=progress,
            wait_s=wait_s,
        )
    print_report(report, as_json=as_json, what="reindex")
    return exit_code_of(report.changes, report)
