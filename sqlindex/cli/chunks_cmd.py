"""`sqlindex chunks`: how a document is cut, and why."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.documents import of_document
from sqlindex.cli.options import at_option, db_option, json_option, open_index
from sqlindex.cli.output import plural, print_json, print_message, print_text
from sqlindex.model.results import DocumentChunk

_WHY = {
    "section": "its section ends",
    "blank_line": "a blank line near the target size",
    "closing": "a closing brace near the target size",
    "item": "an item begins near the target size",
    "line": "the target size is reached",
    "block": "the block that follows stays whole",
    "tokens": "the model's token limit",
}


@click.command("chunks")
@click.argument("document")
@click.option("--source", metavar="NAME", help="The source, when several have the document.")
@click.option("--text", "with_text", is_flag=True, help="The text of each chunk too.")
@at_option
@json_option
@db_option
def command(
    document: str, source: str | None, with_text: bool, at: str | None, as_json: bool, db: Path
) -> None:
    """Show how DOCUMENT, given by its id or the path of its file, is cut, and why there."""
    with open_index(db) as index:
        chunks = of_document(
            index,
            lambda known, where: index.chunks(known, source=where, at=at),
            document,
            source,
            at=at,
        )
    if as_json:
        print_json({"chunks": [asdict(chunk) for chunk in chunks]})
        return
    for chunk in chunks:
        print_text(_described(chunk))
        if with_text:
            for line in chunk.text.split("\n"):
                print_text(f"    {line}")
    print_message(plural(len(chunks), "chunk"))


def _described(chunk: DocumentChunk) -> str:
    notes = [
        *(["continued"] if chunk.is_continuation else []),
        *(["not embedded"] if not chunk.is_embedded else []),
        *([f"context {' '.join(chunk.context.split())!r}"] if chunk.context else []),
    ]
    heading = " › ".join(chunk.heading_path)
    lines = f"{chunk.start_line}-{chunk.end_line}"
    parts = [
        f"{lines:>11}  {chunk.end_char - chunk.start_char:>6,} chars",
        *([heading] if heading else []),
        *([f"({', '.join(notes)})"] if notes else []),
        f"ends: {_WHY.get(chunk.cut, chunk.cut)}",
    ]
    return "  ".join(parts)
