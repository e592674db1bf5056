"""`sqlindex purge`: remove documents from every generation and from the file."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import plural, print_json, print_message
from sqlindex.indexing.purge import Purge


@click.command("purge")
@click.argument("documents", nargs=-1, metavar="[PATH_OR_ID]...")
@click.option("--source", metavar="NAME", help="Whose documents, where several sources have one.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@wait_option
@db_option
@json_option
def command(
    documents: tuple[str, ...],
    source: str | None,
    yes: bool,
    wait_s: float,
    db: Path,
    as_json: bool,
) -> None:
    """Remove documents from all generations, and every byte of them from the file.

    This cannot be undone, and writes the whole file anew. Without a document, what an interrupted
    purge has left is finished.
    """
    with open_index(db) as index:
        if documents and not yes:
            _ask(documents)
        with cancelled_by_signals() as cancel:
            done = index.purge(documents, source=source, cancel=cancel, wait_s=wait_s)
    if as_json:
        print_json(asdict(done))
    else:
        _print(done)


def _ask(documents: tuple[str, ...]) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("purging cannot be undone: confirm it with --yes")
    names = ", ".join(documents)
    click.confirm(f"Remove {names} from every generation for good?", abort=True, err=True)


def _print(done: Purge) -> None:
    names = ", ".join(f"{document_id} of {source}" for source, document_id in done.documents)
    print_message(f"purged {names}" if names else "finished an earlier purge")
    print_message(
        f"deleted {plural(done.versions, 'version')} and {plural(done.vectors, 'vector')}; "
        f"the head is generation {done.generation}"
    )
    for source, document_id in done.same_text:
        print_message(f"note: {document_id} of {source} has, or had, the same text")
    for source, document_id in done.returning:
        print_message(f"note: {document_id} is still in the folder of {source}")
    if done.returning:
        print_message("hint: the next refresh brings it back: move it away, or ignore it there")
    if done.is_gate_lifted:
        print_message(
            "note: the generation that a gate kept back held it, and is no longer one; refresh again"
        )
    for copy in done.copies:
        print_message(f"note: {copy} is an earlier copy of the index and may hold it")
