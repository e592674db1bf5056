"""`sqlindex tag`: names for generations."""

from __future__ import annotations

from pathlib import Path

import click

from sqlindex.cli.options import db_option, json_option, open_index, wait_option
from sqlindex.cli.output import print_json, print_message, print_text


@click.command("tag")
@click.argument("name", required=False)
@click.argument("generation", required=False, metavar="[GEN]")
@click.option("--force", is_flag=True, help="Move a name that another generation has.")
@click.option("--delete", is_flag=True, help="Take the name away.")
@wait_option
@json_option
@db_option
def command(
    name: str | None,
    generation: str | None,
    force: bool,
    delete: bool,
    wait_s: float,
    as_json: bool,
    db: Path,
) -> None:
    """Give generation GEN, by default the head, a NAME; without NAME, list the tags.

    A generation is not collected while it has a tag. GEN is a number, a tag, a date or head~1.
    """
    if delete and (name is None or generation is not None or force):
        raise click.UsageError("--delete takes a NAME alone")
    with open_index(db) as index:
        if name is None:
            tags = index.tags()
            if as_json:
                print_json({"tags": tags})
            for tag, number in tags.items():
                if not as_json:
                    print_text(f"{number:>6}  {tag}")
            return
        if delete:
            number, done = index.untag(name, wait_s=wait_s), "no longer names"
        else:
            number, done = index.tag(name, generation, force=force, wait_s=wait_s), "names"
    name = name.strip()
    if as_json:
        print_json({"tag": name, "generation": number, "is_deleted": delete})
    else:
        print_message(f"tag {name} {done} generation {number}")
