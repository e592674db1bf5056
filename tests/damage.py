"""Ways to damage an index file, each a list of statements that go past every rule of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlindex import Index
from sqlindex.store.driver import connect
from sqlindex.store.expected_schema import expected_objects
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.testing import HashingEmbedder


@dataclass(frozen=True, slots=True)
class Damage:
    """One fault.

    Attributes:
        name: for the test's id.
        statements: make it.
        finding: a part of the name of the invariant that `check` must report; `schema` if the
            file is not even opened.
        passes_index: an index that is not told, so that it disagrees with its table.
        before: statements that it is told.
    """

    name: str
    statements: Sequence[str]
    finding: str
    passes_index: str = ""
    before: Sequence[str] = ()


def inflict(db: Path, damage: Damage) -> None:
    """Damage an index that no process has open."""
    connection = connect(db, "rw", is_repair=True)
    try:
        objects = expected_objects(SCHEMA_VERSION).values()
        triggers = [(name, sql) for kind, name, _, sql in objects if kind == "trigger"]
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        connection.execute("PRAGMA ignore_check_constraints=ON")
        for statement in damage.before:
            connection.execute(statement)
        if damage.passes_index:
            hidden = connection.execute(
                "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE name = ?",
                (damage.passes_index,),
            ).fetchone()
            connection.execute("PRAGMA writable_schema=ON")
            connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (damage.passes_index,))
            connection.execute("PRAGMA writable_schema=RESET")
        for statement in damage.statements:
            connection.execute(statement)
        if damage.passes_index:
            connection.execute("PRAGMA writable_schema=ON")
            connection.execute("INSERT INTO sqlite_schema VALUES(?, ?, ?, ?, ?)", hidden)
            connection.execute("PRAGMA writable_schema=RESET")
        is_schema = any(word in " ".join(damage.statements) for word in ("DROP TRIGGER",))
        for _, sql in () if is_schema else triggers:
            connection.execute(sql)
    finally:
        connection.close()


DERIVED = (
    Damage(
        "lexical table emptied",
        ["INSERT INTO chunk_fts_a(chunk_fts_a) VALUES('delete-all')"],
        "lexical table holds the head's chunks",
    ),
    Damage(
        "lexical pages deleted", ["DELETE FROM chunk_fts_a_data WHERE id > 10"], "lexical table"
    ),
    Damage("lexical index emptied", ["DELETE FROM chunk_fts_a_idx"], "lexical table"),
    Damage("lexical lengths deleted", ["DELETE FROM chunk_fts_a_docsize"], "lexical table"),
    Damage(
        "a lexical length changed",
        [
            "UPDATE chunk_fts_a_docsize SET sz = x'0000000000' WHERE id = (SELECT min(id) FROM chunk_fts_a_docsize)"
        ],
        "lexical table holds its lengths",
    ),
    Damage(
        "lexical totals changed",
        ["UPDATE chunk_fts_a_data SET block = substr(block, 1, 1) || x'0909090909' WHERE id = 1"],
        "lexical table holds its totals",
    ),
    Damage("lexical version deleted", ["DELETE FROM chunk_fts_a_config"], "lexical table"),
    Damage("lexical part dropped", ["DROP TABLE chunk_fts_a_docsize"], "schema"),
    Damage("lexical table dropped", ["DROP TABLE chunk_fts_a"], "schema"),
    Damage("spare lexical table dropped", ["DROP TABLE chunk_fts_b"], "schema"),
    Damage(
        "wrong posting",
        [
            "INSERT INTO chunk_fts_a(chunk_fts_a, rowid, body) VALUES('delete', (SELECT min(id) FROM chunk_fts_a_docsize), 'pump')",
            "INSERT INTO chunk_fts_a(rowid, body) SELECT min(first_slot), 'zebra' FROM document_version WHERE died IS NULL",
        ],
        "lexical table",
    ),
    Damage(
        "lexical setting",
        ["INSERT INTO chunk_fts_a_config VALUES('rank', 'bm25(1.0)')"],
        "schema",
    ),
    Damage(
        "a number of characters",
        ["UPDATE content SET chars = chars + 1 WHERE content_id = 2"],
        "contents count the characters of their texts",
    ),
    Damage("names deleted", ["DELETE FROM document_name"], "versions are found by their names"),
    Damage(
        "a name too many",
        ["INSERT INTO document_name SELECT max(version_id), 'ghost' FROM document_version"],
        "versions are found by their names",
    ),
    Damage(
        "names of no version",
        ["INSERT INTO document_name VALUES(9999, 'ghost')"],
        "names belong to versions",
    ),
    Damage(
        "count of documents",
        ["UPDATE generation SET documents = 77 WHERE generation = 3"],
        "the head's counts",
    ),
    Damage(
        "count of embedded chunks",
        ["UPDATE generation SET embedded_chunks = 77 WHERE generation = 3"],
        "counts of kept generations",
    ),
    Damage(
        "count of an older generation",
        ["UPDATE generation SET chunks = 77 WHERE generation = 2"],
        "counts of kept generations",
    ),
    Damage(
        "build of a generation",
        ["UPDATE generation SET build_id = 77 WHERE generation = 3"],
        "a generation's build bore its versions",
    ),
    Damage("next slot", ["UPDATE head SET next_slot = 1"], "slots lie below the next slot"),
    Damage("head missing", ["DELETE FROM head"], "there is one head"),
    Damage(
        "head moved back", ["UPDATE head SET generation = 2"], "the head names the last generation"
    ),
    Damage(
        "head not kept",
        ["UPDATE generation SET is_kept = 0 WHERE generation = 3"],
        "the head names the last generation",
    ),
    Damage(
        "unused parses not listed",
        [
            "DELETE FROM unused_parse",
            "INSERT INTO parse SELECT 9999, content_id, 'other', language, title, date, tags, aliases, front_matter, chunks, check8 FROM parse LIMIT 1",
        ],
        "listed as unused",
    ),
    Damage(
        "list of what is not there",
        ["INSERT INTO unused_parse VALUES(9999)", "INSERT INTO unused_text VALUES(9999, 'x')"],
        "unused",
    ),
    Damage("index dropped", ["DROP INDEX version_parse"], "schema"),
    Damage(
        "index without its rows",
        ["UPDATE link SET key = 'valve'"],
        "well-formed",
        passes_index="link_key",
        before=["UPDATE link SET key = 'moved'"],
    ),
    Damage("trigger dropped", ["DROP TRIGGER IF EXISTS version_kept"], "schema"),
    Damage(
        "view changed",
        ["DROP VIEW v_document", "CREATE VIEW v_document AS SELECT 1 AS one"],
        "schema",
    ),
    Damage(
        "key changed",
        ["UPDATE embedding_text SET key = zeroblob(32) WHERE text_id = 1"],
        "chunks have the key of their text",
    ),
    Damage(
        "key deleted",
        ["DELETE FROM embedding_text WHERE text_id = 1"],
        "chunks have the key of their text",
    ),
    Damage(
        "chunk with another text",
        ["UPDATE chunk SET text_id = 2 WHERE text_id = 1"],
        "chunks have the key of their text",
    ),
    Damage(
        "width of a space",
        ["UPDATE vector_space SET dimensions = 77"],
        "vectors give their checksum",
    ),
    Damage(
        "text of no parse",
        [
            "INSERT INTO content VALUES(9999, x'00', 4, 9999)",
            "INSERT INTO content_piece VALUES(9999, 'text', x'00')",
        ],
        "every content has a parse",
    ),
    Damage(
        "pieces of no text",
        ["INSERT INTO content_piece VALUES(9999, 'text', x'00')"],
        "every piece has its content",
    ),
    Damage(
        "rows of no parse",
        ["INSERT INTO section VALUES(9999, 0, 0, 1, 0, 0, '[]', 'body')"],
        "have a parse",
    ),
    Damage(
        "vector of no text",
        ["INSERT INTO vector SELECT (1 << 40) | 9999, norm, f32, check8 FROM vector LIMIT 1"],
        "vectors belong to a space",
    ),
    Damage(
        "refusal beside a vector",
        ["INSERT INTO vector_refusal SELECT 1, min(vector_id) & 1099511627775, 'x', 0 FROM vector"],
        "a refused text has no vector",
    ),
    Damage(
        "unknown reason",
        ["INSERT INTO refused_document VALUES(1, 'x.md', 'whim', '', '', 0)"],
        "sources and refusals can be read",
    ),
    Damage(
        "refusal that is no UTF-8",
        ["INSERT INTO refused_document VALUES(1, 'x.md', 'binary', CAST(x'ff' AS TEXT), '', 0)"],
        "UTF-8",
    ),
    Damage(
        "an id that is no UTF-8",
        ["UPDATE file_stat SET document_id = CAST(x'ff' AS TEXT) WHERE document_id = 'old.md'"],
        "UTF-8",
    ),
    Damage(
        "mount points",
        ["UPDATE source SET mount_points = '[' WHERE source_id = 1"],
        "sources and refusals can be read",
    ),
    Damage(
        "tag of a generation that is not there",
        ["INSERT INTO tag VALUES('old', 77, '2026-01-01T00:00:00Z')"],
        "tags name kept generations",
    ),
    Damage("time of a tag", ["UPDATE tag SET tagged_at = 'yesterday'"], "tags say when"),
    Damage(
        "time of a generation",
        ["UPDATE generation SET published_at = 'soon' WHERE generation = 2"],
        "generations say when",
    ),
    Damage(
        "restored generation",
        ["UPDATE generation SET restored = 9 WHERE generation = 2"],
        "generations restore earlier ones",
    ),
    Damage(
        "removal of no build",
        ["INSERT INTO build_removes VALUES(77, 1)"],
        "what ends with a build belongs to an unfinished one",
    ),
    Damage(
        "refusal of no build",
        ["INSERT INTO gated_refusal VALUES(77, 1, 'x.md', NULL, '', '', 0)"],
        "what was refused behind a gate belongs to an unfinished build",
    ),
)
"""What can be made anew or is needed by nothing; the base index has three generations, the last one the head."""

_OF_PUMP = "(SELECT parse_id FROM document_version WHERE document_id = 'pump.md' AND died IS NULL)"
_CONTENT_OF_PUMP = f"(SELECT content_id FROM parse WHERE parse_id = {_OF_PUMP})"
_PIECE_OF_PUMP = f"(SELECT first_piece FROM content WHERE content_id = {_CONTENT_OF_PUMP})"

LOST = (
    Damage(
        "text of another document",
        [
            f"""UPDATE document_version SET parse_id = (
                 SELECT p.parse_id FROM parse p JOIN document_version d USING(parse_id)
                 WHERE d.died IS NULL AND d.document_id <> 'pump.md' AND p.chunks = (
                   SELECT chunks FROM parse WHERE parse_id = {_OF_PUMP}) ORDER BY 1 LIMIT 1)
               WHERE document_id = 'pump.md' AND died IS NULL"""
        ],
        "the text of their bytes",
    ),
    Damage(
        "text",
        [
            f"UPDATE content_piece SET body = 'x' || substr(body, 2) WHERE piece_id = {_PIECE_OF_PUMP}"
        ],
        "texts give their checksum",
    ),
    Damage(
        "text that is no UTF-8",
        [
            f"UPDATE content_piece SET body = CAST(x'ff' || substr(CAST(body AS BLOB), 2) AS TEXT) WHERE piece_id = {_PIECE_OF_PUMP}"
        ],
        "texts give their checksum",
    ),
    Damage(
        "text and its checksum",
        [f"UPDATE content SET digest = zeroblob(32) WHERE content_id = {_CONTENT_OF_PUMP}"],
        "texts give their digest",
    ),
    Damage(
        "length of a text",
        [f"UPDATE content SET chars = chars - 1 WHERE content_id = {_CONTENT_OF_PUMP}"],
        "texts give their digest",
    ),
    Damage(
        "piece",
        [f"DELETE FROM content_piece WHERE piece_id = {_PIECE_OF_PUMP}"],
        "texts give their checksum",
    ),
    Damage(
        "content",
        [f"DELETE FROM content WHERE content_id = {_CONTENT_OF_PUMP}"],
        "every parse has its content",
    ),
    Damage(
        "parse",
        [f"UPDATE parse SET title = 'Other' WHERE parse_id = {_OF_PUMP}"],
        "parses give their checksum",
    ),
    Damage(
        "parse row",
        [f"DELETE FROM parse WHERE parse_id = {_OF_PUMP}"],
        "every version has its parse",
    ),
    Damage(
        "section",
        [f"DELETE FROM section WHERE parse_id = {_OF_PUMP} AND ord = 0"],
        "parses give their checksum",
    ),
    Damage(
        "chunk",
        [f"UPDATE chunk SET start_char = start_char + 1 WHERE parse_id = {_OF_PUMP} AND ord = 0"],
        "parses give their checksum",
    ),
    Damage(
        "chunk row",
        [f"DELETE FROM chunk WHERE parse_id = {_OF_PUMP} AND ord = 1"],
        "parses give their checksum",
    ),
    Damage(
        "version",
        [
            "UPDATE document_version SET title = 'Other' WHERE document_id = 'pump.md' AND died IS NULL"
        ],
        "versions give their checksum",
    ),
    Damage(
        "birth",
        ["UPDATE document_version SET born = 999 WHERE document_id = 'pump.md' AND died IS NULL"],
        "a generation's build bore its versions",
    ),
    Damage(
        "parse of a version",
        [
            "UPDATE document_version SET parse_id = (SELECT parse_id FROM document_version WHERE document_id = 'twin.md') WHERE document_id = 'pump.md' AND died IS NULL"
        ],
        "well-formed",
        passes_index="version_parse",
    ),
    Damage(
        "slot",
        [
            "UPDATE document_version SET first_slot = 4000 WHERE document_id = 'pump.md' AND died IS NULL"
        ],
        "well-formed",
        passes_index="version_slot",
    ),
)
"""What only the file `pump.md`, which the head has, can bring back."""

_VECTOR_OF_PUMP = f"(1 << 40) | (SELECT min(text_id) FROM chunk WHERE parse_id = {_OF_PUMP})"

VECTORS = (
    Damage(
        "bytes of a vector",
        [
            f"UPDATE vector SET f32 = CAST(x'2a' || substr(f32, 2) AS BLOB) WHERE vector_id = {_VECTOR_OF_PUMP}"
        ],
        "vectors give their checksum",
    ),
    Damage(
        "norm of a vector",
        [f"UPDATE vector SET norm = norm + 1e-14 WHERE vector_id = {_VECTOR_OF_PUMP}"],
        "vectors give their checksum",
    ),
    Damage("a vector", [f"DELETE FROM vector WHERE vector_id = {_VECTOR_OF_PUMP}"], "has a vector"),
)
"""One vector of a text that the head has."""

OTHERS = (
    Damage(
        "removed source with documents",
        ["UPDATE source SET is_removed = 1"],
        "removed sources have no live documents",
    ),
    Damage(
        "plan of a build",
        ["INSERT INTO build VALUES(77, 3, 'now', NULL, '', '{', NULL)"],
        "unfinished builds can be read",
    ),
    Damage(
        "what a gate measured",
        ["INSERT INTO build VALUES(77, 3, 'now', NULL, '[]', '{}', '{\"result\": 7}')"],
        "unfinished builds can be read",
    ),
    Damage(
        "question",
        ["UPDATE question SET text = 'low pressur'"],
        "questions give their checksum",
    ),
    Damage(
        "grade",
        ["UPDATE expectation SET grade = 3"],
        "questions give their checksum",
    ),
    Damage(
        "an answer to a question without one",
        ["UPDATE question SET is_answerable = 0"],
        "questions without an answer expect nothing",
    ),
    Damage(
        "question row",
        ["DELETE FROM question"],
        "expectations belong to a question",
    ),
    Damage(
        "an unfinished repair",
        ["INSERT INTO setting VALUES('suspect_versions', '[]')"],
        "no repair is unfinished",
    ),
    Damage(
        "death",
        ["UPDATE document_version SET died = 999 WHERE document_id = 'gone.md'"],
        "versions end in published generations",
    ),
    Damage("source", ["DELETE FROM source"], "every version has its source"),
    Damage(
        "overlapping slots",
        [
            "UPDATE document_version SET first_slot = first_slot - 1 WHERE first_slot = (SELECT min(first_slot + 2) FROM document_version WHERE chunks = 2)"
        ],
        "slots do not overlap",
    ),
    Damage(
        "a staged version of no build",
        ["UPDATE document_version SET born = NULL, died = NULL WHERE document_id = 'gone.md'"],
        "staged versions belong to an unfinished build",
    ),
    Damage(
        "generation",
        ["DELETE FROM generation WHERE generation = 2"],
        "generations are numbered without a gap",
    ),
    Damage(
        "the last generation",
        ["DELETE FROM generation WHERE generation = 3"],
        "the head names the last generation",
    ),
    Damage(
        "space", ["DELETE FROM vector_space"], "generations are searched with a space that is there"
    ),
    Damage("tag", ["UPDATE tag SET generation = 2"], "well-formed", passes_index="tag_generation"),
    Damage(
        "kept",
        ["UPDATE generation SET is_kept = 0 WHERE generation = 1"],
        "tags name kept generations",
    ),
    Damage(
        "a text nobody lists",
        ["INSERT INTO embedding_text VALUES(9999, x'00')"],
        "a text without a chunk is listed as unused",
    ),
    Damage(
        "a list with no time",
        ["INSERT INTO unused_text SELECT min(text_id), 'once' FROM embedding_text"],
        "unused texts and spaces are there",
    ),
    Damage(
        "a page count",
        ["UPDATE parse SET chunks = 9 WHERE parse_id = (SELECT min(parse_id) FROM parse)"],
        "every parse has its chunks",
    ),
)
"""Faults that take more along than one document, or that a repair only ends."""

FILES = {
    "pump.md": "# Pump\n\nThe pump runs at low pressure, see [valve](valve.md).\n\n## Service\n\nGrease the pump.\n",
    "twin.md": "# Twin\n\nA twin of the archive, no water at all.\n\n## Service\n\nLeave it alone.\n",
    "valve.md": "# Valve\n\nA valve closes.\n",
    "old.md": "# Letter\n\nAn archive letter about the valve.\n",
}


def make_base(db: Path, folder: Path) -> None:
    """An index of three generations over a folder, as the damages above expect it."""
    with Index.open(db, create=True, embedder=HashingEmbedder(16)) as index:
        (folder / "gone.md").write_text("# Gone\n\nquartz lamp\n")
        for name, text in FILES.items():
            (folder / name).write_text(text.replace("low", "high"))
        index.add_source(folder)
        index.refresh()
        (folder / "gone.md").unlink()
        index.refresh()
        (folder / "pump.md").write_text(FILES["pump.md"])
        index.refresh()
        index.add_question("low pressure", ["pump.md"])
        assert index.check() == []
    connection = connect(db, "rw")
    connection.execute("INSERT INTO tag VALUES('first', 1, '2026-11-30T12:00:00Z')")
    connection.close()
