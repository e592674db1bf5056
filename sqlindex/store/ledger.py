"""What a walk over sources has found so far, in a private temporary database.

A source can list a million documents, and each can have changed or be refused: SQLite keeps that in
a temporary file of its own and a small cache, so memory stays bounded whatever is listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlindex.errors import StorageError
from sqlindex.model.documents import Refusal, RefusalReason
from sqlindex.store.driver import Connection, Cursor, DatabaseError, Parameters, connect_scratch

_SCHEMA = (
    """CREATE TABLE change(source_id INTEGER, document_id TEXT, kind TEXT, old_id TEXT, raw_digest BLOB,
         PRIMARY KEY(source_id, document_id)) WITHOUT ROWID""",
    """CREATE TABLE removed(source_id INTEGER, document_id TEXT, raw_digest BLOB, version_id INTEGER,
         PRIMARY KEY(source_id, document_id)) WITHOUT ROWID""",
    """CREATE TABLE refused(source_id INTEGER, document_id TEXT, reason TEXT, detail TEXT, hint TEXT,
         is_kept INTEGER, is_news INTEGER, is_left_out INTEGER,
         PRIMARY KEY(source_id, document_id)) WITHOUT ROWID""",
    """CREATE TABLE readmitted(source_id INTEGER, document_id TEXT,
         PRIMARY KEY(source_id, document_id)) WITHOUT ROWID""",
    "CREATE TABLE input(key BLOB PRIMARY KEY, chars INTEGER) WITHOUT ROWID",
)
_CHANGE = "INSERT OR IGNORE INTO change VALUES(?, ?, ?, NULL, ?)"
_KNOWS = """
    SELECT EXISTS (SELECT 1 FROM change WHERE source_id = :source_id AND document_id = :document_id)
      OR EXISTS (SELECT 1 FROM removed WHERE source_id = :source_id AND document_id = :document_id)
"""
_REMOVE = "INSERT INTO removed VALUES(?, ?, ?, ?)"
_REFUSE = "INSERT OR REPLACE INTO refused VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
_FIND_REFUSED = "SELECT reason FROM refused WHERE source_id = ? AND document_id = ?"
_READMIT = "INSERT OR IGNORE INTO readmitted VALUES(?, ?)"
_INPUT = "INSERT OR IGNORE INTO input VALUES(?, ?)"
# Equal bytes are paired as multisets, both sides in order of their ids.
_PAIRS = """
    CREATE TABLE pair AS
    WITH gone AS (SELECT source_id, document_id, raw_digest,
        row_number() OVER (PARTITION BY source_id, raw_digest ORDER BY document_id) AS turn FROM removed),
      new AS (SELECT source_id, document_id, raw_digest,
        row_number() OVER (PARTITION BY source_id, raw_digest ORDER BY document_id) AS turn
        FROM change WHERE kind = 'added')
    SELECT new.source_id, new.document_id, gone.document_id AS old_id
    FROM new JOIN gone USING(source_id, raw_digest, turn)
"""
_RENAME = """
    UPDATE change SET kind = 'renamed', old_id = p.old_id FROM pair p
    WHERE change.source_id = p.source_id AND change.document_id = p.document_id
"""
_RENAMED_AWAY = "CREATE UNIQUE INDEX pair_old ON pair(source_id, old_id)"
_ADD_REMOVED = """
    INSERT INTO change SELECT r.source_id, r.document_id, 'removed', NULL, NULL FROM removed r
    WHERE NOT EXISTS (SELECT 1 FROM pair p WHERE p.source_id = r.source_id AND p.old_id = r.document_id)
"""
_CHANGES = "SELECT kind, document_id, old_id FROM change WHERE source_id = ? ORDER BY document_id"
_COUNTS = "SELECT kind, count(*) FROM change GROUP BY kind"
_ENDED = "SELECT version_id FROM removed ORDER BY version_id"
_REMOVED_IDS = "SELECT source_id, document_id FROM removed"
_REFUSED = """
    SELECT source_id, document_id, reason, detail, hint, is_kept FROM refused
    WHERE source_id = ? AND NOT is_left_out ORDER BY document_id
"""
_COUNT_LEFT_OUT = "SELECT count(*) FROM refused WHERE is_left_out"
_NEWS = """
    SELECT source_id, document_id, reason, detail, hint, is_kept FROM refused WHERE is_news
    ORDER BY source_id, document_id
"""
_READMITTED = "SELECT source_id, document_id FROM readmitted ORDER BY source_id, document_id"


class RefusalRow(NamedTuple):
    """A refused document of one source; `is_kept` if its earlier version is still served."""

    source_id: int
    refusal: Refusal
    is_kept: bool


class Ledger:
    """Changes, refusals and embedding inputs that a plan or refresh has met. Close it at the end."""

    def __init__(self) -> None:
        self._scratch: Connection = connect_scratch()
        self._has_kept = False
        self._has_removals = False
        self._has_news = False
        self._has_readmitted = False
        for statement in _SCHEMA:
            self._run(statement)

    def close(self) -> None:
        """Give the temporary file back."""
        self._scratch.close()

    def _run(self, sql: str, parameters: Parameters = ()) -> Cursor:
        with _translated():
            return self._scratch.execute(sql, parameters)

    # While sources are walked

    def add_change(self, source_id: int, document_id: str, kind: str, raw_digest: bytes) -> bool:
        """Note a document that is `added`, `changed` or `reparsed`; False if it is noted already."""
        row = (source_id, document_id, kind, raw_digest)
        return self._run(_CHANGE, row).rowcount == 1

    def ends(self, source_id: int, document_id: str) -> bool:
        """Whether a document's live version ends: it has changed or is removed."""
        which: Parameters = {"source_id": source_id, "document_id": document_id}
        return bool(self._run(_KNOWS, which).fetchone()[0])

    def add_removal(
        self, source_id: int, document_id: str, raw_digest: bytes, version_id: int
    ) -> None:
        """Note a live version that ends without a successor."""
        self._has_removals = True
        self._run(_REMOVE, (source_id, document_id, raw_digest, version_id))

    def add_refusal(
        self, source_id: int, refusal: Refusal, *, is_kept: bool, is_news: bool
    ) -> None:
        """Note a refused document.

        Args:
            is_kept: whether its earlier version is still served.
            is_news: whether the index does not say just this already.
        """
        self._has_kept |= refusal.reason.keeps_last_version
        self._has_news |= is_news
        row = (
            source_id,
            refusal.document_id,
            refusal.reason.value,
            refusal.detail,
            refusal.hint,
            int(is_kept),
            int(is_news),
            int(refusal.reason.is_left_out),
        )
        self._run(_REFUSE, row)

    def is_refused(self, source_id: int, document_id: str) -> bool:
        """Whether a document of that id was refused."""
        return self._reason(source_id, document_id) is not None

    def keeps(self, source_id: int, document_id: str, *, with_folders: bool) -> bool:
        """Whether an unseen document stays: it cannot be read now, or `with_folders` one above it."""
        if not self._has_kept:
            return False
        ids = [document_id]
        at = document_id.find("/") if with_folders else -1
        while at >= 0:
            ids.append(document_id[: at + 1])
            at = document_id.find("/", at + 1)
        reasons = (self._reason(source_id, id_) for id_ in ids)
        return any(reason is not None and reason.keeps_last_version for reason in reasons)

    def _reason(self, source_id: int, document_id: str) -> RefusalReason | None:
        found = self._run(_FIND_REFUSED, (source_id, document_id)).fetchone()
        return None if found is None else RefusalReason(found[0])

    def readmit(self, source_id: int, document_id: str) -> None:
        """Note a refusal of an earlier refresh that no longer holds."""
        self._has_readmitted = True
        self._run(_READMIT, (source_id, document_id))

    def add_input(self, key: bytes, chars: int) -> None:
        """Note an embedding text that needs a vector; one noted twice counts once."""
        self._run(_INPUT, (key, chars))

    # When all sources have been walked; what is empty costs no statement, in the publish or before

    @property
    def has_removals(self) -> bool:
        """Whether `removed_ids` names any."""
        return self._has_removals

    @property
    def has_news(self) -> bool:
        """Whether `news` names any."""
        return self._has_news

    @property
    def has_readmitted(self) -> bool:
        """Whether `readmitted` names any."""
        return self._has_readmitted

    def match_renames(self) -> None:
        """Turn pairs of an added and a removed document with equal bytes into renames."""
        if not self._has_removals:
            return
        for statement in (_PAIRS, _RENAMED_AWAY, _RENAME, _ADD_REMOVED):
            self._run(statement)

    def counts(self) -> dict[str, int]:
        """How many documents changed in each way."""
        return dict(self._run(_COUNTS).fetchall())

    def inputs(self) -> int:
        """How many embedding texts need a vector."""
        return int(self._run("SELECT count(*) FROM input").fetchone()[0])

    def input_chars(self) -> int:
        """How long they are together, in characters of their chunks."""
        return int(self._run("SELECT coalesce(sum(chars), 0) FROM input").fetchone()[0])

    def changes(self, source_id: int) -> Iterator[tuple[str, str, str | None]]:
        """(kind, document id, old id) of a source's documents, by id."""
        return iter(self._run(_CHANGES, (source_id,)))

    def ended(self) -> Iterator[int]:
        """Version ids that end without a successor."""
        return (row[0] for row in self._run(_ENDED))

    def removed_ids(self) -> Iterator[tuple[int, str]]:
        """(source id, document id) of what `ended` names."""
        return iter(self._run(_REMOVED_IDS))

    def refused(self, source_id: int) -> Iterator[tuple[Refusal, bool]]:
        """A source's refused documents by id, and whether each is kept; not what rules leave out."""
        rows = self._run(_REFUSED, (source_id,))
        return ((row.refusal, row.is_kept) for row in map(_row, rows))

    def count_left_out(self) -> int:
        """How many files and folders are left out by rules of their source."""
        return int(self._run(_COUNT_LEFT_OUT).fetchone()[0])

    def news(self) -> Iterator[RefusalRow]:
        """Refusals that the index does not know yet, or knows otherwise."""
        return map(_row, self._run(_NEWS))

    def readmitted(self) -> Iterator[tuple[int, str]]:
        """(source id, document id) of refusals to forget."""
        return iter(self._run(_READMITTED))


@contextmanager
def _translated() -> Iterator[None]:
    """What goes wrong here is a matter of temporary files, never of the index.

    Raises:
        StorageError: always in place of the driver's error.
    """
    try:
        yield
    except DatabaseError as exc:
        raise StorageError(
            f"SQLite cannot keep temporary data: {exc}",
            hint="free space in the folder for temporary files, or name another one in SQLITE_TMPDIR",
        ) from exc


def _row(values: tuple[int, str, str, str, str, int]) -> RefusalRow:
    source_id, document_id, reason, detail, hint, is_kept = values
    refusal = Refusal(document_id, RefusalReason(reason), detail, hint)
    return RefusalRow(source_id, refusal, bool(is_kept))
