"""What the page of figures says about each benchmark, in the order of the page."""

from __future__ import annotations

from collections.abc import Mapping

HEAD = """\
# Benchmarks

Generated from [`bench/results/`](../../bench/results/) by `python -m bench NAME --save`; how each
figure is measured, and what its name and its limit mean, is in [`bench/README.md`](../../bench/README.md).
The saved files hold every repeat. Times depend on the machine and on what else runs on it (`load`: processes
that wanted to run in the minute before; above the number of cores they slowed each other), so compare
ratios, and run the command yourself. Whiskers in the plots span
the repeats, without the outermost twentieth at each end.
"""

ABOUT: Mapping[str, str] = {
    "index": """\
German statutes as Markdown (The Unlicense), 40 MB. `baseline` is bare markdown-it-py reading and parsing
the same files.""",
    "folder": """\
Files of three lines, 100 to a folder. `baseline` of `unchanged` is bare `os.walk` with an `lstat` of each file; of `one_path`
a refresh of the whole folder after the same kind of edit. The limits of time are for 20,000 files, that of memory for any number.""",
    "startup": "`baseline` is `python -c pass`. Limits: the ratio, and no heavy package imported.",
    "publish": """\
One changed document of one chunk, with its vector (384 dimensions, hashed words). `large` has ten times the documents of `small`.
`one_changed` is a whole `Index.upsert`, `transaction` its commit point alone, sync included; `log` is what the whole upsert
writes to the log. The baseline of `to_copied_membership` is a table of every generation's documents, copied by each publish;
`unsynced`: neither waits for the disk there, whose sync takes as long whatever is published (a real publish always waits).
`first` is the first publish of documents of four chunks, as many chunks as `large` has documents, swapped in.""",
    "reindex": """\
Markdown files of twenty chunks with vectors of hashed words, made anew with two workers and killed half-way, then gone on with.
`embedded_twice` counts inputs; its limit is one batch of each worker. `peak_of_all` is the largest sum over all processes
(memory that they share counts once). `search_p95_beside` compares hybrid searches of another process with `baseline`, the
same before. `two_workers_to_one` compares a phase, by turns: reading, parsing and staging all documents; embedding with MiniLM (where it
is installed, of few chunks), of which each worker uses one processor.""",
    "concurrency": """\
Lexical index of documents of four chunks. A reader is a process that alternates a lexical search and reading its first document; the writer
publishes one changed document, waits 20 ms, and so on. `baseline` is one reader alone.""",
    "search": """\
Ten hits, hashed vectors of 384 dimensions, so no inference of the query. `baseline` is the floor: FTS5's
`MATCH` with `bm25()` for ten rowids; `numpy.vecdot` over the matrix in memory. `first` is the first search
of its mode: semantic reads all vectors.""",
    "spans": """\
220 questions on two long Markdown files, with the exact spans that answer each (Chroma technical report 2024, MIT). A question
counts if every one of its spans lies in the first hit, or in the first five. `baseline` is an oracle that knows the spans
and takes the best of the same chunks; `windows` are the same files cut every so many characters, the mean length of the chunks.
`differing` counts questions whose semantic ranking is not that of all cosines, computed a second time.""",
    "scifact": """\
SciFact in the form of BEIR, train split (annotations CC BY 4.0, abstracts ODC-By 1.0), MiniLM
(`sentence-transformers/all-MiniLM-L6-v2`), documents judged at their best chunk, 100 deep: see
[how to evaluate](../how-to/evaluate.md). Development data: no parameter was tuned on it, and none is
claimed to hold elsewhere. `difference` is to a second computation of the mean, and `queries_differing`
counts queries whose nDCG@10 differs by more than 0.001. It shares the collection's reader, the embedder
and the stored vectors; these it reads through the `sqlite3` shell, and matrix product (float64), ranking
and nDCG are its own. Times are those of a search for 100 hits; the query's vector is made before, and timed apart (`embed_query`).""",
    "quality": """\
Every judged set of the evaluation data, and ours (`company-knowledge`, `manuals-zh-en`, `service-rules`), in three modes
with MiniLM, which is made for English; `-typo` are the same questions misspelt. 95 % bounds by bootstrap over the queries.
Known-item sets name one relevant document for a question: compare modes and versions, do not chase 1. Each query's value
is in [`bench/golden/quality`](../../bench/golden/quality).""",
    "embed": """\
MiniLM on made-up texts of mixed lengths (20 to 240 tokens). `fp32`, `int8` (`minilm-int8`) and `torch` (sentence-transformers) use
one thread in a process of their own; times are the processor's. `fp32_to_torch` takes the best of its ways: one by one, batches of 4 and 32
sorted by length, batches of four unsorted. `one_by_one_to_fours` is sqlindex against itself with each text as long as the longest of its four, as padding in
batches has it. int8 needs a processor with VNNI to reach its limit. `floor` is the matrix products of a text at the rate that numpy multiplies with on one thread. `cold` begins before the process and
ends with its first query vector, `peak` is its memory then. `pipeline_to_alone`: first refresh of a folder, to embedding its texts alone.""",
    "peers": """\
The same texts, vectors and questions through every engine, each in its own process and environment: sections of German statutes, English
abstracts, Python functions (MiniLM vectors, 100 questions of each collection, 100 hits). Rules and checks:
[bench/README.md](../../bench/README.md#peers). A cell is a median and, in brackets, its ratio to sqlindex: below 1, the peer takes less.
Not everything is equal: sqlindex gives whole hits with text, place and snippet, the others give ids.""",
}
