"""sqlindex: an embedded search index for documents in one SQLite file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlindex.async_index import AsyncIndex as AsyncIndex
    from sqlindex.cancellation import CancelToken as CancelToken
    from sqlindex.config import ChunkConfig as ChunkConfig
    from sqlindex.config import IndexConfig as IndexConfig
    from sqlindex.config import Retention as Retention
    from sqlindex.config import SearchConfig as SearchConfig
    from sqlindex.embedding.loaded_models import FastEmbedEmbedder as FastEmbedEmbedder
    from sqlindex.embedding.loaded_models import (
        SentenceTransformersEmbedder as SentenceTransformersEmbedder,
    )
    from sqlindex.embedding.service import ServiceEmbedder as ServiceEmbedder
    from sqlindex.embedding.service_config import ServiceConfig as ServiceConfig
    from sqlindex.errors import SqlindexError as SqlindexError
    from sqlindex.evaluation.gate import Gate as Gate
    from sqlindex.index import Index as Index
    from sqlindex.indexing.report import Changes as Changes
    from sqlindex.indexing.report import EmbeddingEstimate as EmbeddingEstimate
    from sqlindex.indexing.report import Progress as Progress
    from sqlindex.indexing.report import RefreshReport as RefreshReport
    from sqlindex.indexing.rollback import RollbackReport as RollbackReport
    from sqlindex.model.chunks import Cut as Cut
    from sqlindex.model.comparison import DocumentDiff as DocumentDiff
    from sqlindex.model.comparison import GenerationDiff as GenerationDiff
    from sqlindex.model.comparison import RankedChunk as RankedChunk
    from sqlindex.model.comparison import RankingDiff as RankingDiff
    from sqlindex.model.documents import DocumentRef as DocumentRef
    from sqlindex.model.documents import FileStat as FileStat
    from sqlindex.model.documents import RawDocument as RawDocument
    from sqlindex.model.documents import Refusal as Refusal
    from sqlindex.model.documents import RefusalReason as RefusalReason
    from sqlindex.model.gate import GateCondition as GateCondition
    from sqlindex.model.gate import GatedGeneration as GatedGeneration
    from sqlindex.model.gate import GateResult as GateResult
    from sqlindex.model.history import Generation as Generation
    from sqlindex.model.history import ListedDocument as ListedDocument
    from sqlindex.model.links import DocumentLink as DocumentLink
    from sqlindex.model.links import LinkTarget as LinkTarget
    from sqlindex.model.questions import Expectation as Expectation
    from sqlindex.model.questions import Question as Question
    from sqlindex.model.questions import QuestionImport as QuestionImport
    from sqlindex.model.requests import Filters as Filters
    from sqlindex.model.results import Chunk as Chunk
    from sqlindex.model.results import DocumentChunk as DocumentChunk
    from sqlindex.model.results import Hit as Hit
    from sqlindex.model.results import SearchResult as SearchResult
    from sqlindex.model.status import FileStatus as FileStatus
    from sqlindex.model.status import IndexStatus as IndexStatus
    from sqlindex.model.status import RefusedDocument as RefusedDocument
    from sqlindex.model.status import SourceStatus as SourceStatus
    from sqlindex.model.status import UnfinishedRefresh as UnfinishedRefresh
    from sqlindex.model.stored import StoredDocument as StoredDocument
    from sqlindex.ports import Embedder as Embedder
    from sqlindex.ports import PublishGate as PublishGate
    from sqlindex.ports import Source as Source
    from sqlindex.snapshot import Snapshot as Snapshot
    from sqlindex.sources.memory import Document as Document
    from sqlindex.sources.memory import MemorySource as MemorySource
    from sqlindex.sources.sqlite_table import SqliteTableSource as SqliteTableSource
    from sqlindex.store.collect import Collected as Collected

__version__ = "0.1.0"

# Loaded on first use: importing the package, or searching lexically, must not pay for the rest.
_MODULE_BY_NAME = {
    "Index": "sqlindex.index",
    "AsyncIndex": "sqlindex.async_index",
    "CancelToken": "sqlindex.cancellation",
    "ChunkConfig": "sqlindex.config",
    "IndexConfig": "sqlindex.config",
    "Retention": "sqlindex.config",
    "SearchConfig": "sqlindex.config",
    "Collected": "sqlindex.store.collect",
    "SqlindexError": "sqlindex.errors",
    "Changes": "sqlindex.indexing.report",
    "EmbeddingEstimate": "sqlindex.indexing.report",
    "RefreshReport": "sqlindex.indexing.report",
    "RollbackReport": "sqlindex.indexing.rollback",
    "Progress": "sqlindex.indexing.report",
    "DocumentRef": "sqlindex.model.documents",
    "FileStat": "sqlindex.model.documents",
    "RawDocument": "sqlindex.model.documents",
    "Refusal": "sqlindex.model.documents",
    "RefusalReason": "sqlindex.model.documents",
    "DocumentDiff": "sqlindex.model.comparison",
    "GenerationDiff": "sqlindex.model.comparison",
    "RankedChunk": "sqlindex.model.comparison",
    "RankingDiff": "sqlindex.model.comparison",
    "Generation": "sqlindex.model.history",
    "ListedDocument": "sqlindex.model.history",
    "Filters": "sqlindex.model.requests",
    "Chunk": "sqlindex.model.results",
    "Cut": "sqlindex.model.chunks",
    "DocumentChunk": "sqlindex.model.results",
    "FileStatus": "sqlindex.model.status",
    "IndexStatus": "sqlindex.model.status",
    "RefusedDocument": "sqlindex.model.status",
    "SourceStatus": "sqlindex.model.status",
    "UnfinishedRefresh": "sqlindex.model.status",
    "StoredDocument": "sqlindex.model.stored",
    "DocumentLink": "sqlindex.model.links",
    "LinkTarget": "sqlindex.model.links",
    "Hit": "sqlindex.model.results",
    "SearchResult": "sqlindex.model.results",
    "Gate": "sqlindex.evaluation.gate",
    "Question": "sqlindex.model.questions",
    "Expectation": "sqlindex.model.questions",
    "QuestionImport": "sqlindex.model.questions",
    "GateCondition": "sqlindex.model.gate",
    "GateResult": "sqlindex.model.gate",
    "GatedGeneration": "sqlindex.model.gate",
    "PublishGate": "sqlindex.ports",
    "Embedder": "sqlindex.ports",
    "SentenceTransformersEmbedder": "sqlindex.embedding.loaded_models",
    "FastEmbedEmbedder": "sqlindex.embedding.loaded_models",
    "ServiceConfig": "sqlindex.embedding.service_config",
    "ServiceEmbedder": "sqlindex.embedding.service",
    "Source": "sqlindex.ports",
    "Snapshot": "sqlindex.snapshot",
    "Document": "sqlindex.sources.memory",
    "MemorySource": "sqlindex.sources.memory",
    "SqliteTableSource": "sqlindex.sources.sqlite_table",
}

__all__ = [
    "Index",
    "AsyncIndex",
    "Document",
    "MemorySource",
    "SqliteTableSource",
    "Filters",
    "SearchResult",
    "Hit",
    "Chunk",
    "DocumentChunk",
    "Cut",
    "StoredDocument",
    "Snapshot",
    "Generation",
    "ListedDocument",
    "GenerationDiff",
    "DocumentDiff",
    "RankingDiff",
    "RankedChunk",
    "IndexStatus",
    "SourceStatus",
    "UnfinishedRefresh",
    "FileStatus",
    "RefusedDocument",
    "DocumentLink",
    "LinkTarget",
    "RefreshReport",
    "RollbackReport",
    "Changes",
    "EmbeddingEstimate",
    "Progress",
    "Gate",
    "Question",
    "Expectation",
    "QuestionImport",
    "GateCondition",
    "GateResult",
    "GatedGeneration",
    "PublishGate",
    "Source",
    "DocumentRef",
    "RawDocument",
    "Refusal",
    "RefusalReason",
    "FileStat",
    "Embedder",
    "SentenceTransformersEmbedder",
    "FastEmbedEmbedder",
    "ServiceConfig",
    "ServiceEmbedder",
    "CancelToken",
    "IndexConfig",
    "ChunkConfig",
    "Retention",
    "Collected",
    "SearchConfig",
    "SqlindexError",
]


def __getattr__(name: str) -> object:
    module = _MODULE_BY_NAME.get(name)
    if module is None:
        raise AttributeError(f"module 'sqlindex' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value
