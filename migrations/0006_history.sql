-- History: names for generations, builds that outlive their process, and what is left to collect.

-- A tagged generation is kept until its tag is removed.
CREATE TABLE tag(
  name TEXT PRIMARY KEY,
  generation INTEGER NOT NULL,
  tagged_at TEXT NOT NULL                                -- UTC, ISO 8601
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_generation ON tag(generation);

-- The generation whose documents a rollback brought back, or NULL.
ALTER TABLE generation ADD COLUMN restored INTEGER;

-- What an unfinished build covers, and what shapes it: a refresh of the same scope goes on with it if its plan is the same.
-- scope is JSON, '' for builds that only their own process can go on with; plan is JSON, each thing with its state
-- when the build began.
ALTER TABLE build ADD COLUMN scope TEXT NOT NULL DEFAULT '';
ALTER TABLE build ADD COLUMN plan TEXT NOT NULL DEFAULT '{}';

-- One row while dead versions are being collected, in small steps; it stays when the process ends in between.
CREATE TABLE collection(
  singleton INTEGER PRIMARY KEY CHECK(singleton = 1),
  started_at TEXT NOT NULL
) STRICT;

-- Parses that lost a version and may be used by no other any more.
CREATE TABLE unused_parse(parse_id INTEGER PRIMARY KEY) STRICT;
CREATE TRIGGER version_gone AFTER DELETE ON document_version
BEGIN INSERT OR IGNORE INTO unused_parse VALUES(OLD.parse_id); END;

-- Embedding texts that no chunk has any more: their vectors are reused when a text comes back, and collected some
-- time after the last use.
CREATE TABLE unused_text(
  text_id INTEGER PRIMARY KEY,
  since TEXT NOT NULL                                    -- UTC, ISO 8601
) STRICT;
CREATE INDEX unused_since ON unused_text(since);
-- Vector spaces that no kept generation is searched with, likewise.
CREATE TABLE unused_space(
  space_id INTEGER PRIMARY KEY,
  since TEXT NOT NULL
) STRICT;

-- A vector that was damaged and given up by a repair: the next refresh makes it again.
ALTER TABLE vector_refusal ADD COLUMN is_lost INTEGER NOT NULL DEFAULT 0 CHECK(is_lost IN (0, 1));

-- Every generation, what its refresh did, and its tags.
DROP VIEW v_generation;
CREATE VIEW v_generation AS
SELECT g.generation, g.published_at, g.cause, g.restored, g.documents, g.chunks, g.added, g.changed, g.removed, g.renamed, g.embedded,
  s.identity AS embedder, g.is_kept, g.generation = (SELECT generation FROM head) AS is_head,
  (SELECT group_concat(name, ' ') FROM tag t WHERE t.generation = g.generation) AS tags
FROM generation g LEFT JOIN vector_space s USING(space_id);

-- What earlier versions have left without a user.
INSERT INTO unused_parse SELECT parse_id FROM parse WHERE parse_id NOT IN (SELECT parse_id FROM document_version);
INSERT INTO unused_text
SELECT text_id, strftime('%Y-%m-%dT%H:%M:%SZ', 'now') FROM embedding_text
WHERE text_id NOT IN (SELECT text_id FROM chunk WHERE text_id IS NOT NULL);
