"""A table or query of a database that the host has open, as documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol

from sqlindex.errors import SourceError, SqlindexError, UsageError
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal
from sqlindex.sources.table_rows import Entry, entry_of, only_document, values_of
from sqlindex.sources.table_selection import Names, SqliteTable, id_parameters, select, several


class HostConnection(Protocol):
    """What is asked of a host's connection; those of sqlite3, pysqlite3 and apsw have it."""

    def execute(self, sql: str, parameters: Any = ..., /) -> Any:
        """Run one statement; the cursor gives its rows when it is iterated."""


class SqliteTableSource:
    """Rows of a host's database as documents, read through the host's own connection.

    A second SQLite library on a file that this process has open would lose its locks, so nothing is
    opened here; the connection is never closed or changed. A listing is one SELECT: it reads one
    snapshot, row by row, and holds the read lock of the connection until it ends. Rows that the host
    writes on the same connection meanwhile may or may not be seen.

    Args:
        name: unique within the index.
        connection: stays the host's; its row and text factories do not matter.
        table, query, id, text, title, date, tags, uri, path, metadata, type_name: see
            `Index.add_table`.

    Raises:
        UsageError: the table or a column is not there, or the query is no single SELECT.
        SourceError: the database cannot be read.
    """

    def __init__(
        self,
        name: str,
        connection: HostConnection,
        *,
        table: str | None = None,
        query: str | None = None,
        id: str | None = None,
        text: Names = (),
        title: str | None = None,
        date: str | None = None,
        tags: str | None = None,
        uri: str | None = None,
        path: str | None = None,
        metadata: Names = (),
        type_name: str = "txt",
    ) -> None:
        self._name = name
        self._connection = connection
        self._wanted = SqliteTable(
            table=table,
            query=query,
            id=id,
            text=several(text),
            title=title,
            date=date,
            tags=tags,
            uri=uri,
            path=path,
            metadata=several(metadata),
            type_name=type_name,
        )
        self._last: tuple[DocumentRef, RawDocument] | None = None
        with self._translated_errors():
            select(connection.execute, self._wanted)

    @property
    def name(self) -> str:
        """Unique within the index."""
        return self._name

    def list(self) -> Iterator[DocumentRef | Refusal]:
        """Yield every row in the order of the table or query; holds only the one listed last.

        Raises:
            SourceError: the database cannot be read, or a column is gone.
        """
        for entry in self._entries("list_sql", ()):
            if isinstance(entry, Refusal):
                yield entry
            else:
                self._last = entry
                yield entry[0]

    def read(self, ref: DocumentRef) -> RawDocument | Refusal:
        """The row listed last, which is at hand, or any other one by its id.

        Raises:
            SourceError: the database cannot be read, or two rows have this id.
        """
        if self._last is not None and self._last[0].document_id == ref.document_id:
            return self._last[1]
        entries = self._entries("point_sql", id_parameters(ref.document_id))
        return only_document(self._name, ref, entries)

    def _entries(self, statement: str, parameters: Sequence[Any]) -> Iterator[Entry]:
        with self._translated_errors():
            try:
                selection = select(self._connection.execute, self._wanted)
            except UsageError as exc:  # it was there when the source was made
                raise SourceError(f"source {self._name!r}: {exc}", hint=exc.hint) from exc
            sql = getattr(selection, statement)
            with closing(self._connection.execute(sql, parameters)) as cursor:
                for number, row in enumerate(cursor, start=1):
                    values = values_of(row, selection.encoding)
                    yield entry_of(values, self._wanted, selection.text, number)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except SqlindexError:
            raise
        except Exception as exc:  # of the host's driver, whichever it is
            raise SourceError(
                f"source {self._name!r}: {self._wanted.label} cannot be read: "
                f"{type(exc).__name__}: {exc}",
                hint="see the cause; nothing was deleted",
            ) from exc
