"""Registering sources: what an index lists from now on, and where it lies. Nothing is indexed here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from sqlindex.adapters import check_patterns, require_other_file, table_source
from sqlindex.errors import DuplicateError, SqlindexError, UsageError
from sqlindex.sources.containment import canonical_root
from sqlindex.sources.paths import document_id_of, path_of
from sqlindex.sources.sqlite_file import SqliteFileSource, canonical_database
from sqlindex.sources.table_selection import SqliteTable
from sqlindex.store.connection import IndexFile
from sqlindex.store.documents import live_in_scope
from sqlindex.store.driver import Connection
from sqlindex.store.scope import EVERYTHING
from sqlindex.store.sources import SourceRow, add_source, find_source, list_sources, move_source

if TYPE_CHECKING:
    from sqlindex.ports import Source

_LOOKED_FOR = 1_000
"""Documents looked for in the new folder of a source."""


def register_folder(
    file: IndexFile,
    folder: str | os.PathLike[str],
    name: str | None,
    *,
    include: Sequence[str],
    exclude: Sequence[str],
    hidden: bool,
    one_file_system: bool,
) -> str:
    """Register a folder; the source's name. Errors as `Index.add_source`."""
    root = document_id_of(os.fsencode(canonical_root(folder)))
    _require_name(name)
    check_patterns(include, exclude)
    options = {
        "include": list(include),
        "exclude": list(exclude),
        "hidden": hidden,
        "one_file_system": one_file_system,
    }
    with file.writing("source add") as writer, writer.transaction() as connection:
        name = name or _free_name(root.rsplit("/", 1)[-1] or "root", connection)
        return add_source(connection, name, "folder", root, options).name


def register_host(file: IndexFile, source: Source) -> str:
    """Register a source of the host, unless it is; its name.

    Raises:
        DuplicateError: the name belongs to a source of another kind.
    """
    with file.reading() as connection:
        known = {row.name: row for row in list_sources(connection)}
    row = known.get(source.name)
    if row is not None and row.kind != "host":
        raise DuplicateError(f"source {source.name!r} is a {row.kind}", hint="choose another name")
    if row is None:
        with file.writing("source add") as writer, writer.transaction() as connection:
            add_source(connection, source.name, "host", None, {})
    return source.name


def register_table(
    file: IndexFile, database: str | os.PathLike[str], name: str | None, wanted: SqliteTable
) -> str:
    """Register a table or query after reading its first row; the source's name.

    Errors as `Index.add_table`.
    """
    _require_name(name)
    root = canonical_database(database)
    require_other_file(file.path, root)
    SqliteFileSource(name or "", root, wanted).check()
    with file.writing("source add") as writer, writer.transaction() as connection:
        name = name or _free_name(wanted.table or root.rsplit("/", 1)[-1], connection)
        return add_source(connection, name, "table", root, wanted.as_options()).name


def move(file: IndexFile, name: str, place: str | os.PathLike[str], *, force: bool) -> None:
    """Give a folder or a database another root. Errors as `Index.move_source`."""
    with file.writing("source move") as writer, writer.transaction() as connection:
        row = find_source(connection, name)
        root: str
        if row.kind == "folder":
            root = document_id_of(os.fsencode(canonical_root(place)))
            if not force:
                _require_documents(connection, row, root)
        elif row.kind == "table":
            root = canonical_database(place)
            require_other_file(file.path, root)
            table_source(replace(row, root=root)).check()
            for other in list_sources(connection):
                if (other.root, other.options) == (root, row.options) and other.name != name:
                    raise DuplicateError(
                        f"this table or query of {root} is registered already as source "
                        f"{other.name!r}",
                        hint="remove one of the two",
                    )
        else:
            raise UsageError(
                f"source {name!r} belongs to a host program", hint="folders and tables can be moved"
            )
        move_source(connection, row.source_id, root)


def unreachable_tables(file: IndexFile) -> dict[str, SqlindexError]:
    """Why registered databases cannot be read now, by the name of their source."""
    with file.reading() as connection:
        rows = [row for row in list_sources(connection) if row.kind == "table"]
    reasons = {}
    for row in rows:
        try:
            table_source(row).check()
        except SqlindexError as exc:
            reasons[row.name] = exc
    return reasons


def _require_documents(connection: Connection, row: SourceRow, root: str) -> None:
    """Refuse a folder that holds none of a source's documents."""
    documents = islice(live_in_scope(connection, row.source_id, EVERYTHING), _LOOKED_FOR)
    folder = path_of(root)
    is_there = [os.path.lexists(os.path.join(folder, path_of(d.document_id))) for d in documents]
    if is_there and not any(is_there):
        raise UsageError(
            f"no document of source {row.name!r} lies in {os.fsdecode(folder)}",
            hint="give the folder that was moved, or force it (force=True, --force)",
        )


def _require_name(name: str | None) -> None:
    if name == "":
        raise UsageError("a source's name is empty", hint="leave it out, or name one")


def _free_name(wanted: str, connection: Connection) -> str:
    taken = {row.name for row in list_sources(connection)}
    names = (wanted, *(f"{wanted}-{number}" for number in range(2, len(taken) + 2)))
    return next(name for name in names if name not in taken)
