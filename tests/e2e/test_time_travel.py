"""History, tags, diffs and pages on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex import Index
from tests.faults import assert_told, sqlindex


@pytest.fixture
def db(tmp_path: Path, folder: Path) -> Path:
    """Three generations of a folder: filled; edited and renamed; one file removed."""
    path = tmp_path / "index.db"
    with Index.open(path, create=True) as index:
        index.add_source(folder)
        for name in ("a", "b", "c"):
            (folder / f"{name}.md").write_text(
                f"# Note {name}\n\nThe pump runs.\n", encoding="utf-8"
            )
        index.refresh()
        (folder / "a.md").write_text("# Note a\n\nThe valve is shut.\n", encoding="utf-8")
        (folder / "b.md").rename(folder / "bb.md")
        index.refresh()
        (folder / "c.md").unlink()
        index.refresh()
    return path


@pytest.mark.req("D-2")
def test_history_tags_and_what_was_there_are_shown(db: Path) -> None:
    assert sqlindex("tag", "before", "1", "--db", db).err == "tag before names generation 1\n"
    history = sqlindex("history", "--db", db)
    lines = [line.split() for line in history.out.splitlines()]
    assert [line[0] for line in lines] == ["3", "2", "1", "0"]
    assert "1 changed, 1 renamed" in history.out
    assert history.out.splitlines()[2].endswith("3 added  (lexical only, tag before)")
    generations = sqlindex("history", "-n", "2", "--json", "--db", db).json["generations"]
    assert [(g["number"], g["is_head"], g["tags"]) for g in generations] == [
        (3, True, []),
        (2, False, []),
    ]
    assert sqlindex("tag", "--db", db).out == "     1  before\n"
    assert sqlindex("tag", "--json", "--db", db).json["tags"] == {"before": 1}
    assert sqlindex("get", "a.md", "--at", "before", "--db", db).out.endswith("The pump runs.\n")
    assert sqlindex("get", "c.md", "--at", "head~1", "--db", db).code == 0
    assert sqlindex("documents", "--at", "2", "--db", db).out.splitlines() == [
        "documents\ta.md\t1\tNote a",
        "documents\tbb.md\t1\tNote b",
        "documents\tc.md\t1\tNote c",
    ]
    listed = sqlindex("documents", "--json", "--db", db).json
    assert listed["schema"] == 1
    assert [d["document_id"] for d in listed["documents"]] == ["a.md", "bb.md"]
    assert sqlindex("tag", "before", "--delete", "--json", "--db", db).json == {
        "schema": 1,
        "tag": "before",
        "generation": 1,
        "is_deleted": True,
    }


@pytest.mark.req("D-2")
def test_a_file_that_is_gone_is_found_by_its_path_at_a_generation(db: Path, folder: Path) -> None:
    gone = folder / "c.md"
    assert sqlindex("get", gone, "--at", "2", "--db", db).out.startswith("# Note c")
    assert sqlindex("chunks", gone, "--at", "2", "--db", db).code == 0
    assert_told(sqlindex("get", gone, "--at", "3", "--db", db), 3, "generation 3 has no document")


@pytest.mark.req("D-2")
def test_a_diff_is_readable_and_complete(db: Path) -> None:
    shown = sqlindex("diff", "1", "--db", db)
    assert shown.out.splitlines() == [
        "changed\tdocuments\ta.md\tchunks +1 −1",
        "renamed\tdocuments\tbb.md (was b.md)\tchunks =1",
        "removed\tdocuments\tc.md\tchunks −1",
    ]
    assert shown.err.endswith(": 1 changed, 1 renamed, 1 removed\n")
    found = sqlindex("diff", "1", "2", "--json", "--db", db).json
    assert found["counts"] == {"changed": 1, "renamed": 1}
    assert (found["old"]["number"], found["new"]["number"]) == (1, 2)
    assert sqlindex("diff", "2", "2", "--db", db).err.endswith("the same documents\n")
    ranked = sqlindex("diff", "3", "3", "--query", "valve", "--mode", "lexical", "--db", db)
    assert ranked.code == 0
    assert "   1    1" in ranked.out


@pytest.mark.req("A-24", "D-2")
def test_what_cannot_be_answered_is_told_with_a_hint(db: Path) -> None:
    assert_told(sqlindex("search", "pump", "--at", "1", "--db", db), 2, "has no vectors")
    assert_told(sqlindex("search", "pump", "--at", "77", "--db", db), 3, "kept: 0–3")
    assert_told(sqlindex("diff", "nightly", "--db", db), 3, "there is no generation 'nightly'")
    assert_told(sqlindex("tag", "2026-11-30", "--db", db), 2, "looks like a date")
    assert_told(sqlindex("tag", "none", "--delete", "--db", db), 3, "tags: none")
    assert_told(sqlindex("search", "pump", "--cursor", "-abc", "--db", db), 2, "the cursor is none")
    assert sqlindex("gc", "--keep", "1", "--db", db).code == 0
    assert_told(
        sqlindex("get", "a.md", "--at", "1", "--db", db), 1, "generation 1 has been collected"
    )
    error = sqlindex("search", "pump", "--at", "1", "--json", "--db", db).json["error"]
    assert (error["code"], error["retryable"]) == ("generation_gone", False)
    listed = sqlindex("history", "--all", "--db", db).out
    assert listed.count("collected") == 3


@pytest.mark.req("A-24", "D-2")
def test_the_next_page_comes_by_the_cursor_until_the_head_moves(db: Path, folder: Path) -> None:
    first = sqlindex("search", "note", "-n", "1", "--json", "--db", db).json
    assert first["has_more"]
    words = ("search", "note", "-n", "1", "--cursor", first["cursor"], "--db", db)
    second = sqlindex(*words, "--json").json
    assert (second["cursor"], second["generation"]) == (None, 3)
    hits = [page["hits"][0]["document_id"] for page in (first, second)]
    assert sorted(hits) == ["a.md", "bb.md"]
    (folder / "new.md").write_text("# Note new\n", encoding="utf-8")
    assert sqlindex("refresh", "--db", db).code == 0
    assert_told(sqlindex(*words), 1, "generation 3 no longer answers", "start again")
