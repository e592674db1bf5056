"""What a repair does about rows that nothing owns and about the lists of what is unused."""

from __future__ import annotations

from collections.abc import Iterator

from sqlindex.store.driver import Connection
from sqlindex.store.invariants import NO_MOMENT, STRAY_PIECES

# Rows that nothing owns or that say nothing: (what they are, the statement that takes them out).
_LITTER = (
    ("rows of no parse", "DELETE FROM section WHERE parse_id NOT IN (SELECT parse_id FROM parse)"),
    ("rows of no parse", "DELETE FROM chunk WHERE parse_id NOT IN (SELECT parse_id FROM parse)"),
    ("rows of no parse", "DELETE FROM link WHERE parse_id NOT IN (SELECT parse_id FROM parse)"),
    (
        "texts of no parse",
        "DELETE FROM content WHERE content_id NOT IN (SELECT content_id FROM parse)",
    ),
    ("pieces of no text", f"DELETE FROM content_piece WHERE piece_id IN ({STRAY_PIECES})"),
    (
        "names of no version",
        "DELETE FROM document_name WHERE version_id NOT IN (SELECT version_id FROM document_version)",
    ),
    (
        "removals of no build",
        "DELETE FROM build_removes WHERE build_id NOT IN (SELECT build_id FROM build)",
    ),
    (
        "refusals of no build",
        "DELETE FROM gated_refusal WHERE build_id NOT IN (SELECT build_id FROM build)",
    ),
)
_LISTS = (
    (
        "the list of unused parses",
        """INSERT OR IGNORE INTO unused_parse SELECT parse_id FROM parse
           WHERE parse_id NOT IN (SELECT parse_id FROM document_version)""",
    ),
    (
        "the list of unused parses",
        "DELETE FROM unused_parse WHERE parse_id NOT IN (SELECT parse_id FROM parse)",
    ),
    (
        "the list of unused texts",
        f"""DELETE FROM unused_text WHERE text_id NOT IN (SELECT text_id FROM embedding_text) OR since {NO_MOMENT}""",
    ),
    (
        "the list of unused texts",
        """INSERT OR IGNORE INTO unused_text SELECT text_id, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
           FROM embedding_text t WHERE NOT EXISTS (SELECT 1 FROM chunk c WHERE c.text_id = t.text_id)""",
    ),
    (
        "the list of unused spaces",
        f"DELETE FROM unused_space WHERE space_id NOT IN (SELECT space_id FROM vector_space) OR since {NO_MOMENT}",
    ),
)


def mend_lists(connection: Connection) -> Iterator[tuple[str, str]]:
    """Delete rows that nothing owns, and list anew what is unused: (what, outcome) each."""
    for outcome, statements in (("dropped", _LITTER), ("rebuilt", _LISTS)):
        changed: dict[str, int] = {}
        for what, statement in statements:
            changed[what] = changed.get(what, 0) + connection.execute(statement).rowcount
        for what, rows in changed.items():
            if rows:
                yield f"{what} ({rows} rows)", outcome
