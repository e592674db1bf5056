"""`sqlindex repair`: make a damaged file whole again, as far as it can be."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import plural, print_json, print_message, print_text

_IN_PART = 5
_CORRUPT = 6
_DONE = {
    "rebuilt": "made anew",
    "dropped": "dropped",
    "reembed": "lost, embedded again at the next refresh",
    "lost": "lost, index again",
    "removed": "damaged, taken out",
}


@click.command("repair")
@click.option(
    "--salvage",
    "out",
    metavar="NEW.db",
    type=click.Path(path_type=Path),
    help="Copy what can be read into a new file, and repair that.",
)
@json_option
@wait_option
@db_option
def command(out: Path | None, as_json: bool, wait_s: float, db: Path) -> int:
    """Make derived rows anew, and go on without rows that are lost.

    Exits with 0 if all is whole again, with 5 if something was lost that a refresh or indexing
    again brings back, or questions that you must add again, with 6 if a fault remains.
    """
    with open_index(db) as index, cancelled_by_signals() as cancel:
        if out is None:
            report = index.repair(cancel=cancel, wait_s=wait_s)
        else:
            report = index.salvage(out, cancel=cancel, wait_s=wait_s)
    if as_json:
        print_json(
            {
                "generation": report.generation,
                "is_published": report.is_published,
                "mended": [asdict(mended) for mended in report.mended],
                "remaining": [asdict(finding) for finding in report.remaining],
            }
        )
    else:
        for mended in report.mended:
            print_text(f"{mended.what}: {_DONE[mended.outcome]}")
        for finding in report.remaining:
            print_text(f"{finding.invariant}: {finding.detail}: remains")
        _summarize(len(report.mended), len(report.remaining), needs_refresh=report.needs_refresh)
        if report.lost_questions:
            print_message(
                "hint: add the questions again that were taken out: 'sqlindex questions add' or 'import'"
            )
    if report.remaining:
        return _CORRUPT
    return _IN_PART if report.needs_refresh or report.lost_questions else 0


def _summarize(mended: int, remaining: int, *, needs_refresh: bool) -> None:
    if remaining:
        print_message(
            f"{plural(remaining, 'fault')} cannot be repaired: restore a backup or index anew"
        )
    elif needs_refresh:
        print_message(
            f"{plural(mended, 'fault')} repaired; run 'sqlindex refresh' to bring back what is lost"
        )
    else:
        print_message(f"{plural(mended, 'fault')} repaired" if mended else "ok")
