"""`sqlindex gc`: collect old generations."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import plural, print_json, print_message
from sqlindex.config import Retention
from sqlindex.errors import UsageError


@click.command("gc")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep the last N generations, the head included; remembered. Default 5.",
)
@click.option(
    "--keep-days",
    type=click.IntRange(min=0),
    metavar="DAYS",
    help="Keep what was the head within so many days too; remembered. Default 0.",
)
@click.option(
    "--vector-days",
    type=click.IntRange(min=0),
    metavar="DAYS",
    help="Keep unused vectors for so many days after their last use; remembered. Default 30.",
)
@wait_option
@json_option
@db_option
def command(
    keep: int | None,
    keep_days: int | None,
    vector_days: int | None,
    wait_s: float,
    as_json: bool,
    db: Path,
) -> int:
    """Collect generations that are no longer kept, and what only they used.

    Every refresh that publishes does this too. The head, tagged generations and those that a reader
    holds stay. The file does not shrink, its free pages are used again; see 'sqlindex compact'.
    """
    given = {"generations": keep, "days": keep_days, "vector_days": vector_days}
    wanted = {name: value for name, value in given.items() if value is not None}
    with open_index(db) as index, cancelled_by_signals() as cancel:
        retention = None
        if wanted:
            # All three given need nothing of what is stored, which may be damaged.
            stored = Retention() if len(wanted) == len(given) else index.retention()
            try:
                retention = replace(stored, **wanted)
            except ValueError as exc:
                raise UsageError(str(exc), hint="a smaller number keeps as much") from exc
        collected = index.collect(retention, cancel=cancel, wait_s=wait_s)
        retention = index.retention()
    if as_json:
        print_json({**asdict(collected), "retention": asdict(retention)})
        return 0
    print_message(
        f"collected {plural(len(collected.generations), 'generation')}, "
        f"{plural(collected.versions, 'document version')}, {plural(collected.parses, 'text')}, "
        f"{plural(collected.vectors, 'vector')}"
    )
    if collected.held:
        held = ", ".join(map(str, collected.held))
        print_message(f"held by a reader and left: {held}")
    days = f" and those of {plural(retention.days, 'day')}" if retention.days else ""
    print_message(
        f"kept: the last {plural(retention.generations, 'generation')}{days}, and tagged ones; "
        f"unused vectors {plural(retention.vector_days, 'day')}"
    )
    return 0
