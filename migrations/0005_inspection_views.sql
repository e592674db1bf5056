-- Views for people: what the head holds, readable with the plain sqlite3 shell.

-- The accepted generation; lexical_table is the table to MATCH against.
CREATE VIEW v_head AS
SELECT h.generation, g.published_at, g.documents, g.chunks, s.identity AS embedder, s.dimensions,
  'chunk_fts_' || h.lexical AS lexical_table
FROM head h JOIN generation g USING(generation) LEFT JOIN vector_space s USING(space_id);

-- Every generation and what its refresh did.
CREATE VIEW v_generation AS
SELECT g.generation, g.published_at, g.cause, g.documents, g.chunks, g.added, g.changed, g.removed, g.renamed, g.embedded,
  s.identity AS embedder, g.is_kept, g.generation = (SELECT generation FROM head) AS is_head
FROM generation g LEFT JOIN vector_space s USING(space_id);

-- The documents of the head.
CREATE VIEW v_document AS
SELECT s.name AS source, d.document_id, d.path, d.title, d.type_name AS type, p.language, d.encoding, d.byte_size AS bytes,
  c.chars, d.chunks, d.date, strftime('%Y-%m-%dT%H:%M:%SZ', d.modified_ns / 1000000000, 'unixepoch') AS modified, d.tags, d.metadata, d.born AS since_generation, d.uri
FROM document_version d JOIN source s USING(source_id) JOIN parse p USING(parse_id) JOIN content c USING(content_id)
WHERE d.born IS NOT NULL AND d.died IS NULL;

-- The chunks of the head with their lines and text; slot is the rowid in the lexical table.
CREATE VIEW v_chunk AS
SELECT d.first_slot + c.ord AS slot, s.name AS source, d.document_id, d.path, c.ord, c.start_line, c.end_line, c.start_char, c.end_char,
  (SELECT group_concat(value, ' › ') FROM json_each(x.heading_path)) AS heading, c.context, c.cut, p.language,
  (SELECT substr(group_concat(body, ''), c.start_char % 16384 + 1, c.end_char - c.start_char)
   FROM (SELECT body FROM content_piece
         WHERE piece_id BETWEEN t.first_piece + c.start_char / 16384 AND t.first_piece + (c.end_char - 1) / 16384
         ORDER BY piece_id)) AS text
FROM document_version d JOIN source s USING(source_id) JOIN parse p USING(parse_id) JOIN content t USING(content_id)
  JOIN chunk c ON c.parse_id = d.parse_id JOIN section x ON x.parse_id = d.parse_id AND x.ord = c.section_ord
WHERE d.born IS NOT NULL AND d.died IS NULL;

-- The vectors by space and embedding text; chunk.text_id says which chunks have that text.
CREATE VIEW v_vector AS
SELECT vector_id >> 40 AS space_id, vector_id & 1099511627775 AS text_id, s.dimensions, v.norm, v.f32
FROM vector v JOIN vector_space s ON s.space_id = v.vector_id >> 40;

-- The links of the head's documents, as written.
CREATE VIEW v_link AS
SELECT s.name AS source, d.document_id, d.path, l.line, l.label, l.target, l.is_wiki, l.start_char, l.key
FROM document_version d JOIN source s USING(source_id) JOIN link l USING(parse_id)
WHERE d.born IS NOT NULL AND d.died IS NULL;

-- Links of the head that may lead to a document, since they end in one of its names: document_id is the document,
-- from_document_id where the link stands. Folders are not compared; 'sqlindex links --back' resolves them.
CREATE VIEW v_backlink AS
SELECT s.name AS source, d.document_id, d.path, f.document_id AS from_document_id, f.path AS from_path, l.line, l.label, l.target
FROM document_version d JOIN source s USING(source_id) JOIN document_name n USING(version_id) JOIN link l ON l.key = n.key
  JOIN document_version f ON f.parse_id = l.parse_id AND +f.source_id = d.source_id AND f.version_id <> d.version_id
WHERE d.born IS NOT NULL AND d.died IS NULL AND f.born IS NOT NULL AND f.died IS NULL;

-- What the last refresh saw and did not index, and why; is_kept: an earlier version is still served.
CREATE VIEW v_refused AS
SELECT s.name AS source, r.document_id, r.reason, r.detail, r.hint, r.is_kept
FROM refused_document r JOIN source s USING(source_id);
