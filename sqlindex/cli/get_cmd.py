"""`sqlindex get`: print a document, some of its lines, or a chunk."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.documents import of_document
from sqlindex.cli.options import at_option, db_option, json_option, open_index
from sqlindex.cli.output import print_json
from sqlindex.errors import UnknownDocumentError

_CHUNK_ID = re.compile(r"[0-9a-f]{32}")
_LINES = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


@click.command("get")
@click.argument("what")
@click.option("--lines", metavar="A-B", help="Only these lines, counted from 1, both included.")
@click.option("--source", metavar="NAME", help="The source, when several have the document.")
@at_option
@json_option
@db_option
def command(
    what: str, lines: str | None, source: str | None, at: str | None, as_json: bool, db: Path
) -> None:
    """Print WHAT as the index holds it: a document by its id or file, or a chunk by its id."""
    span = _span(lines)
    with open_index(db) as index:
        if _CHUNK_ID.fullmatch(what):
            chunk = index.get_chunk(what, at=at)
            values, text = asdict(chunk), chunk.text
        else:
            document = of_document(
                index,
                lambda known, where: index.get(known, source=where, at=at),
                what,
                source,
                at=at,
            )
            values, text = asdict(document), document.text
    if span is not None:
        lines_of_text = text.split("\n")
        if not lines_of_text[-1]:
            lines_of_text.pop()  # as `wc -l` counts: behind the last line break is no line
        if span[0] > len(lines_of_text):
            raise UnknownDocumentError(
                f"{what} has {len(lines_of_text)} lines", hint="choose lines within"
            )
        text = "\n".join(lines_of_text[span[0] - 1 : span[1]])
        values["text"] = text
    if as_json:
        print_json(values)
    else:
        # The bytes of the text as they are: no newline translation, no escaping.
        sys.stdout.buffer.write(text.encode("utf-8"))
        if not text.endswith("\n") and (span is not None or sys.stdout.isatty()):
            sys.stdout.buffer.write(b"\n")


def _span(lines: str | None) -> tuple[int, int] | None:
    if lines is None:
        return None
    found = _LINES.fullmatch(lines)
    first = int(found[1]) if found else 0
    last = int(found[2] or found[1]) if found else 0
    if not 1 <= first <= last:
        raise click.BadParameter(f"{lines!r} is not A-B with 1 ≤ A ≤ B", param_hint="--lines")
    return first, last
