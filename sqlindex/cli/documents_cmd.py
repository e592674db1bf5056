"""`sqlindex documents`: what the index, or one of its generations, holds."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import click

from sqlindex.cli.options import at_option, db_option, json_option, open_index
from sqlindex.cli.output import JSON_SCHEMA, print_text


@click.command("documents")
@click.option("--source", metavar="NAME", help="Only this source.")
@at_option
@json_option
@db_option
def command(source: str | None, at: str | None, as_json: bool, db: Path) -> None:
    """List all documents by id: source, id, number of chunks, title.

    The list is printed while it is read, also with --json, whatever its length.
    """
    with open_index(db) as index:
        documents = index.documents(at, source=source)
        first = list(islice(documents, 1))  # an error comes before any output
        if as_json:
            print(f'{{"schema": {JSON_SCHEMA}, "documents": [', end="")
            for number, document in enumerate((*first, *documents)):
                print(
                    ", " * (number > 0) + json.dumps(asdict(document), ensure_ascii=False), end=""
                )
            print("]}")
            return
        for found in (first, documents):
            for document in found:
                print_text(
                    f"{document.source}\t{document.document_id}\t{document.chunks}\t{document.title}"
                )
