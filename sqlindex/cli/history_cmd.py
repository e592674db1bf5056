"""`sqlindex history`: the generations that can be searched, compared and restored."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.options import db_option, json_option, open_index
from sqlindex.cli.output import plural, print_json, print_text
from sqlindex.model.history import Generation


@click.command("history")
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="Only the last N.")
@click.option("--all", "with_collected", is_flag=True, help="Also those that have been collected.")
@json_option
@db_option
def command(limit: int | None, with_collected: bool, as_json: bool, db: Path) -> None:
    """List the generations that are kept, newest first.

    Any of them can be given to --at, 'diff' and 'tag': by its number, a tag, a date, or as head~1.
    """
    with open_index(db) as index:
        generations = index.history(limit, with_collected=with_collected)
    if as_json:
        print_json({"generations": [asdict(generation) for generation in generations]})
        return
    for generation in generations:
        print_text(_line(generation))


def _line(generation: Generation) -> str:
    notes = [
        *(["head"] if generation.is_head else []),
        *(["collected"] if not generation.is_kept else []),
        *(["lexical only"] if generation.documents and generation.embedder is None else []),
        *(f"tag {name}" for name in generation.tags),
    ]
    cause = generation.cause
    if generation.restored is not None:
        cause = f"{cause} of {generation.restored}"
    counts = (
        ("added", generation.added),
        ("changed", generation.changed),
        ("renamed", generation.renamed),
        ("removed", generation.removed),
    )
    changes = ", ".join(f"{count:,} {name}" for name, count in counts if count)
    parts = [
        f"{generation.number:>6}  {generation.published_at}  {cause:<8}",
        f"{plural(generation.documents, 'document'):>12}",
        *([changes] if changes else []),
        *([f"({', '.join(notes)})"] if notes else []),
    ]
    return "  ".join(parts)
