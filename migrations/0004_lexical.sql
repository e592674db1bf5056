-- Two lexical tables of which the head names one; large builds fill the other and swap.
-- Contentless: they are fed with analysed text and hold postings only. Rowid = slot of the chunk.
CREATE VIRTUAL TABLE chunk_fts_a USING fts5(title, headings, body, tags, path, content='', tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE chunk_fts_b USING fts5(title, headings, body, tags, path, content='', tokenize='unicode61 remove_diacritics 2');
