"""A table or query as documents, over a host's connection: columns, ids, odd values, drivers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.errors import SourceError, UsageError
from sqlindex.filetypes.decoding import Decoded, decode
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal, RefusalReason
from sqlindex.model.ids import DocumentId
from sqlindex.sources.sqlite_table import SqliteTableSource

sqlite3 = pytest.importorskip("sqlite3")


def database(*statements: str) -> Any:
    connection = sqlite3.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    return connection


def documents(source: SqliteTableSource) -> dict[str, RawDocument | Refusal]:
    """What the source lists, read row by row."""
    found: dict[str, RawDocument | Refusal] = {}
    for entry in source.list():
        assert entry.document_id not in found
        found[entry.document_id] = entry if isinstance(entry, Refusal) else source.read(entry)
    return found


def texts(source: SqliteTableSource) -> dict[str, str]:
    """The texts of a source without refusals."""
    found = {}
    for document_id, raw in documents(source).items():
        assert isinstance(raw, RawDocument), raw
        found[document_id] = raw.data.decode()
    return found


def ref(document_id: str) -> DocumentRef:
    return DocumentRef(DocumentId(document_id), document_id, "txt")


NOTES = (
    "CREATE TABLE note(id INTEGER PRIMARY KEY, head TEXT, body TEXT, day TEXT, tags TEXT, link TEXT,"
    " place TEXT, level INTEGER, price REAL)",
    "INSERT INTO note VALUES(7, 'Pumpe', 'läuft heiß', '2026-03-02', '[\"b\", \"a\", \"b\"]',"
    " 'app:7', 'plant/7', 2, 1.5)",
    "INSERT INTO note VALUES(-3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
)


@pytest.mark.req("A-4")
def test_columns_become_what_they_are_named_for() -> None:
    source = SqliteTableSource(
        "notes",
        database(*NOTES),
        table="note",
        text="body",
        title="head",
        date="day",
        tags="tags",
        uri="link",
        path="place",
        metadata=("level", "price", "head"),
        type_name=".MD",
    )
    second, first = (entry for entry in source.list() if isinstance(entry, DocumentRef))
    assert (first, second) == (
        DocumentRef(DocumentId("7"), "plant/7", "md"),
        DocumentRef(DocumentId("-3"), "-3", "md"),
    )
    assert source.read(first) == RawDocument(
        data="läuft heiß".encode(),
        uri="app:7",
        title="Pumpe",
        date="2026-03-02",
        tags=("b", "a"),
        metadata={"level": 2, "price": 1.5, "head": "Pumpe"},
    )
    assert source.read(second) == RawDocument(
        data=b"", metadata={"level": None, "price": None, "head": None}
    )


@pytest.mark.req("A-4")
def test_several_text_columns_are_joined_by_a_blank_line_and_empty_ones_left_out() -> None:
    connection = database(
        "CREATE TABLE t(id TEXT PRIMARY KEY, a TEXT, b, c TEXT)",
        "INSERT INTO t VALUES('x', 'one', 2, 'three'), ('y', '', 1.5, NULL), ('z', NULL, NULL, '')",
    )
    source = SqliteTableSource("s", connection, table="t", text=["c", "b", "a"])
    assert texts(source) == {"x": "three\n\n2\n\none", "y": "1.5", "z": ""}


@pytest.mark.req("A-4")
def test_by_default_the_text_is_every_text_column_without_another_role() -> None:
    connection = database(
        "CREATE TABLE t(id VARCHAR(9) PRIMARY KEY, head TEXT, body CLOB, n INTEGER, raw BLOB, v VARCHAR)",
        "INSERT INTO t VALUES('x', 'head', 'body', 1, x'00', 'more')",
    )
    assert texts(SqliteTableSource("s", connection, table="T", title="HEAD")) == {
        "x": "body\n\nmore"
    }
    query = "SELECT id, n, body FROM t"
    assert texts(SqliteTableSource("s", connection, query=query, id="id")) == {"x": "1\n\nbody"}


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("k INTEGER PRIMARY KEY, body TEXT", "5"),
        ("k INT, body TEXT", "1"),
        ("k INT, body TEXT, PRIMARY KEY(k, body)", "1"),
        ("k TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID --", "5"),
    ],
)
def test_by_default_the_id_is_the_primary_key_of_one_column_else_the_rowid(
    columns: str, expected: str
) -> None:
    connection = database(f"CREATE TABLE t({columns}\n)".replace("--\n)", ""))
    connection.execute("INSERT INTO t(k, body) VALUES(5, 'x')")
    source = SqliteTableSource("s", connection, table="t", text="body")
    assert texts(source) == {expected: "x"}
    assert isinstance(source.read(ref(expected)), RawDocument)


@pytest.mark.req("A-4")
def test_a_column_called_rowid_does_not_hide_the_rowid() -> None:
    connection = database(
        "CREATE TABLE t(rowid TEXT, body TEXT)", "INSERT INTO t VALUES('same', 'x'), ('same', 'y')"
    )
    assert texts(SqliteTableSource("s", connection, table="t", text="body")) == {"1": "x", "2": "y"}


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    "made",
    [
        "CREATE VIEW v AS SELECT 1 AS k, 'x' AS body",
        "CREATE TABLE v(k INT, body TEXT, PRIMARY KEY(k, body)) WITHOUT ROWID",
    ],
)
def test_what_has_no_rowid_and_no_key_needs_a_named_id(made: str) -> None:
    connection = database(made)
    with pytest.raises(UsageError, match="table 'v' has no rowid") as error:
        SqliteTableSource("s", connection, table="v", text="body")
    assert error.value.hint == "name the column that is the id: k, body"
    SqliteTableSource("s", connection, table="v", id="k", text="body")


@pytest.mark.req("A-4")
def test_a_row_without_a_usable_id_is_refused_by_its_place_and_the_others_are_listed() -> None:
    connection = database("CREATE TABLE t(k, body TEXT)")
    keys = [
        None,
        b"\0\1",
        1.5,
        "",
        "a\0b",
        "good",
        0,
        2**63 - 1,
        -(2**63),
        "007",
        7,
        "ü ' \" % / \n",
    ]
    connection.executemany("INSERT INTO t VALUES(?, 'x')", [(key,) for key in keys])
    found = documents(SqliteTableSource("s", connection, table="t", id="k"))
    refused = {i: raw.reason for i, raw in found.items() if isinstance(raw, Refusal)}
    assert refused == {f"row {number}": RefusalReason.ID for number in (1, 2, 3, 4, 5)}
    assert set(found) - set(refused) == {str(key) for key in keys[5:]}


@pytest.mark.req("A-4", "A-5")
def test_every_id_finds_exactly_its_own_row_again() -> None:
    connection = database("CREATE TABLE t(k, body TEXT)")
    keys = [
        "007",
        7,
        "-0",
        0,
        "00",
        "+1",
        1,
        " 1",
        -5,
        "ß",
        "ẞ",
        "a",
        "A",
        "x" * 100_000,
        "1.0",
        "1e0",
    ]
    connection.executemany("INSERT INTO t VALUES(?, ?)", [(key, repr(key)[:99]) for key in keys])
    source = SqliteTableSource("s", connection, table="t", id="k")
    list(source.list())
    for key in keys:
        raw = source.read(ref(str(key)))
        assert isinstance(raw, RawDocument)
        assert raw.data.decode() == repr(key)[:99]
    refusal = source.read(ref("7.0"))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.VANISHED


@pytest.mark.req("A-5")
@pytest.mark.parametrize("affinity", ["INTEGER", "TEXT COLLATE NOCASE", "NUMERIC", "BLOB"])
def test_an_id_that_only_compares_equal_is_another_document(affinity: str) -> None:
    connection = database(
        f"CREATE TABLE t(k {affinity}, body TEXT)", "INSERT INTO t VALUES(7, 'x')"
    )
    connection.execute("INSERT INTO t VALUES('abc', 'y')")
    source = SqliteTableSource("s", connection, table="t", id="k", text="body")
    assert texts(source) == {"7": "x", "abc": "y"}
    for other in ("007", "7.0", "ABC", "+7"):
        assert isinstance(source.read(ref(other)), Refusal)
    for own in ("7", "abc"):
        assert isinstance(source.read(ref(own)), RawDocument)


@pytest.mark.req("A-5")
def test_text_and_integer_of_one_spelling_are_never_mixed_up() -> None:
    connection = database(
        "CREATE TABLE t(k, body TEXT)", "INSERT INTO t VALUES('7', 'a'), (7, 'b')"
    )
    connection.execute("INSERT INTO t VALUES('8', 'c')")
    source = SqliteTableSource("s", connection, table="t", id="k")
    assert [entry.document_id for entry in source.list()] == ["7", "7", "8"]
    with pytest.raises(SourceError, match="2 rows with the id '7'"):
        source.read(ref("7"))


@pytest.mark.req("A-2", "A-4")
def test_bytes_are_read_as_utf_8_or_the_row_is_refused() -> None:
    connection = database("CREATE TABLE t(id INTEGER PRIMARY KEY, body, title, note)")
    rows: list[tuple[Any, ...]] = [
        ("größer".encode(), None, None),
        (b"\xff\xfe", None, None),
        ("x", b"\xff", None),
        ("x", "t", b"\xff"),
        ("\ufeffx", None, None),
    ]
    connection.executemany("INSERT INTO t(body, title, note) VALUES(?, ?, ?)", rows)
    # Text that is not UTF-8, as other programs store it: no converter of the host stumbles over it.
    connection.execute("INSERT INTO t(body) VALUES(CAST(x'ff41' AS TEXT))")
    source = SqliteTableSource(
        "s", connection, table="t", text="body", title="title", metadata="note"
    )
    found = documents(source)
    first, marked = found["1"], found["5"]
    assert isinstance(first, RawDocument)
    assert first.data.decode() == "größer"
    assert isinstance(marked, RawDocument)
    assert decode(marked.data) == Decoded("\ufeffx", "utf-8-sig")
    for document_id, column in (("2", "body"), ("3", "title"), ("4", "note"), ("6", "body")):
        refusal = found[document_id]
        assert isinstance(refusal, Refusal)
        assert refusal.reason is RefusalReason.ENCODING
        assert refusal.detail == f"column {column!r}: byte 0 is not UTF-8"


@pytest.mark.req("A-4")
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_is_read_as_it_is_in_every_encoding_of_a_database(encoding: str, text: str) -> None:
    connection = database(f"PRAGMA encoding='{encoding}'", "CREATE TABLE t(id INTEGER, body TEXT)")
    connection.execute("INSERT INTO t VALUES(1, ?)", (text,))
    raw = documents(SqliteTableSource("s", connection, table="t", id="id"))["1"]
    assert isinstance(raw, RawDocument)
    stored = connection.execute("SELECT body FROM t").fetchone()[0]
    # In UTF-16 SQLite takes a byte-order mark at the start away when it stores the text.
    assert raw.data.decode().removeprefix("\ufeff") == stored.removeprefix("\ufeff")


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-03-02", "2026-03-02"),
        (0, "1970-01-01T00:00:00+00:00"),
        (1_772_409_600, "2026-03-02T00:00:00+00:00"),
        (2_440_587.5, "1970-01-01T00:00:00+00:00"),
        (2**62, None),
        (float("inf"), None),
        ("yesterday", "yesterday"),  # as in front matter: the pipeline leaves it out
    ],
)
def test_a_date_is_text_unix_time_or_a_julian_day(value: object, expected: str | None) -> None:
    connection = database("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT, day)")
    connection.execute("INSERT INTO t(body, day) VALUES('x', ?)", (value,))
    raw = documents(SqliteTableSource("s", connection, table="t", date="day"))["1"]
    assert isinstance(raw, RawDocument)
    assert raw.date == expected


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a, b,,a , c d", ("a", "b", "c d")),
        ('["a", 1, null, {"x": 1}, " "]', ("a", "1")),
        ("[not json", ("[not json",)),
        ("[" * 100_000, ("[" * 100_000,)),
        ("", ()),
        (5, ("5",)),
    ],
)
def test_tags_are_a_json_array_or_stand_between_commas(
    value: object, expected: tuple[str, ...]
) -> None:
    connection = database("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT, tags)")
    connection.execute("INSERT INTO t(body, tags) VALUES('x', ?)", (value,))
    raw = documents(SqliteTableSource("s", connection, table="t", tags="tags"))["1"]
    assert isinstance(raw, RawDocument)
    assert raw.tags == expected


@pytest.mark.req("A-4")
def test_infinity_which_json_lacks_becomes_null() -> None:
    connection = database("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT, x)")
    connection.execute("INSERT INTO t(body, x) VALUES('x', 9e999)")
    raw = documents(SqliteTableSource("s", connection, table="t", metadata="x"))["1"]
    assert isinstance(raw, RawDocument)
    assert raw.metadata == {"x": None}


@pytest.mark.req("A-2", "A-4")
def test_a_row_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlindex.sources.table_rows.MAX_ROW_CHARS", 10)
    connection = database("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT)")
    connection.executemany("INSERT INTO t(body) VALUES(?)", [("x" * 10,), ("x" * 11,)])
    found = documents(SqliteTableSource("s", connection, table="t"))
    assert isinstance(found["1"], RawDocument)
    refusal = found["2"]
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.detail) == (
        RefusalReason.TOO_LARGE,
        "the row has 11 characters, more than 10",
    )


ODD_NAMES = ('a"b', "a'b", "a b", "a;b", "ä", "select", "x) --", "]", "`", "a\nb", "%s", ":p", "?")


@pytest.mark.req("A-4")
@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_are_taken_as_names_whatever_their_characters(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    connection = database(
        f"CREATE TABLE {quoted}({quoted} TEXT PRIMARY KEY, body TEXT)",
        f"INSERT INTO {quoted} VALUES('k', 'x')",
    )
    source = SqliteTableSource("s", connection, table=name, path=name, metadata=name)
    assert texts(source) == {"k": "x"}
    assert isinstance(source.read(ref("k")), RawDocument)
    connection.execute(f"DELETE FROM {quoted}")
    assert isinstance(source.read(ref("other")), Refusal)


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    "name",
    ['note" UNION SELECT 1 --', "note; DROP TABLE note", "main.note", "(SELECT 1)", "missing"],
)
def test_a_name_that_is_sql_is_only_a_name_that_is_not_there(name: str) -> None:
    connection = database(*NOTES)
    with pytest.raises(UsageError, match="there is no table"):
        SqliteTableSource("s", connection, table=name)
    # In double quotes SQLite would take an unknown name for a text.
    for role in ("id", "text", "title", "metadata"):
        with pytest.raises(UsageError, match="table 'note' has no column"):
            SqliteTableSource("s", connection, **{"table": "note", "text": "body", role: name})
    assert connection.execute("SELECT count(*) FROM note").fetchone() == (2,)


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, body FROM note",
        "select id, body from note where body <> ';' -- all of them ) ;",
        "SELECT id, body FROM note;",
        "SELECT id, body FROM note ; -- the end",
        "/* ; ( */ WITH n AS (SELECT id, body FROM note) SELECT * FROM n",
        "VALUES(1, 2)",
        """SELECT id, ')' AS "a)b", [body], `body` AS "it's" FROM note""",
        "SELECT id, body FROM note UNION ALL SELECT 9, 'x' ORDER BY 1",
    ],
)
def test_one_select_is_taken_as_it_is_given(query: str) -> None:
    connection = database(*NOTES)
    key = "column1" if query.startswith("VALUES") else "id"
    source = SqliteTableSource("s", connection, query=query, id=key)
    found = documents(source)
    assert len(found) == len(connection.execute(query).fetchall())
    for document_id, raw in found.items():
        assert source.read(ref(document_id)) == raw


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    "query",
    [
        "",
        "  -- nothing",
        "DELETE FROM note",
        "DROP TABLE note",
        "PRAGMA user_version = 5",
        "ATTACH 'x' AS y",
        "EXPLAIN SELECT 1 AS id",
        "SELECT 1 AS id; DELETE FROM note",
        "SELECT 1 AS id) ; DELETE FROM note; SELECT * FROM (SELECT 1",
        "SELECT 1 AS id) UNION SELECT (2",
        "SELECT (1 AS id",
        "SELECT 'open AS id",
        'SELECT "open AS id',
        "SELECT 1 AS id /* open",
        "SELECT ? AS id",
        "SELECT :x AS id",
        "SELECT @x AS id",
        "SELECT 1 AS id\0",
        "SELECT '\ud800' AS id",
    ],
)
def test_what_is_not_one_select_is_refused_before_anything_runs(query: str) -> None:
    connection = database(*NOTES)
    ran: list[str] = []
    connection.set_trace_callback(ran.append)
    with pytest.raises(UsageError):
        SqliteTableSource("s", connection, query=query, id="id")
    assert ran == []


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    "query",
    [
        "WITH n AS (SELECT 1) DELETE FROM note RETURNING id",
        "WITH n AS (SELECT 1) INSERT INTO note(id) SELECT 5 RETURNING id",
        "SELECT * FROM (DELETE FROM note RETURNING *)",
    ],
)
def test_a_statement_that_writes_is_no_sub_select(query: str) -> None:
    connection = database(*NOTES)
    with pytest.raises(SourceError, match="syntax error"):
        SqliteTableSource("s", connection, query=query, id="id")
    assert connection.execute("SELECT count(*) FROM note").fetchone() == (2,)


@pytest.mark.req("A-4")
def test_a_query_computes_each_expression_once_and_keeps_its_order() -> None:
    connection = database(*NOTES)
    calls: list[object] = []

    def seen(value: object) -> str:
        calls.append(value)
        return str(value)

    connection.create_function("seen", 1, seen)
    query = "SELECT id, seen(id) AS body FROM note ORDER BY id DESC"
    source = SqliteTableSource("s", connection, query=query, id="id")
    assert list(texts(source)) == ["7", "-3"]
    assert calls == [7, -3]


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    "fields",
    [{}, {"table": "note", "query": "SELECT 1"}, {"query": "SELECT 1 AS id"}, {"table": ""}],
)
def test_a_selection_that_says_too_little_or_too_much_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        SqliteTableSource("s", database(*NOTES), **fields)


@pytest.mark.req("A-4", "A-14")
def test_a_changed_schema_is_an_error_that_names_column_and_table() -> None:
    connection = database(*NOTES)
    source = SqliteTableSource("s", connection, table="note", text="body", title="head")
    connection.execute("ALTER TABLE note RENAME COLUMN head TO heading")
    with pytest.raises(SourceError, match=r"'s'.*table 'note' has no column 'head'"):
        list(source.list())
    connection.execute("DROP TABLE note")
    with pytest.raises(SourceError, match=r"'s'.*no table 'note'"):
        list(source.list())


@pytest.mark.req("A-4", "A-14")
def test_an_error_of_the_database_is_a_source_error_with_its_cause() -> None:
    connection = database(*NOTES)
    source = SqliteTableSource("s", connection, table="note")
    connection.close()
    with pytest.raises(SourceError, match=r"'s'.*table 'note'.*closed database") as error:
        list(source.list())
    assert isinstance(error.value.__cause__, sqlite3.ProgrammingError)


def _plain(module: Any, path: Path) -> Any:
    return module.connect(str(path))


def _with_rows(module: Any, path: Path) -> Any:
    connection = module.connect(str(path))
    connection.row_factory = module.Row
    return connection


def _with_dicts(module: Any, path: Path) -> Any:
    connection = module.connect(str(path), detect_types=module.PARSE_DECLTYPES)
    connection.row_factory = lambda cursor, row: dict(
        zip([c[0] for c in cursor.description], row, strict=True)
    )
    return connection


def _with_bytes(module: Any, path: Path) -> Any:
    connection = module.connect(str(path))
    connection.text_factory = bytes
    return connection


def _apsw(module: Any, path: Path) -> Any:
    return module.Connection(str(path))


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    ("driver", "connect"),
    [
        ("sqlite3", _plain),
        ("sqlite3", _with_rows),
        ("sqlite3", _with_dicts),
        ("sqlite3", _with_bytes),
        ("pysqlite3", _plain),
        ("apsw", _apsw),
    ],
)
def test_any_driver_and_any_factory_gives_the_same_documents(
    driver: str, connect: Callable[[Any, Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "host.db"
    maker = sqlite3.connect(path)
    for statement in NOTES:
        maker.execute(statement)
    maker.execute("CREATE TABLE typed(id INTEGER PRIMARY KEY, body TEXT, at timestamp)")
    maker.execute("INSERT INTO typed VALUES(1, 'x', 'no timestamp')")
    maker.commit()
    maker.close()
    connection = connect(pytest.importorskip(driver), path)
    expected = {"-3": "", "7": "Pumpe\n\nläuft heiß"}
    by_table = SqliteTableSource("s", connection, table="note", text=("head", "body"))
    assert texts(by_table) == expected
    assert isinstance(by_table.read(ref("7")), RawDocument)
    query = "SELECT id, head, body FROM note"
    named = ("head", "body")
    assert texts(SqliteTableSource("s", connection, query=query, id="id", text=named)) == expected
    with pytest.raises((UsageError, SourceError), match="nope"):
        SqliteTableSource("s", connection, query=query, id="id", text="nope")
    typed = documents(SqliteTableSource("s", connection, table="typed", date="at"))["1"]
    assert isinstance(typed, RawDocument)
    assert typed.date == "no timestamp"
    connection.close()


@pytest.mark.req("A-4")
def test_a_listing_is_one_snapshot_while_the_host_writes_on_another_connection(
    tmp_path: Path,
) -> None:
    path = tmp_path / "host.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT)")
    writer.executemany("INSERT INTO t VALUES(?, 'old')", [(number,) for number in range(5_000)])
    reader = sqlite3.connect(path)
    source = SqliteTableSource("s", reader, table="t")
    found = []
    for number, entry in enumerate(source.list()):
        assert isinstance(entry, DocumentRef)
        raw = source.read(entry)
        assert isinstance(raw, RawDocument)
        found.append(raw.data)
        if number % 1_000 == 0:
            writer.execute("UPDATE t SET body = 'new'")
            writer.execute("DELETE FROM t WHERE id > 2500")
            writer.execute("INSERT INTO t(body) VALUES('new')")
    assert found == [b"old"] * 5_000
    assert not reader.in_transaction
    assert set(texts(source).values()) == {"new"}


@pytest.mark.req("A-4")
def test_a_listing_left_half_way_holds_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    writer = sqlite3.connect(path, isolation_level=None, timeout=0)
    writer.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT)")
    writer.executemany("INSERT INTO t VALUES(?, 'x')", [(number,) for number in range(5_000)])
    source = SqliteTableSource("s", sqlite3.connect(path), table="t")
    listing = source.list()
    next(listing)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        writer.execute("DELETE FROM t")
    del listing
    writer.execute("DELETE FROM t")
    assert list(source.list()) == []


@pytest.mark.req("A-4")
def test_the_rows_of_a_large_table_are_not_held() -> None:
    connection = database("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT)")
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
        " INSERT INTO t SELECT i, printf('%.1000c', 'x') FROM n"
    )
    source = SqliteTableSource("s", connection, table="t")
    tracemalloc.start()
    try:
        read = sum(len(_read(source, entry).data) for entry in source.list())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read == 100_000 * 1_000
    assert peak < 1_000_000


def _read(source: SqliteTableSource, entry: DocumentRef | Refusal) -> RawDocument:
    assert isinstance(entry, DocumentRef)
    raw = source.read(entry)
    assert isinstance(raw, RawDocument)
    return raw
