"""`sqlindex status`: what the index holds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.options import db_option, json_option
from sqlindex.cli.output import plural, print_json, print_text
from sqlindex.index import Index
from sqlindex.model.status import IndexStatus, RefusedDocument


@click.command("status")
@click.option(
    "--refused", "with_refused", is_flag=True, help="List each document that is not in, and why."
)
@json_option
@db_option
def command(with_refused: bool, as_json: bool, db: Path) -> None:
    """Show generation, sources, counts, model and sizes."""
    with Index.open(db) as index:
        status = index.status()
        refused = index.refused() if with_refused else []
    if as_json:
        listed = {"refused": [_refused_as_json(r) for r in refused]} if with_refused else {}
        print_json({**asdict(status), **listed})
        return
    _print_status(status)
    for document in refused:
        kept = " (earlier version kept)" if document.is_kept else ""
        refusal = document.refusal
        print_text(
            f"{document.source}\t{refusal.document_id}\t{refusal.reason.value}{kept}\t{refusal.detail}\t{refusal.hint}"
        )


def _print_status(status: IndexStatus) -> None:
    print_text(f"index       {status.path} ({status.file_bytes:,} bytes, log {status.log_bytes:,})")
    print_text(f"generation  {status.generation}, published {status.published_at}")
    print_text(
        f"holds       {plural(status.documents, 'document')}, {plural(status.chunks, 'chunk')}"
    )
    print_text(f"model       {status.embedder or 'none'}; default mode {status.default_mode}")
    print_text(f"vectors     {status.space or 'none'}")
    print_text(
        f"sqlite      {status.sqlite_version} ({status.driver}), schema {status.schema_version}"
    )
    for source in status.sources:
        refused = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(source.refused.items())
        )
        not_in = f"; not indexed: {refused}" if refused else ""
        documents = plural(source.documents, "document")
        print_text(f"source      {source.name}: {documents} from {source.where}{not_in}")


def _refused_as_json(document: RefusedDocument) -> dict[str, object]:
    refusal = document.refusal
    return {
        "source": document.source,
        "document_id": refusal.document_id,
        "reason": refusal.reason.value,
        "detail": refusal.detail,
        "hint": refusal.hint,
        "is_kept": document.is_kept,
    }
