"""`sqlindex source`: register, list, move and remove sources."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import plural, print_json, print_message, print_text


@click.group("source")
def command() -> None:
    """Register, list, move and remove sources."""


@command.command("add")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="Name of the source; the folder's name by default.")
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Only these files (.gitignore syntax); repeatable.",
)
@click.option(
    "--exclude", multiple=True, metavar="PATTERN", help="Not these (.gitignore syntax); repeatable."
)
@click.option("--hidden", is_flag=True, help="Hidden files and folders too.")
@click.option("--one-file-system", is_flag=True, help="Nothing that is mounted below FOLDER.")
@db_option
@json_option
def add(
    folder: Path,
    name: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    hidden: bool,
    one_file_system: bool,
    db: Path,
    as_json: bool,
) -> None:
    """Register FOLDER; 'sqlindex refresh' then indexes it."""
    with open_index(db) as index:
        added = index.add_source(
            folder,
            name=name,
            include=include,
            exclude=exclude,
            hidden=hidden,
            one_file_system=one_file_system,
        )
    if as_json:
        print_json({"source": added})
    else:
        print_message(f"source {added}; next: sqlindex refresh")


@command.command("add-table")
@click.argument("database", type=click.Path(path_type=Path))
@click.option("--table", help="A table or view of DATABASE; or")
@click.option("--query", metavar="SQL", help="one SELECT.")
@click.option("--name", help="Name of the source; the table's or file's name by default.")
@click.option("--id", "id_", metavar="COLUMN", help="The identity; the primary key by default.")
@click.option(
    "--text",
    multiple=True,
    metavar="COLUMN",
    help="What is searched; repeatable; by default every text column without another role.",
)
@click.option("--title", metavar="COLUMN", help="The title, shown and searched.")
@click.option("--date", metavar="COLUMN", help="ISO 8601, Unix time or Julian day.")
@click.option("--tags", metavar="COLUMN", help="A JSON array, or tags with commas in between.")
@click.option("--uri", metavar="COLUMN", help="Where the document can be opened.")
@click.option("--path", metavar="COLUMN", help="Shown, and what path filters see.")
@click.option(
    "--metadata", multiple=True, metavar="COLUMN", help="A field for filters; repeatable."
)
@click.option(
    "--type", "type_name", default="txt", show_default=True, help="File type of the texts: md, …"
)
@db_option
@json_option
def add_table(
    database: Path,
    table: str | None,
    query: str | None,
    name: str | None,
    id_: str | None,
    text: tuple[str, ...],
    title: str | None,
    date: str | None,
    tags: str | None,
    uri: str | None,
    path: str | None,
    metadata: tuple[str, ...],
    type_name: str,
    db: Path,
    as_json: bool,
) -> None:
    """Register a table, view or query of the SQLite file DATABASE; its rows are documents.

    DATABASE is only read. 'sqlindex refresh' then indexes it.
    """
    with open_index(db) as index:
        added = index.add_table(
            database,
            name=name,
            table=table,
            query=query,
            id=id_,
            text=text,
            title=title,
            date=date,
            tags=tags,
            uri=uri,
            path=path,
            metadata=metadata,
            type_name=type_name,
        )
    if as_json:
        print_json({"source": added})
    else:
        print_message(f"source {added}; next: sqlindex refresh")


@command.command("list")
@db_option
@json_option
def list_(db: Path, as_json: bool) -> None:
    """List the sources, where their documents come from, and how many there are."""
    with open_index(db) as index:
        sources = index.status().sources
    if as_json:
        print_json({"sources": [asdict(source) for source in sources]})
        return
    for source in sources:
        print_text(f"{source.name}\t{source.where}\t{plural(source.documents, 'document')}")


@command.command("move")
@click.argument("name")
@click.argument("place", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Even if none of its documents lies there.")
@db_option
@json_option
def move(name: str, place: Path, force: bool, db: Path, as_json: bool) -> None:
    """Tell that the folder or database of source NAME is PLACE now.

    Its documents stay what they are: 'sqlindex refresh' after a mere move embeds nothing.
    """
    with open_index(db) as index:
        index.move_source(name, place, force=force)
        (moved,) = (source for source in index.status().sources if source.name == name)
    if as_json:
        print_json({"source": name, "root": moved.root})
    else:
        print_message(f"source {name} is {moved.root}; next: sqlindex refresh")


@command.command("rm")
@click.argument("name")
@wait_option
@db_option
@json_option
def rm(name: str, wait_s: float, db: Path, as_json: bool) -> None:
    """Remove a source and its documents: one published generation."""
    with open_index(db) as index:
        report = index.remove_source(name, wait_s=wait_s)
    removed = report.changes.count("removed")
    if as_json:
        print_json({"source": name, "removed": removed, "generation": report.generation})
    else:
        print_message(f"removed source {name} with {plural(removed, 'document')}")
