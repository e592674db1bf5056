"""A hit is made of rows that still say what was indexed, or it is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlindex import Index
from sqlindex.errors import CorruptIndexError
from sqlindex.sources.memory import Document
from tests.faults import shell_lines

DAMAGES = {
    "title": "UPDATE document_version SET title = 'Pumq'",
    "path": "UPDATE document_version SET path = 'b.md'",
    "uri": "UPDATE document_version SET uri = 'x:'",
    "heading": "UPDATE section SET heading_path = '[\"Pumq\"]'",
    "lines": "UPDATE chunk SET start_line = 2, end_line = 4",
    "occurrence": "UPDATE chunk SET occurrence = 1",
    "context": "UPDATE chunk SET context = 'forged'",
    "language": "UPDATE parse SET language = 'python'",
    "link": "UPDATE link SET target = 'elsewhere.md'",
}


@pytest.mark.req("A-29")
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_row_is_an_error_and_not_a_wrong_hit(name: str, tmp_path: Path) -> None:
    db = tmp_path / "index.db"
    text = "# Pump\n\nThe pump, see [valve](valve.md).\n"
    with Index.open(db, create=True) as index:
        index.upsert("host", [Document("a.md", text, type_name="md")])
    # Versions cannot be changed under the trigger that guards them.
    guard = " ".join(shell_lines(db, "SELECT sql FROM sqlite_schema WHERE name = 'version_frozen'"))
    shell_lines(db, f"DROP TRIGGER version_frozen; {DAMAGES[name]}; {guard};", writes=True)
    with Index.open(db) as index:
        with pytest.raises(CorruptIndexError, match="damaged"):
            index.search("pump")
        with pytest.raises(CorruptIndexError, match="damaged"):
            index.get("a.md")
