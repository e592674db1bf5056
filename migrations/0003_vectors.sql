-- Vectors: one Float32 row for each embedding text in each vector space.

-- A vector space is one document encoding (model, revision, runtime, precision, pooling, …); spaces never mix.
CREATE TABLE vector_space(
  space_id INTEGER PRIMARY KEY,
  identity TEXT NOT NULL UNIQUE,
  dimensions INTEGER NOT NULL CHECK(dimensions > 0)
) STRICT;

-- vector_id is space and text in one integer, space_id << 40 | text_id, so the vectors of a space lie
-- together and need no second index; v_vector takes it apart.
CREATE TABLE vector(
  vector_id INTEGER PRIMARY KEY,
  norm REAL NOT NULL CHECK(norm > 0),                    -- Euclidean length of f32
  f32 BLOB NOT NULL,                                     -- little-endian float32, 4 × dimensions bytes
  check8 BLOB NOT NULL                                   -- BLAKE2b of f32, 8 bytes
) STRICT;

-- Texts whose vector was refused (zero, not finite, wrong width) and that were published lexical-only on request.
CREATE TABLE vector_refusal(
  space_id INTEGER NOT NULL,
  text_id INTEGER NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY(space_id, text_id)
) STRICT, WITHOUT ROWID;
