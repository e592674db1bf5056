-- What is indexed: sources, texts, how texts are cut, and the versions of documents.
-- Texts and their chunks are stored once, addressed by content; a document version only points at them,
-- so a rename, a copy or a rollback copies no text and no vector.

-- Settings that belong to the index itself, for example which embedder it is refreshed with.
CREATE TABLE setting(
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Where documents come from. A removed source keeps its row: older generations still name it.
CREATE TABLE source(
  source_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,                                    -- unique among the sources that are not removed
  kind TEXT NOT NULL CHECK(kind IN ('folder', 'host', 'table')),   -- host: documents are handed over by a program
  root TEXT,                                             -- canonical folder or database (escaped like document ids), NULL for hosts
  options TEXT NOT NULL DEFAULT '{}',                    -- JSON: folders: include, exclude, hidden, one_file_system; tables: table or query, columns
  mount_points TEXT NOT NULL DEFAULT '[]',               -- JSON: folders where another file system began when it was last listed, '' for the root
  is_removed INTEGER NOT NULL DEFAULT 0 CHECK(is_removed IN (0, 1)),
  CHECK((kind = 'host') = (root IS NULL))
) STRICT;
CREATE UNIQUE INDEX source_name ON source(name) WHERE is_removed = 0;

-- One decoded text, addressed by SHA-256 of its UTF-8 form.
CREATE TABLE content(
  content_id INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE,
  chars INTEGER NOT NULL,
  first_piece INTEGER NOT NULL                           -- its pieces are first_piece, first_piece + 1, …
) STRICT;

-- Pieces of 16,384 characters (the last of a text is shorter), each with its own checksum (BLAKE2b, 8 bytes).
CREATE TABLE content_piece(
  piece_id INTEGER PRIMARY KEY,
  body TEXT NOT NULL,
  check8 BLOB NOT NULL
) STRICT;

-- One text under one recipe (parser, chunker, options and their versions); shared by all versions with that text.
CREATE TABLE parse(
  parse_id INTEGER PRIMARY KEY,
  content_id INTEGER NOT NULL,
  recipe TEXT NOT NULL,
  language TEXT NOT NULL,
  title TEXT,
  date TEXT,
  tags TEXT NOT NULL,                                    -- JSON array
  aliases TEXT NOT NULL,                                 -- JSON array: other names for wiki links
  front_matter TEXT NOT NULL,                            -- raw, without its fences
  chunks INTEGER NOT NULL,
  check8 BLOB NOT NULL,                                  -- over the parse with its sections, chunks and links
  UNIQUE(content_id, recipe)
) STRICT;

-- Headings and what stands under them; the sections of a parse cover its text in order.
CREATE TABLE section(
  parse_id INTEGER NOT NULL,
  ord INTEGER NOT NULL,
  start_char INTEGER NOT NULL,
  end_char INTEGER NOT NULL,
  level INTEGER NOT NULL,                                -- depth of the heading, 0 before the first
  heading_line INTEGER NOT NULL,                         -- 1-based, 0 without a heading
  heading_path TEXT NOT NULL,                            -- JSON array, outermost first
  kind TEXT NOT NULL CHECK(kind IN ('body', 'front_matter', 'raw')),   -- only body is embedded
  PRIMARY KEY(parse_id, ord)
) STRICT, WITHOUT ROWID;

-- The exact input of an embedder, named by SHA-256; equal inputs anywhere are embedded once.
CREATE TABLE embedding_text(
  text_id INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE
) STRICT;

-- Chunks as spans: text[start_char:end_char], lines start_line to end_line (from 1, both included).
CREATE TABLE chunk(
  parse_id INTEGER NOT NULL,
  ord INTEGER NOT NULL,
  start_char INTEGER NOT NULL,
  end_char INTEGER NOT NULL CHECK(end_char > start_char),
  start_line INTEGER NOT NULL,
  end_line INTEGER NOT NULL CHECK(end_line >= start_line),
  section_ord INTEGER NOT NULL,
  is_continuation INTEGER NOT NULL CHECK(is_continuation IN (0, 1)),
  occurrence INTEGER NOT NULL,                           -- 0 for the first chunk of that text in the document, then 1, …
  fingerprint BLOB NOT NULL,                             -- BLAKE2b of the chunk's text, 16 bytes
  cut TEXT NOT NULL,                                     -- why it ends there: section, blank_line, closing, item, line, block, tokens
  context TEXT NOT NULL,                                 -- what stands above and explains its lines (the head of its table), or ''
  rendered TEXT NOT NULL,                                -- JSON array of (start, end, what that part reads as), flat; offsets from the chunk's start
  text_id INTEGER,                                       -- embedding_text, or NULL: never embedded
  PRIMARY KEY(parse_id, ord)
) STRICT, WITHOUT ROWID;
CREATE INDEX chunk_text ON chunk(text_id) WHERE text_id IS NOT NULL;

-- Outgoing links as written; backlinks are a query over this table. Which document a target leads to is not
-- stored: it is resolved when asked.
CREATE TABLE link(
  parse_id INTEGER NOT NULL,
  ord INTEGER NOT NULL,
  target TEXT NOT NULL,
  label TEXT NOT NULL,
  start_char INTEGER NOT NULL,
  line INTEGER NOT NULL,                                 -- 1-based
  is_wiki INTEGER NOT NULL CHECK(is_wiki IN (0, 1)),
  key TEXT,                                              -- last part of the target without extension, folded; '.' for a folder, NULL within the document
  PRIMARY KEY(parse_id, ord)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_key ON link(key) WHERE key IS NOT NULL;

-- A document as some generations see it: those from born up to, not including, died.
-- While a build runs its versions carry build_id and no born; publishing stamps born and died.
-- Its chunks occupy the slots first_slot + ord, which are the rowids of the lexical table.
CREATE TABLE document_version(
  version_id INTEGER PRIMARY KEY,
  source_id INTEGER NOT NULL,
  document_id TEXT NOT NULL,
  parse_id INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  build_id INTEGER NOT NULL,
  born INTEGER,
  died INTEGER CHECK(died > born),
  first_slot INTEGER,
  raw_digest BLOB NOT NULL,                              -- SHA-256 of the bytes as read
  byte_size INTEGER NOT NULL,
  encoding TEXT NOT NULL,
  path TEXT NOT NULL,                                    -- for display and filters, never an identity
  type_name TEXT NOT NULL,
  title TEXT NOT NULL,
  date TEXT,                                             -- ISO 8601, the document's own
  tags TEXT NOT NULL,                                    -- JSON array
  uri TEXT,                                              -- given by a host; others: root and document id say it
  metadata TEXT NOT NULL,                                -- JSON object of the host's fields
  modified_ns INTEGER,                                   -- last change of the file when it was indexed, since 1970
  check8 BLOB NOT NULL,                                  -- over what a version says of its document
  CHECK(born IS NULL OR first_slot IS NOT NULL),
  CHECK(died IS NULL OR born IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX version_live ON document_version(source_id, document_id) WHERE born IS NOT NULL AND died IS NULL;
CREATE UNIQUE INDEX version_build ON document_version(build_id, source_id, document_id);
CREATE UNIQUE INDEX version_slot ON document_version(first_slot) WHERE born IS NOT NULL;
CREATE INDEX version_document ON document_version(document_id) WHERE born IS NOT NULL;
CREATE INDEX version_path ON document_version(path) WHERE born IS NOT NULL AND path <> document_id;
CREATE INDEX version_died ON document_version(died) WHERE died IS NOT NULL;
CREATE INDEX version_parse ON document_version(parse_id);

-- Names by which links may find a version: of its path, title, aliases and URI, made as link.key is.
CREATE TABLE document_name(
  version_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  PRIMARY KEY(version_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX name_key ON document_name(key);
-- a deleted version takes its names along
CREATE TRIGGER version_names AFTER DELETE ON document_version
BEGIN DELETE FROM document_name WHERE version_id = OLD.version_id; END;

-- What the file system said when a file was last read: equal stats and no race mean equal bytes.
CREATE TABLE file_stat(
  source_id INTEGER NOT NULL,
  document_id TEXT NOT NULL,
  byte_size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  device INTEGER NOT NULL,
  read_ns INTEGER NOT NULL,                              -- clock when it was read
  raw_digest BLOB NOT NULL,
  PRIMARY KEY(source_id, document_id)
) STRICT, WITHOUT ROWID;

-- Documents that the last refresh saw and did not index, kept from an earlier generation (is_kept), or
-- that rules of their source leave out; an id that ends in a slash is a folder with all that lies below it.
CREATE TABLE refused_document(
  source_id INTEGER NOT NULL,
  document_id TEXT NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT NOT NULL,
  hint TEXT NOT NULL,
  is_kept INTEGER NOT NULL CHECK(is_kept IN (0, 1)),
  PRIMARY KEY(source_id, document_id)
) STRICT, WITHOUT ROWID;
