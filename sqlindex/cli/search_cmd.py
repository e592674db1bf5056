"""`sqlindex search`: one query, several output forms."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlindex.cli.options import at_option, db_option, json_option, open_index
from sqlindex.cli.output import (
    plural,
    print_json,
    print_json_line,
    print_message,
    print_text,
    visible,
)
from sqlindex.model.requests import DEFAULT_LIMIT, MAX_LIMIT, MODES, Filters, Mode

if TYPE_CHECKING:
    from sqlindex.model.results import Hit, SearchResult

_NOTHING_FOUND = 3


class _Query(click.Command):
    """A query may begin with a dash and a digit, as an order number does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as exc:
            if exc.option_name[1:2].isdigit():
                ctx.ignore_unknown_options = True
                return super().parse_args(ctx, given)
            raise click.UsageError(
                f"{exc.format_message()} A query that begins with a dash comes after '--'.", ctx
            ) from exc


@click.command("search", cls=_Query)
@click.argument("words", nargs=-1, required=True, metavar="QUERY...")
@click.option(
    "--mode", type=click.Choice(MODES), help="Default: hybrid with an embedder, else lexical."
)
@click.option(
    "-n", "--limit", type=click.IntRange(1, MAX_LIMIT), default=DEFAULT_LIMIT, show_default=True
)
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Leave out the first hits.")
@click.option(
    "--cursor",
    metavar="CURSOR",
    help="The next page: 'cursor' of the page before (--json), with the same query and filters.",
)
@at_option
@click.option(
    "--source", "sources", multiple=True, metavar="NAME", help="Only this source; repeatable."
)
@click.option(
    "--path", "path_prefix", metavar="PREFIX", help="Only paths that begin so, for example docs/."
)
@click.option(
    "--glob", "path_glob", metavar="PATTERN", help="Only matching paths, for example '*/api/*.md'."
)
@click.option(
    "--ext", "extensions", multiple=True, metavar="EXT", help="Only this extension; repeatable."
)
@click.option(
    "--language", "languages", multiple=True, help="Only texts in this (markup) language."
)
@click.option(
    "--tag", "tags_any", multiple=True, help="This tag or another one given so; repeatable."
)
@click.option(
    "--all-tags", "tags_all", multiple=True, help="This tag and all others given so; repeatable."
)
@click.option("--after", "date_from", metavar="DATE", help="Dated then or later (ISO 8601).")
@click.option("--before", "date_to", metavar="DATE", help="Dated then or earlier (ISO 8601).")
@click.option(
    "--meta",
    "fields",
    multiple=True,
    metavar="NAME=VALUE",
    help="A field of the host's metadata; repeatable.",
)
@click.option("--full", is_flag=True, help="Print whole chunks instead of snippets.")
@click.option("--files", "as_files", is_flag=True, help="Print only the paths, each once.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help="One JSON object for each hit.")
@click.option("--fail-if-empty", is_flag=True, help="Exit with 3 when nothing is found.")
@json_option
@db_option
def command(
    words: tuple[str, ...],
    mode: Mode | None,
    limit: int,
    offset: int,
    cursor: str | None,
    at: str | None,
    sources: tuple[str, ...],
    path_prefix: str | None,
    path_glob: str | None,
    extensions: tuple[str, ...],
    languages: tuple[str, ...],
    tags_any: tuple[str, ...],
    tags_all: tuple[str, ...],
    date_from: str | None,
    date_to: str | None,
    fields: tuple[str, ...],
    full: bool,
    as_files: bool,
    as_jsonl: bool,
    fail_if_empty: bool,
    as_json: bool,
    db: Path,
) -> int:
    """Search the index. QUERY is plain text: no character in it is search syntax.

    Several words need no quotes. A query that begins with a dash comes after '--'.
    """
    query = " ".join(words)
    filters = Filters(
        sources=frozenset(sources),
        path_prefix=path_prefix,
        path_glob=path_glob,
        extensions=frozenset(extensions),
        languages=frozenset(languages),
        tags_any=frozenset(tags_any),
        tags_all=frozenset(tags_all),
        date_from=date_from,
        date_to=date_to,
        metadata=dict(_field(field) for field in fields),
    )
    with open_index(db) as index:
        result = index.search(
            query,
            mode=mode,
            limit=limit,
            offset=offset,
            filters=filters,
            at=at,
            cursor=cursor,
        )
    if as_json:
        print_json(_as_json(query, result))
    elif as_jsonl:
        for hit in result.hits:
            print_json_line(hit_as_json(hit))
    elif as_files:
        for where in dict.fromkeys(_place(hit, result) for hit in result.hits):
            print_text(where)
    else:
        _print_hits(result, full=full)
    return _NOTHING_FOUND if fail_if_empty and not result.hits else 0


def hit_as_json(hit: Hit) -> dict[str, object]:
    """A hit for machines; names as in `Hit`."""
    from dataclasses import asdict

    return {**asdict(hit), "match_reasons": list(hit.match_reasons)}


def _as_json(query: str, result: SearchResult) -> dict[str, object]:
    return {
        "query": query,
        "mode": result.mode,
        "fusion": result.fusion,
        "generation": result.generation,
        "head_moved": result.head_moved,
        "has_more": result.has_more,
        "cursor": result.cursor,
        "hits": [hit_as_json(hit) for hit in result.hits],
    }


def _print_hits(result: SearchResult, *, full: bool) -> None:
    is_terminal = sys.stdout.isatty()
    for hit in result.hits:
        where = visible(f"{_place(hit, result)}:{hit.start_line}-{hit.end_line}")
        heading = visible(" › ".join(hit.heading_path) or hit.title)
        print(
            f"{hit.rank:>3}. {click.style(where, bold=True) if is_terminal else where}  {heading}"
        )
        if full and hit.context:
            print(f"     {visible(' '.join(hit.context.split()))} …")
        for line in hit.text.split("\n") if full else [hit.snippet]:
            print(f"     {visible(line)}")
    shown = plural(len(result.hits), "hit") + (", more with --offset" if result.has_more else "")
    print_message(f"{shown} ({result.mode}, generation {result.generation})")
    if result.generation == 0:
        print_message(
            "hint: the index is empty: register folders with 'sqlindex source add', then 'sqlindex refresh'"
        )


def _place(hit: Hit, result: SearchResult) -> str:
    """The path, with the source in front when the hits are of several."""
    is_ambiguous = len({other.source for other in result.hits}) > 1
    return f"{hit.source}: {hit.path}" if is_ambiguous else hit.path


def _field(text: str) -> tuple[str, str | int | float | bool | None]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--meta")
    words: dict[str, bool | None] = {"true": True, "false": False, "null": None}
    if value in words:
        return name, words[value]
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        # SQLite reads an integer of more than 64 bits in JSON as a real number, too.
        return name, number if -(2**63) <= number < 2**63 else float(value)
    return name, value
