"""`sqlindex init`: make an index."""

from __future__ import annotations

from pathlib import Path

import click

from sqlindex.cli.language_advice import advice
from sqlindex.cli.options import db_option, embedder_name, json_option, open_index
from sqlindex.cli.output import print_json, print_message
from sqlindex.cli.service_options import service_of_options, service_options
from sqlindex.config import ChunkConfig
from sqlindex.errors import DuplicateError
from sqlindex.index import Index
from sqlindex.sources.containment import canonical_root


@click.command("init")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--embedder",
    metavar="NAME",
    help="The model for semantic search, or 'none'; see 'sqlindex model list'.",
)
@service_options
@click.option(
    "--chunk-chars",
    type=click.IntRange(min=40),
    help="Cut documents into chunks of about so many characters; 1200 if never set.",
)
@db_option
@json_option
def command(
    folders: tuple[Path, ...],
    embedder: str | None,
    chunk_chars: int | None,
    db: Path,
    as_json: bool,
    **service: object,
) -> None:
    """Make an index (mode 0600) if there is none, register FOLDERS, choose a model or service.

    Run again, it adds what is new. Nothing is indexed before 'sqlindex refresh', and no service is
    asked before.
    """
    config = service_of_options(service)
    if config is not None and embedder is not None:
        raise click.UsageError(
            "choose a model (--embedder) or a service (--embedder-url), not both"
        )
    # Looked at before anything is made, so that a misspelled folder leaves nothing behind.
    roots = [canonical_root(folder) for folder in folders]
    with open_index(db, create=True) as index:
        if config is not None:
            index.set_embedder(config)
        if embedder is not None:
            index.set_embedder(embedder_name(embedder))
        if chunk_chars is not None:
            # A last piece joins the one before it below a quarter of the size, as by default.
            index.set_chunks(ChunkConfig(target_chars=chunk_chars, min_chars=chunk_chars // 4))
        names = [name for root in dict.fromkeys(roots) if (name := _added(index, root)) is not None]
        status = index.status()
        told = advice(index.language_signs(), status.embedder) if embedder is not None else None
    if as_json:
        print_json({"path": status.path, "embedder": status.embedder, "added_sources": names})
        return
    print_message(f"index {status.path}, model: {status.embedder or 'none (lexical search only)'}")
    if told is not None and status.embedder is not None:
        print_message(f"note: {told}")
    for name in names:
        print_message(f"source {name}")
    print_message(
        "next: sqlindex refresh" if status.sources else "next: sqlindex source add FOLDER"
    )


def _added(index: Index, root: str) -> str | None:
    """The name of the new source; None if the folder is registered, perhaps since a moment ago."""

    def is_known() -> bool:
        return root in {source.root for source in index.status().sources}

    if is_known():
        return None
    try:
        return index.add_source(root)
    except DuplicateError:
        if is_known():
            return None
        raise
