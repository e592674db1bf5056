"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from sqlindex.index import Index

DEFAULT_DB = "sqlindex.db"

_TRUST = "sqlindex.trust"

_F = TypeVar("_F", bound=Callable[..., Any])


def db_option(function: _F) -> _F:
    """`--db PATH`, also from `SQLINDEX_DB`, and how far its place is trusted; see `open_index`."""
    function = click.option(
        "--allow-network",
        is_flag=True,
        expose_value=False,
        callback=_trust,
        help="Write an index on a network file system; only if no other machine uses it.",
    )(function)
    function = click.option(
        "--trust-owner",
        is_flag=True,
        expose_value=False,
        callback=_trust,
        help="Write an index that belongs to another user.",
    )(function)
    return click.option(
        "--db",
        # Whether it can be read is for the index to say, with a hint and its own exit code.
        type=click.Path(path_type=Path, readable=False),
        envvar="SQLINDEX_DB",
        default=DEFAULT_DB,
        show_default=True,
        help="The index file (or SQLINDEX_DB).",
    )(function)


def _trust(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    context.meta.setdefault(_TRUST, {})[option.name] = is_given


def open_index(db: Path, *, create: bool = False) -> Index:
    """The index of `--db`, trusted as far as the command line says."""
    from sqlindex.index import Index

    return Index.open(db, create=create, **click.get_current_context().meta[_TRUST])


def json_option(function: _F) -> _F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")(
        function
    )


def at_option(function: _F) -> _F:
    """`--at GEN`."""
    return click.option(
        "--at",
        metavar="GEN",
        help="As of this generation: a number, tag, date (2026-11-30: the end of that day), head~1.",
    )(function)


def wait_option(function: _F) -> _F:
    """`--wait SECONDS`."""
    return click.option(
        "--wait",
        "wait_s",
        type=click.FloatRange(min=0),
        default=0.0,
        metavar="SECONDS",
        callback=_seconds,
        help="Wait for another writer instead of failing at once.",
    )(function)


def _seconds(_: click.Context, __: click.Parameter, value: float) -> float:
    if math.isnan(value):
        raise click.BadParameter("nan is no number of seconds")
    return value


def embedder_name(value: str | None) -> str | None:
    """`none` means no embedder."""
    return None if value in (None, "none") else value
