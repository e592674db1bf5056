-- Golden questions, and builds that a gate on them keeps from being published.

-- What people ask. Questions belong to the index, not to a generation; position is the order in which they were added.
CREATE TABLE question(
  position INTEGER PRIMARY KEY,
  question_id TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL,
  class TEXT,                                            -- its kind, in the user's words, or NULL
  is_answerable INTEGER NOT NULL CHECK(is_answerable IN (0, 1)),   -- 0: no document answers it
  check8 BLOB NOT NULL                                   -- over the question with its expectations
) STRICT;

-- The documents that a question should find. They, and their source, may come later.
CREATE TABLE expectation(
  question_id TEXT NOT NULL,
  source TEXT NOT NULL,                                  -- name of the source
  document_id TEXT NOT NULL,
  grade INTEGER NOT NULL CHECK(grade > 0),               -- the higher, the better it answers
  PRIMARY KEY(question_id, source, document_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX expectation_document ON expectation(document_id);

-- JSON, of a build that a gate keeps from being published: the gate, what it measured, and what publishing records;
-- NULL for others.
ALTER TABLE build ADD COLUMN gated TEXT;

-- What the refresh of such a build saw and did not index, for refused_document when it is published.
CREATE TABLE gated_refusal(
  build_id INTEGER NOT NULL,
  source_id INTEGER NOT NULL,
  document_id TEXT NOT NULL,
  reason TEXT,                                           -- NULL: it is refused no longer
  detail TEXT NOT NULL,
  hint TEXT NOT NULL,
  is_kept INTEGER NOT NULL CHECK(is_kept IN (0, 1)),
  PRIMARY KEY(build_id, source_id, document_id)
) STRICT, WITHOUT ROWID;

-- Every golden question with the documents it should find, and whether the head holds each.
CREATE VIEW v_question AS
SELECT q.question_id, q.class, q.text, q.is_answerable, e.source, e.document_id, e.grade,
  CASE WHEN e.document_id IS NOT NULL THEN EXISTS (
    SELECT 1 FROM document_version d JOIN source s USING(source_id)
    WHERE d.document_id = e.document_id AND s.name = e.source AND s.is_removed = 0 AND d.born IS NOT NULL AND d.died IS NULL)
  END AS is_in_head
FROM question q LEFT JOIN expectation e USING(question_id);
