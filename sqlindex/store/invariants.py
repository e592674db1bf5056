"""What must hold between rows, each as a query that gives one row for each violation."""

from __future__ import annotations

from typing import NamedTuple

SUSPECTS_SETTING = "suspect_versions"
"""Setting that an unfinished repair leaves: ids of versions of which row and index disagreed."""


class Invariant(NamedTuple):
    """A rule and the query for what breaks it; `is_quick` if it reads only small tables and indexes."""

    name: str
    violations: str
    is_quick: bool = True


NO_MOMENT = (
    "NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]*Z'"
)
"""Condition on a column that holds no UTC time."""
# Numbers of each kept generation as its row says and as its versions give.
GENERATION_COUNTS = """
    WITH parse_embedded AS MATERIALIZED (
      SELECT parse_id, count(text_id) AS embedded FROM chunk GROUP BY parse_id)
    SELECT g.generation, g.documents, g.chunks, g.embedded_chunks,
      count(d.version_id) AS has_documents, coalesce(sum(d.chunks), 0) AS has_chunks,
      coalesce(sum(e.embedded), 0) AS has_embedded
    FROM generation g LEFT JOIN document_version d
        ON d.born IS NOT NULL AND d.born <= g.generation AND (d.died IS NULL OR d.died > g.generation)
      LEFT JOIN parse_embedded e USING(parse_id)
    WHERE g.is_kept GROUP BY g.generation
"""
# Each text with its space that a kept generation needs a vector of.
NEEDED_TEXTS = """
    SELECT DISTINCT s.space_id, c.text_id FROM (
      SELECT DISTINCT g.space_id, d.parse_id FROM generation g JOIN document_version d
        ON d.born IS NOT NULL AND d.born <= g.generation AND (d.died IS NULL OR d.died > g.generation)
      WHERE g.is_kept AND g.space_id IS NOT NULL) s
      JOIN chunk c USING(parse_id)
    WHERE c.text_id IS NOT NULL
"""
MISSING_VECTORS = f"""
    SELECT space_id, text_id FROM ({NEEDED_TEXTS}) n
    WHERE NOT EXISTS (SELECT 1 FROM vector v WHERE v.vector_id = (n.space_id << 40) | n.text_id)
      AND NOT EXISTS (SELECT 1 FROM vector_refusal f WHERE f.space_id = n.space_id AND f.text_id = n.text_id)
"""
STRAY_VECTORS = """
    SELECT vector_id FROM vector
    WHERE vector_id >> 40 NOT IN (SELECT space_id FROM vector_space)
      OR vector_id & 1099511627775 NOT IN (SELECT text_id FROM embedding_text)
"""
STRAY_PIECES = """
    SELECT at AS piece_id FROM (
      SELECT at, is_piece, max(behind) OVER (ORDER BY at, is_piece) AS free FROM (
        SELECT first_piece AS at, 0 AS is_piece, first_piece + (chars + 16383) / 16384 AS behind FROM content
        UNION ALL SELECT piece_id, 1, 0 FROM content_piece))
    WHERE is_piece AND at >= free
"""

# Ids of versions that break a rule which no checksum sees.
VERSION_RULES = {
    "a generation's build bore its versions": """
        SELECT d.version_id FROM document_version d LEFT JOIN generation g ON g.generation = d.born
        WHERE d.born IS NOT NULL AND g.build_id IS NOT d.build_id""",
    "versions end in published generations": """
        SELECT version_id FROM document_version
        WHERE died IS NOT NULL AND (died <= born OR died NOT IN (SELECT generation FROM generation))""",
    "every version has its parse": """
        SELECT version_id FROM document_version d
        WHERE NOT EXISTS (SELECT 1 FROM parse p WHERE p.parse_id = d.parse_id AND p.chunks = d.chunks)""",
    # Bytes in UTF-8 are the text; a byte-order mark or UTF-16 is not.
    "versions have the text of their bytes": """
        SELECT d.version_id FROM document_version d JOIN parse p USING(parse_id) JOIN content t USING(content_id)
        WHERE d.encoding = 'utf-8' AND d.raw_digest <> t.digest""",
    "every version has its source": """
        SELECT version_id FROM document_version d
        WHERE NOT EXISTS (SELECT 1 FROM source s WHERE s.source_id = d.source_id)""",
    "slots do not overlap": """
        SELECT version_id FROM (
          SELECT version_id, first_slot, lag(first_slot + max(chunks, 1)) OVER (ORDER BY first_slot) AS free
          FROM document_version WHERE born IS NOT NULL) WHERE first_slot < free""",
    "staged versions belong to an unfinished build": """
        SELECT version_id FROM document_version
        WHERE born IS NULL AND build_id NOT IN (SELECT build_id FROM build)""",
}

INVARIANTS = (
    *(
        Invariant(name, f"SELECT 'version ' || version_id FROM ({query})")
        for name, query in VERSION_RULES.items()
    ),
    Invariant(
        "removed sources have no live documents",
        """SELECT 'source ' || s.name FROM source s WHERE s.is_removed AND EXISTS (
             SELECT 1 FROM document_version d
             WHERE d.source_id = s.source_id AND d.born IS NOT NULL AND d.died IS NULL)""",
    ),
    Invariant("there is one head", "SELECT 'rows: ' || count(*) FROM head HAVING count(*) <> 1"),
    Invariant(
        "the head names the last generation, which is kept",
        """SELECT 'head names ' || h.generation FROM head h
        WHERE h.generation IS NOT (SELECT max(generation) FROM generation WHERE is_kept)
          OR h.generation IS NOT (SELECT max(generation) FROM generation)""",
    ),
    Invariant(
        "generations are numbered without a gap",
        "SELECT count(*) || ' rows up to ' || max(generation) FROM generation HAVING count(*) <> max(generation) + 1",
    ),
    Invariant(
        "generations say when they were published",
        f"SELECT 'generation ' || generation FROM generation WHERE published_at {NO_MOMENT}",
    ),
    Invariant(
        "generations restore earlier ones",
        """SELECT 'generation ' || generation FROM generation g WHERE restored IS NOT NULL
        AND (restored >= generation OR restored NOT IN (SELECT generation FROM generation))""",
    ),
    Invariant(
        "generations are searched with a space that is there",
        """SELECT 'generation ' || generation FROM generation
        WHERE is_kept AND space_id IS NOT NULL AND space_id NOT IN (SELECT space_id FROM vector_space)""",
    ),
    Invariant(
        "tags name kept generations",
        """SELECT 'tag ' || name || ' names ' || generation FROM tag
        WHERE generation NOT IN (SELECT generation FROM generation WHERE is_kept)""",
    ),
    Invariant(
        "tags say when they were given",
        f"SELECT 'tag ' || name FROM tag WHERE tagged_at {NO_MOMENT}",
    ),
    Invariant(
        "no repair is unfinished",
        f"SELECT 'suspect versions: ' || value FROM setting WHERE name = '{SUSPECTS_SETTING}'",
    ),
    Invariant(
        "what ends with a build belongs to an unfinished one",
        """SELECT 'version ' || version_id || ' in build ' || build_id FROM build_removes
        WHERE build_id NOT IN (SELECT build_id FROM build)""",
    ),
    Invariant(
        "what was refused behind a gate belongs to an unfinished build",
        """SELECT 'document ' || document_id || ' of build ' || build_id FROM gated_refusal
        WHERE build_id NOT IN (SELECT build_id FROM build)""",
    ),
    Invariant(
        "expectations belong to a question",
        """SELECT 'document ' || document_id || ' of question ' || question_id FROM expectation
        WHERE question_id NOT IN (SELECT question_id FROM question)""",
    ),
    Invariant(
        "questions without an answer expect nothing",
        """SELECT 'question ' || question_id FROM question
        WHERE NOT is_answerable AND question_id IN (SELECT question_id FROM expectation)""",
    ),
    Invariant(
        "the head's counts are those of its versions",
        """SELECT 'generation ' || g.generation || ' says ' || g.documents || '/' || g.chunks || ', has ' || n || '/' || c
        FROM head h JOIN generation g USING(generation),
          (SELECT count(*) AS n, coalesce(sum(chunks), 0) AS c FROM document_version
           WHERE born IS NOT NULL AND died IS NULL)
        WHERE g.documents <> n OR g.chunks <> c""",
    ),
    Invariant(
        "the counts of kept generations are those of their rows",
        f"""SELECT 'generation ' || generation || ' says ' || documents || '/' || chunks || '/' || embedded_chunks
          || ', has ' || has_documents || '/' || has_chunks || '/' || has_embedded FROM ({GENERATION_COUNTS})
        WHERE documents <> has_documents OR chunks <> has_chunks OR embedded_chunks <> has_embedded""",
        is_quick=False,
    ),
    Invariant(
        "names belong to versions",
        "SELECT 'names of version ' || version_id FROM (SELECT DISTINCT version_id FROM document_name) "
        "WHERE version_id NOT IN (SELECT version_id FROM document_version)",
        is_quick=False,
    ),
    Invariant(
        "slots lie below the next slot",
        """SELECT 'version ' || version_id FROM document_version
        WHERE born IS NOT NULL AND first_slot + max(chunks, 1) > (SELECT next_slot FROM head)""",
    ),
    Invariant(
        "every parse has its content",
        """SELECT 'parse ' || parse_id FROM parse p
        WHERE NOT EXISTS (SELECT 1 FROM content c WHERE c.content_id = p.content_id)""",
    ),
    Invariant(
        "a parse without a version is listed as unused",
        """SELECT 'parse ' || parse_id FROM parse
        WHERE parse_id NOT IN (SELECT parse_id FROM document_version)
          AND parse_id NOT IN (SELECT parse_id FROM unused_parse)""",
    ),
    Invariant(
        "unused parses are there",
        "SELECT 'parse ' || parse_id FROM unused_parse WHERE parse_id NOT IN (SELECT parse_id FROM parse)",
    ),
    Invariant(
        "unused texts and spaces are there",
        f"""SELECT 'text ' || text_id FROM unused_text
        WHERE text_id NOT IN (SELECT text_id FROM embedding_text) OR since {NO_MOMENT}
        UNION ALL SELECT 'space ' || space_id FROM unused_space
        WHERE space_id NOT IN (SELECT space_id FROM vector_space) OR since {NO_MOMENT}""",
    ),
    Invariant(
        "every content has a parse",
        """SELECT 'content ' || content_id FROM content
        WHERE content_id NOT IN (SELECT content_id FROM parse)""",
    ),
    Invariant(
        "every piece has its content",
        f"SELECT 'piece ' || piece_id FROM ({STRAY_PIECES})",
        is_quick=False,
    ),
    Invariant(
        "every parse has its chunks",
        """SELECT 'parse ' || parse_id FROM parse p
        WHERE chunks <> (SELECT count(*) FROM chunk c WHERE c.parse_id = p.parse_id)""",
        is_quick=False,
    ),
    Invariant(
        "every chunk has its section",
        """SELECT 'chunk ' || c.parse_id || '/' || c.ord FROM chunk c
        WHERE NOT EXISTS (SELECT 1 FROM section x WHERE x.parse_id = c.parse_id AND x.ord = c.section_ord)""",
        is_quick=False,
    ),
    Invariant(
        "chunks, sections and links have a parse",
        """SELECT 'parse ' || parse_id FROM (
          SELECT parse_id FROM chunk UNION SELECT parse_id FROM section UNION SELECT parse_id FROM link)
        WHERE parse_id NOT IN (SELECT parse_id FROM parse)""",
        is_quick=False,
    ),
    Invariant(
        "a text without a chunk is listed as unused",
        """SELECT 'text ' || text_id FROM embedding_text t
        WHERE NOT EXISTS (SELECT 1 FROM chunk c WHERE c.text_id = t.text_id)
          AND text_id NOT IN (SELECT text_id FROM unused_text)""",
        is_quick=False,
    ),
    Invariant(
        "every text of a kept generation with a space has a vector",
        f"SELECT 'text ' || text_id || ' in space ' || space_id FROM ({MISSING_VECTORS})",
        is_quick=False,
    ),
    Invariant(
        "a refused text has no vector",
        """SELECT 'text ' || text_id || ' in space ' || space_id FROM vector_refusal f
        WHERE EXISTS (SELECT 1 FROM vector v WHERE v.vector_id = (f.space_id << 40) | f.text_id)""",
    ),
    Invariant(
        "vectors belong to a space and a text",
        f"SELECT 'vector ' || vector_id FROM ({STRAY_VECTORS})",
        is_quick=False,
    ),
)
