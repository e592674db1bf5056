"""Tables of other databases in an index: registered, refreshed, shown, removed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sqlindex import CancelToken, Document, Filters, Index, SqliteTableSource
from sqlindex.errors import (
    CancelledError,
    DocumentRefusedError,
    DuplicateError,
    SourceError,
    UsageError,
)
from sqlindex.testing import HashingEmbedder
from tests.faults import sqlindex

sqlite3 = pytest.importorskip("sqlite3")

needs_proc = pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="looks for children in /proc"
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A database of a shop, in write-ahead mode."""
    path = tmp_path / "the shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(
            "CREATE TABLE article(id INTEGER PRIMARY KEY, name TEXT, about TEXT, added TEXT,"
            " tags TEXT, price REAL, link TEXT)"
        )
        connection.executemany(
            "INSERT INTO article VALUES(?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    1,
                    "Pump",
                    "# Pump\n\nThe pump runs at low pressure.",
                    "2026-01-10",
                    "a,b",
                    9.5,
                    None,
                ),
                (2, "Valve", "A valve closes the pump.", "2026-03-20", '["b"]', 2, "app:2"),
                (3, "Empty", None, None, None, None, None),
            ],
        )
    connection.close()
    return path


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


COLUMNS: dict[str, Any] = {
    "table": "article",
    "text": "about",
    "title": "name",
    "date": "added",
    "tags": "tags",
    "metadata": ("price",),
    "uri": "link",
    "type_name": "md",
}


def add_file(index: Index, shop: Path) -> str:
    return index.add_table(shop, **COLUMNS)


def add_connection(index: Index, shop: Path) -> str:
    connection = sqlite3.connect(shop)
    return index.add_source(SqliteTableSource("article", connection, **COLUMNS))


@pytest.mark.req("A-4", "A-14", "A-20")
@pytest.mark.parametrize("add", [add_file, add_connection])
def test_a_refresh_follows_the_rows_and_does_nothing_when_they_are_the_same(
    add: Callable[[Index, Path], str], tmp_path: Path, shop: Path
) -> None:
    embedder = HashingEmbedder()
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        assert add(index, shop) == "article"
        report = index.refresh()
        assert (report.changes.count("added"), report.embedded) == (3, 2)
        report = index.refresh()
        assert (report.is_published, report.embedded, report.changes.unchanged) == (False, 0, 3)
        change(
            shop,
            "UPDATE article SET about = 'The zebra valve.' WHERE id = 2",
            "DELETE FROM article WHERE id = 3",
            "INSERT INTO article(id, about) VALUES(-4, 'A new hose.')",
        )
        assert index.plan().embedding_inputs == 2
        report = index.refresh()
        assert report.embedded == 2
        assert {(c.kind, c.document_id) for c in report.changes.documents} == {
            ("changed", "2"),
            ("removed", "3"),
            ("added", "-4"),
        }
        assert [hit.document_id for hit in index.search("zebra", mode="lexical").hits] == ["2"]
        # Only what is said of the text differs: nothing is embedded again.
        change(shop, "UPDATE article SET price = 100, added = '2026-04-01' WHERE id = 1")
        report = index.refresh()
        assert (report.is_published, report.embedded) == (True, 0)
        for filters in (Filters(metadata={"price": 100.0}), Filters(date_from="2026-04-01")):
            assert [h.document_id for h in index.search("pump", filters=filters).hits] == ["1"]
        assert index.check() == []


@pytest.mark.req("A-4", "A-5")
def test_a_registered_table_is_kept_in_the_index(tmp_path: Path, shop: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True) as index:
        add_file(index, shop)
    with Index.open(tmp_path / "i.db") as index:
        index.refresh()
        (status,) = index.status().sources
        assert (status.kind, status.root, status.selection) == ("table", str(shop), "article")
        assert status.where == f"{shop}: article"
        document = index.get("1")
        assert (document.title, document.date, document.tags) == ("Pump", "2026-01-10", ("a", "b"))
        assert document.metadata == {"price": 9.5}
        assert document.headings
        assert index.unreachable() == {}


@pytest.mark.req("A-5")
def test_an_origin_is_the_uri_column_or_the_file_with_table_and_id(
    tmp_path: Path, shop: Path
) -> None:
    change(shop, 'CREATE TABLE "a/b ?#"(k TEXT PRIMARY KEY, body TEXT)')
    change(shop, """INSERT INTO "a/b ?#" VALUES('ü #1/2', 'wolf')""")
    with Index.open(tmp_path / "i.db", create=True) as index:
        add_file(index, shop)
        index.add_table(shop, table="a/b ?#")
        index.add_table(shop, name="q", query="SELECT id, name FROM article", id="id")
        index.refresh()
        base = f"file://{str(shop).replace(' ', '%20')}"
        assert index.get("2", source="article").uri == "app:2"
        assert index.get("1", source="article").uri == f"{base}?table=article#1"
        assert index.get("1", source="q").uri == f"{base}#1"
        assert index.search("wolf").hits[0].uri == f"{base}?table=a%2Fb%20%3F%23#%C3%BC%20%231%2F2"


@pytest.mark.req("A-4")
def test_registration_refuses_what_could_not_be_listed(tmp_path: Path, shop: Path) -> None:
    path = tmp_path / "i.db"
    with Index.open(path, create=True) as index:
        link, hard_link = tmp_path / "link.db", tmp_path / "hard.db"
        link.symlink_to(path)
        os.link(path, hard_link)
        for own in (path, link, hard_link):
            with pytest.raises(UsageError, match="is this index"):
                index.add_table(own, table="chunk", id="ord", text="parse_id")
        for wrong, message in (
            ({"table": "nope"}, "no table 'nope'"),
            ({"table": "article", "text": "nope"}, "no column 'nope'"),
            ({"query": "SELECT id FROM article"}, "need an id"),
            ({"query": "DELETE FROM article", "id": "id"}, "not one SELECT"),
            ({"query": "SELECT nope FROM article", "id": "id"}, "no such column"),
            ({"table": "article", "name": ""}, "name is empty"),
        ):
            with pytest.raises(UsageError, match=message):
                index.add_table(shop, **wrong)
        with pytest.raises(UsageError, match="does not exist"):
            index.add_table(tmp_path / "no.db", table="article")
        (tmp_path / "text.db").write_text("no database" * 100)
        with pytest.raises(SourceError, match="is not an SQLite database"):
            index.add_table(tmp_path / "text.db", table="article")
        assert index.status().sources == ()


@pytest.mark.req("A-4")
def test_a_database_may_have_several_sources_but_not_one_twice(tmp_path: Path, shop: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True) as index:
        assert add_file(index, shop) == "article"
        with pytest.raises(DuplicateError, match="registered already as source 'article'"):
            add_file(index, shop)
        assert index.add_table(shop, table="article", text="name") == "article-2"
        assert index.add_table(shop, query="SELECT 1 AS k, 'x' AS b", id="k") == "the shop.db"
        with pytest.raises(DuplicateError, match="source named 'article'"):
            index.add_table(shop, table="article", text="tags", name="article")
        with pytest.raises(UsageError, match="is a table"):
            index.upsert("article", [Document("1", "x")])
        with pytest.raises(DuplicateError, match="is a table"):
            index.add_source(SqliteTableSource("article", sqlite3.connect(shop), **COLUMNS))
        index.refresh()
        assert index.status().documents == 7
        assert index.remove_source("article").changes.count("removed") == 3


@pytest.mark.req("A-4", "A-14")
@pytest.mark.parametrize("add", [add_file, add_connection])
def test_a_database_that_cannot_be_read_costs_nothing_that_is_indexed(
    add: Callable[[Index, Path], str], tmp_path: Path, shop: Path
) -> None:
    with Index.open(tmp_path / "i.db", create=True) as index:
        add(index, shop)
        index.refresh()
        before = index.status()
        change(shop, "ALTER TABLE article RENAME COLUMN about TO info")
        with pytest.raises(SourceError, match="table 'article' has no column 'about'"):
            index.refresh()
        change(shop, "DROP TABLE article")
        with pytest.raises(SourceError, match="no table 'article'"):
            index.refresh()
        with pytest.raises(SourceError, match="no table 'article'"):
            index.plan()
        assert index.status().documents == before.documents
        assert index.check() == []


@pytest.mark.req("A-14")
def test_the_same_id_twice_is_an_error_and_a_row_without_id_is_refused(
    tmp_path: Path, shop: Path
) -> None:
    change(shop, "CREATE TABLE t(k, body TEXT)", "INSERT INTO t VALUES('7', 'a'), (NULL, 'b')")
    with Index.open(tmp_path / "i.db", create=True) as index:
        index.add_table(shop, table="t", id="k")
        index.refresh()
        (refused,) = index.refused()
        assert (refused.refusal.document_id, refused.refusal.reason.value) == ("row 2", "id")
        with pytest.raises(DocumentRefusedError, match="row 2: id: its id is NULL"):
            index.refresh(strict=True)
        change(shop, "INSERT INTO t VALUES(7, 'c')")
        with pytest.raises(SourceError, match="lists document '7' twice"):
            index.refresh()
        assert index.get("7").text == "a"


def children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread has ended meanwhile
            found.update(int(pid) for pid in (task / "children").read_text().split())
    return found


@pytest.mark.req("A-4", "A-14")
@needs_proc
@pytest.mark.parametrize("how", ["kill", "cancel"])
def test_a_reader_killed_or_cancelled_half_way_leaves_the_last_generation(
    how: str, tmp_path: Path, shop: Path
) -> None:
    before = children()
    with Index.open(tmp_path / "i.db", create=True) as index:
        add_file(index, shop)
        index.refresh()
        change(
            shop,
            "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
            " INSERT INTO article(id, about) SELECT i, printf('wolf %.400c', 'x') FROM n",
        )
        token = CancelToken()

        def stop(progress: object) -> None:
            for child in children() - before:
                if how == "kill":
                    os.kill(child, signal.SIGKILL)
                else:
                    token.cancel()

        expected = SourceError if how == "kill" else CancelledError
        with pytest.raises(expected, match="signal 9" if how == "kill" else None):
            index.refresh(cancel=token, progress=stop)
        assert children() == before
        assert (index.status().generation, index.status().documents) == (1, 3)
        assert index.search("wolf").hits == ()
        assert index.check() == []
        assert index.refresh().changes.count("added") == 19_991


@pytest.mark.req("A-4")
def test_a_table_on_the_command_line(tmp_path: Path, shop: Path) -> None:
    db = tmp_path / "i.db"
    assert sqlindex("init", "--db", db).code == 0
    words: list[str | Path] = [
        "source",
        "add-table",
        shop,
        "--table",
        "article",
        "--text",
        "about",
        "--type",
        "md",
    ]
    words += ["--title", "name", "--date", "added", "--tags", "tags", "--metadata", "price"]
    added = sqlindex(*words, "--db", db)
    assert (added.code, added.err) == (0, "source article; next: sqlindex refresh\n")
    query = ["--query", "SELECT id, name FROM article", "--id", "id", "--name", "names"]
    added = sqlindex("source", "add-table", shop, *query, "--db", db, "--json")
    assert added.json["source"] == "names"
    assert sqlindex("refresh", "--db", db).code == 0
    listed = sqlindex("source", "list", "--db", db)
    assert listed.out == (
        f"article\t{shop}: article\t3 documents\n"
        f"names\t{shop}: (SELECT id, name FROM article)\t3 documents\n"
    )
    status = sqlindex("status", "--db", db)
    assert f"source      article: 3 documents from {shop}: article\n" in status.out
    found = sqlindex("search", "pressure", "--db", db, "--json")
    (hit,) = found.json["hits"]
    assert (hit["title"], hit["heading_path"]) == ("Pump", ["Pump"])
    doctor = sqlindex("doctor", "--db", db)
    assert f"ok    database     {shop}: article: can be read\n" in doctor.out
    shop.rename(shop.with_suffix(".gone"))
    doctor = sqlindex("doctor", "--db", db)
    assert doctor.code == 0
    assert "note  database" in doctor.out
    assert "cannot be opened: No such file" in doctor.out
    refreshed = sqlindex("refresh", "--db", db)
    assert refreshed.code == 1
    assert f"database {shop} cannot be opened" in refreshed.err
    removed = sqlindex("source", "rm", "names", "--db", db)
    assert removed.err == "removed source names with 3 documents\n"


@pytest.mark.req("A-4")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--table", "x; DROP TABLE article"], 2, "there is no table 'x; DROP TABLE article'"),
        (["--table", "article", "--text", 'a" FROM x'], 2, "has no column"),
        (["--query", "SELECT 1 AS id; SELECT 2", "--id", "id"], 2, "not one SELECT"),
        ([], 2, "name either a table or a query"),
    ],
)
def test_a_wrong_table_on_the_command_line_is_a_usage_error(
    words: list[str], code: int, message: str, tmp_path: Path, shop: Path
) -> None:
    db = tmp_path / "i.db"
    assert sqlindex("init", "--db", db).code == 0
    result = sqlindex("source", "add-table", shop, *words, "--db", db, "--json")
    assert result.code == code
    error = json.loads(result.out)["error"]
    assert (error["code"], message in error["message"]) == ("usage", True)


@pytest.mark.req("A-4", "A-5")
def test_a_database_that_was_moved_keeps_its_documents(tmp_path: Path, shop: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True) as index:
        name = add_file(index, shop)
        index.refresh()
        moved = tmp_path / "moved.db"
        shop.rename(moved)
        with pytest.raises(UsageError):
            index.move_source(name, shop)
        index.move_source(name, moved)
        report = index.refresh()
        assert (list(report.changes.documents), report.is_published) == ([], False)
        (tmp_path / "other.db").write_bytes(b"no database")
        with pytest.raises(SourceError):
            index.move_source(name, tmp_path / "other.db")
        copy = tmp_path / "copy.db"
        copy.write_bytes(moved.read_bytes())
        second = add_file(index, copy)
        with pytest.raises(DuplicateError, match=name):
            index.move_source(second, moved)
