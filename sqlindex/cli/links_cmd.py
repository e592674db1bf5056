"""`sqlindex links`: the links of a document and where they lead, or who links to it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.documents import of_document
from sqlindex.cli.options import at_option, db_option, json_option, open_index
from sqlindex.cli.output import print_json, print_text
from sqlindex.model.links import DocumentLink, target_parts


@click.command("links")
@click.argument("document")
@click.option("--back", is_flag=True, help="The links of other documents that lead to it.")
@click.option("--source", metavar="NAME", help="The source, when several have the document.")
@at_option
@json_option
@db_option
def command(
    document: str, back: bool, source: str | None, at: str | None, as_json: bool, db: Path
) -> None:
    """List the links of DOCUMENT, its id or the path of its file, and where they lead.

    One line each: where it stands, its target, and behind the arrow the document with the line of
    the heading that it names; or that it leads outside, to no document, or to no heading.
    """
    with open_index(db) as index:
        ask = index.backlinks if back else index.links
        links = of_document(
            index, lambda known, where: ask(known, source=where, at=at), document, source, at=at
        )
    if as_json:
        print_json({"links": [asdict(link) for link in links]})
        return
    for link in links:
        print_text(f"{link.document_id}:{link.line}: {link.target} → {_document(link)}")


def _document(link: DocumentLink) -> str:
    found = link.leads_to
    if found is None:
        is_url = target_parts(link.target, link.is_wiki).is_url
        return "(outside)" if is_url else "(no such document)"
    source = "" if found.source == link.source else f"{found.source}: "
    line = "" if found.heading_line is None else f":{found.heading_line}"
    names_nothing = found.anchor and not line and not found.anchor.startswith("^")
    return f"{source}{found.document_id}{line}" + (" (no such heading)" if names_nothing else "")
