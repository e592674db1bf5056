"""What a repair does about the two lexical tables: the head's is filled anew, the spare one emptied."""

from __future__ import annotations

from sqlindex.cancellation import CancelToken
from sqlindex.store.damage import UNREADABLE, require_damage
from sqlindex.store.generations import fill_table
from sqlindex.store.head import read_head
from sqlindex.store.lexical import LEXICAL_TABLES, Analyse, LexicalTable, recreate_table
from sqlindex.store.writer import Writer

_LIVE_IDS = """
    SELECT version_id FROM document_version WHERE born IS NOT NULL AND died IS NULL ORDER BY version_id
"""
_SWAP = "UPDATE head SET lexical = :lexical WHERE singleton = 1 AND generation = :generation"
_SET_ANALYZER = "UPDATE generation SET analyzer = :analyzer WHERE generation = :generation"
_UNCLAIM = "UPDATE build SET lexical = NULL WHERE lexical = ?"
_INTEGRITY = {
    table: f"INSERT INTO chunk_fts_{table}(chunk_fts_{table}) VALUES('integrity-check')"
    for table in LEXICAL_TABLES
}


def swap_lexical(writer: Writer, analyze: tuple[Analyse, str], cancel: CancelToken) -> None:
    """Make the head's lexical table anew in the spare one and swap them; no content changes.

    Args:
        analyze: the analyser and its fingerprint.
    """
    head = read_head(writer.connection)
    spare: LexicalTable = "a" if head.lexical == "b" else "b"
    with writer.transaction() as connection:
        connection.execute(_UNCLAIM, (spare,))
        recreate_table(connection, spare)
    ids = [row[0] for row in writer.connection.execute(_LIVE_IDS)]
    fill_table(writer, spare, ids, analyze[0], cancel)
    with writer.transaction(durable=True) as connection:
        connection.execute(_SWAP, {"lexical": spare, "generation": head.generation})
        connection.execute(_SET_ANALYZER, {"analyzer": analyze[1], "generation": head.generation})
    renew_spare(writer)


def renew_spare(writer: Writer) -> None:
    """Make the lexical table that is out of use anew, empty, whatever it held."""
    with writer.transaction() as connection:
        spare: LexicalTable = "a" if read_head(connection).lexical == "b" else "b"
        connection.execute(_UNCLAIM, (spare,))
        recreate_table(connection, spare)


def mend_spare(writer: Writer) -> bool:
    """Make the lexical table that is out of use anew if it is damaged; whether it was.

    A repair that was ended behind the swap leaves it as it was found.
    """
    spare: LexicalTable = "a" if read_head(writer.connection).lexical == "b" else "b"
    try:
        with writer.transaction() as connection:
            connection.execute(_INTEGRITY[spare])
    except UNREADABLE as exc:
        require_damage(exc)
        renew_spare(writer)
        return True
    return False
