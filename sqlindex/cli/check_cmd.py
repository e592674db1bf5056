"""`sqlindex check`: verify every invariant of the file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index
from sqlindex.cli.output import plural, print_json, print_message, print_text

_CORRUPT = 6


@click.command("check")
@click.option("--quick", is_flag=True, help="Structure only: no texts, vectors or postings.")
@json_option
@db_option
def command(quick: bool, as_json: bool, db: Path) -> int:
    """Verify the index; exit with 6 and name the rows if anything is wrong."""
    with open_index(db) as index, cancelled_by_signals() as cancel:
        findings = index.check(quick=quick, cancel=cancel)
    if as_json:
        print_json({"is_ok": not findings, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            print_text(f"{finding.invariant}: {finding.detail}")
        print_message(f"{plural(len(findings), 'fault')} found" if findings else "ok")
    return _CORRUPT if findings else 0
