"""The index of a judged collection: where it is kept, and how it gets its documents."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from sqlindex.cancellation import CancelToken
from sqlindex.errors import UsageError
from sqlindex.evaluation.beir import PLAIN_TEXT, CorpusDocument, JudgedCollection, collection_files
from sqlindex.evaluation.configurations import Configuration
from sqlindex.evaluation.outputs import Named, index_files
from sqlindex.evaluation.report import IndexFacts
from sqlindex.index import Index
from sqlindex.indexing.report import ProgressSink
from sqlindex.ports import Embedder
from sqlindex.sources.memory import Document, MemorySource

SOURCE = "corpus"
"""Name of the collection's source in its index."""


def cache_folder() -> Path:
    """Where the indexes of collections are kept, in the user's cache."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("sqlindex", appauthor=False)) / "eval"


def default_index_path(collection: JudgedCollection) -> Path:
    """Where a collection's index is kept, by name and corpus; its folder is made."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    return cache / f"{collection.name}-{collection.corpus_sha256[:8]}.db"


def kept_files(
    folder: Path | None, index_path: Path | None, configurations: Sequence[Configuration]
) -> list[Named]:
    """Files that an evaluation must not write a report to, for `outputs.require_apart`.

    Args:
        folder: of a collection; with it go the indexes in the user's cache.
        index_path: of an index, with those of other cuts beside it.
    """
    found: list[Named] = []
    if folder is not None:
        found += [("a file of the collection", path) for path in collection_files(folder)]
        found += [("an index in the cache", path) for path in cache_folder().glob("*")]
    if index_path is not None:
        for path in dict.fromkeys(
            [index_path, *(c.index_path(index_path) for c in configurations)]
        ):
            found += index_files(path)
    return found


def host_document(document: CorpusDocument) -> Document:
    """A document of a corpus as the index gets it.

    The title stands above a plain text, as BEIR feeds embedders; so both channels see it. It is the
    title of the document too, which lexical search weighs by itself. A text of another type stays as
    it is, since a line above it would be part of its structure.
    """
    text = document.text
    if document.title and document.type_name == PLAIN_TEXT:
        text = f"{document.title}\n\n{text}"
    return Document(document.id, text, title=document.title or None, type_name=document.type_name)


def bring_up_to_date(
    path: Path,
    collection: JudgedCollection,
    configuration: Configuration,
    *,
    embedder: Embedder | None,
    cancel: CancelToken,
    progress: ProgressSink,
) -> IndexFacts:
    """Make an index hold the collection, and say what that took; it is made if nothing is there.

    Raises:
        UsageError: the index holds something else.
    """
    started = time.perf_counter()
    with Index.open(path, create=True, embedder=embedder, config=configuration.index) as index:
        index.collect(cancel=cancel)  # any write brings a file of an older version up to date
        foreign = [source.name for source in index.status().sources if source.name != SOURCE]
        if foreign:
            raise UsageError(
                f"index {path} has the sources {', '.join(foreign)}; their documents would be "
                "ranked too",
                hint="name an index of its own for the evaluation",
            )
        index.add_source(MemorySource(SOURCE, map(host_document, collection.documents)))
        # Without an embedder the head goes lexical only; its vectors stay stored and are found again.
        refreshed = index.refresh(
            [SOURCE], drop_vectors=embedder is None, cancel=cancel, progress=progress
        )
        status = index.status()
    return IndexFacts(
        configuration=configuration.name,
        settings=configuration.settings,
        path=str(path),
        generation=status.generation,
        documents=len(collection.documents),
        refused=len(refreshed.changes.refused),
        chunks=status.chunks,
        embedder=status.space,
        embedded=refreshed.embedded,
        reused=refreshed.reused,
        truncated=refreshed.truncated,
        index_s=time.perf_counter() - started,
    )
