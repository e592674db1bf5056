-- Generations: immutable published states of the whole index, and the head that names the accepted one.

-- Every published generation, with what its refresh did. Generation 0 is the empty index.
CREATE TABLE generation(
  generation INTEGER PRIMARY KEY,
  build_id INTEGER NOT NULL,
  published_at TEXT NOT NULL,                            -- UTC, ISO 8601
  cause TEXT NOT NULL,                                   -- refresh, upsert, remove, source removed
  space_id INTEGER,                                      -- whose vectors it is searched with, or NULL: lexical only
  analyzer TEXT NOT NULL,                                -- fingerprint of the analysis of its lexical rows
  documents INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  embedded_chunks INTEGER NOT NULL,                      -- those that get a vector when there is an embedder
  added INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  removed INTEGER NOT NULL,
  renamed INTEGER NOT NULL,
  embedded INTEGER NOT NULL,
  is_kept INTEGER NOT NULL DEFAULT 1 CHECK(is_kept IN (0, 1))   -- rows stay after collection
) STRICT;
CREATE INDEX generation_kept ON generation(generation) WHERE is_kept = 1;

-- One row: the accepted generation and which of the two lexical tables belongs to it.
CREATE TABLE head(
  singleton INTEGER PRIMARY KEY CHECK(singleton = 1),
  generation INTEGER NOT NULL,
  next_slot INTEGER NOT NULL,
  lexical TEXT NOT NULL CHECK(lexical IN ('a', 'b'))
) STRICT;

-- Builds that have not been published (yet): their staged rows carry the build's id.
CREATE TABLE build(
  build_id INTEGER PRIMARY KEY AUTOINCREMENT,
  base_generation INTEGER NOT NULL,                      -- publishing re-checks that this is still the head
  started_at TEXT NOT NULL,
  lexical TEXT CHECK(lexical IN ('a', 'b'))              -- the spare lexical table this build fills, or NULL
) STRICT;
CREATE UNIQUE INDEX build_lexical ON build(lexical) WHERE lexical IS NOT NULL;

-- Live versions that end when the build is published without a successor of their own.
CREATE TABLE build_removes(
  build_id INTEGER NOT NULL,
  version_id INTEGER NOT NULL,
  PRIMARY KEY(build_id, version_id)
) STRICT, WITHOUT ROWID;

-- Versions are immutable but for publishing: staged rows may be numbered and born, live rows may die, once.
CREATE TRIGGER version_frozen BEFORE UPDATE ON document_version WHEN NOT (
  NEW.version_id IS OLD.version_id AND NEW.source_id IS OLD.source_id AND NEW.document_id IS OLD.document_id
  AND NEW.parse_id IS OLD.parse_id AND NEW.chunks IS OLD.chunks AND NEW.build_id IS OLD.build_id
  AND NEW.raw_digest IS OLD.raw_digest AND NEW.byte_size IS OLD.byte_size AND NEW.encoding IS OLD.encoding
  AND NEW.path IS OLD.path AND NEW.type_name IS OLD.type_name AND NEW.title IS OLD.title AND NEW.date IS OLD.date
  AND NEW.tags IS OLD.tags AND NEW.uri IS OLD.uri AND NEW.metadata IS OLD.metadata AND NEW.modified_ns IS OLD.modified_ns AND NEW.check8 IS OLD.check8
  AND ((OLD.born IS NULL AND NEW.died IS NULL
        AND (NEW.born IS NULL
             OR NEW.born = (SELECT generation + 1 FROM head)
                AND NEW.build_id = (SELECT build_id FROM generation WHERE generation = NEW.born)))
    OR (OLD.born IS NOT NULL AND NEW.born IS OLD.born AND NEW.first_slot IS OLD.first_slot
        AND OLD.died IS NULL AND NEW.died = (SELECT generation + 1 FROM head))))
BEGIN SELECT RAISE(ABORT, 'document versions are immutable'); END;
CREATE TRIGGER version_staged_first BEFORE INSERT ON document_version WHEN NEW.born IS NOT NULL OR NEW.died IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'document versions are staged first'); END;
CREATE TRIGGER version_kept BEFORE DELETE ON document_version WHEN OLD.born IS NOT NULL AND OLD.died IS NULL
BEGIN SELECT RAISE(ABORT, 'a live document version cannot be deleted'); END;

INSERT INTO generation VALUES(0, 0, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), 'created', NULL, '', 0, 0, 0, 0, 0, 0, 0, 0, 1);
INSERT INTO head VALUES(1, 0, 1, 'a');
