"""Compare two generations: which documents and chunks differ, and how that moves a ranking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlindex.chunking.identity import chunk_id
from sqlindex.model.comparison import (
    DiffKind,
    DocumentDiff,
    GenerationDiff,
    Move,
    RankedChunk,
    RankingDiff,
)
from sqlindex.model.results import Hit, SearchResult
from sqlindex.store.compare import ComparedVersion, chunk_texts, versions_between
from sqlindex.store.driver import Connection
from sqlindex.store.history import read_generation

Identity = tuple[str, str]
"""Source and document id."""


@dataclass(frozen=True, slots=True)
class VersionPair:
    """A document that differs: its version in both generations, None where it is not there."""

    kind: DiffKind
    old: ComparedVersion | None
    new: ComparedVersion | None

    @property
    def shown(self) -> ComparedVersion:
        """The version that names the document: the new one, if there is one."""
        found = self.new or self.old
        assert found is not None
        return found


def compare(connection: Connection, old: int, new: int) -> tuple[GenerationDiff, list[VersionPair]]:
    """What turns one generation into another; the diff is without a ranking.

    Cost: O(versions born or died between them, and chunks of the documents that differ).

    Raises:
        GenerationGoneError: one of them has been collected.
    """
    generations = read_generation(connection, old), read_generation(connection, new)
    pairs = pair_versions(*versions_between(connection, old, new))
    documents = tuple(_document(connection, pair) for pair in pairs)
    return GenerationDiff(*generations, documents), pairs


def pair_versions(
    only_old: Sequence[ComparedVersion], only_new: Sequence[ComparedVersion]
) -> list[VersionPair]:
    """Versions of one document together, by source and id; documents that say the same left out.

    Removed and added documents of a source with equal bytes are renames, paired in order of their
    ids, as a refresh pairs them.
    """
    new_by_identity = {(v.source, v.document_id): v for v in only_new}
    pairs: list[VersionPair] = []
    removed: list[ComparedVersion] = []
    for old in only_old:
        new = new_by_identity.pop((old.source, old.document_id), None)
        if new is None:
            removed.append(old)
        elif old[2:] != new[2:]:
            pairs.append(VersionPair(_kind(old, new), old, new))
    added = list(new_by_identity.values())
    added_by_bytes: dict[tuple[str, bytes], list[ComparedVersion]] = defaultdict(list)
    for version in sorted(added, key=_identity, reverse=True):
        added_by_bytes[version.source, version.raw_digest].append(version)
    for old in sorted(removed, key=_identity):
        same_bytes = added_by_bytes[old.source, old.raw_digest]
        new = same_bytes.pop() if same_bytes else None
        pairs.append(VersionPair("removed" if new is None else "renamed", old, new))
    pairs += (VersionPair("added", None, new) for left in added_by_bytes.values() for new in left)
    return sorted(pairs, key=lambda pair: _identity(pair.shown))


def _identity(version: ComparedVersion) -> Identity:
    return version.source, version.document_id


def _kind(old: ComparedVersion, new: ComparedVersion) -> DiffKind:
    is_same = (old.raw_digest, old.content_id, old.says) == (
        new.raw_digest,
        new.content_id,
        new.says,
    )
    return "reparsed" if is_same else "changed"


def _document(connection: Connection, pair: VersionPair) -> DocumentDiff:
    old, new = pair.old, pair.new
    if old is not None and new is not None and old.parse_id != new.parse_id:
        before = chunk_texts(connection, old.parse_id).keys()
        after = chunk_texts(connection, new.parse_id).keys()
        counts = len(after - before), len(before - after), len(before & after)
    elif old is not None and new is not None:
        counts = 0, 0, new.chunks
    else:
        counts = 0 if new is None else new.chunks, 0 if old is None else old.chunks, 0
    old_id = old.document_id if pair.kind == "renamed" and old is not None else None
    return DocumentDiff(pair.kind, *_identity(pair.shown), old_id, *counts)


def compare_rankings(
    connection: Connection,
    pairs: Sequence[VersionPair],
    query: str,
    old: SearchResult,
    new: SearchResult,
    limit: int,
) -> RankingDiff:
    """The first `limit` chunks of both rankings side by side, and why each is where it is.

    Args:
        pairs: the documents that differ between the generations of the two results.
        old, new: of the same query and mode, as long as a search gives them.
    """
    renamed = _ids_after_renames(connection, pairs, old.hits)
    old_hits = {renamed.get(hit.chunk_id, hit.chunk_id): hit for hit in old.hits}
    new_hits = {str(hit.chunk_id): hit for hit in new.hits}
    shown = [key for key, hit in new_hits.items() if hit.rank <= limit]
    shown += [key for key, hit in old_hits.items() if hit.rank <= limit and key not in shown]
    why = _Moves(connection, pairs)
    rows = (_ranked(why, old_hits.get(key), new_hits.get(key)) for key in shown)
    last = limit + len(old.hits) + len(new.hits)
    ordered = sorted(rows, key=lambda row: (row.new_rank or last, row.old_rank or last))
    return RankingDiff(query, new.mode, tuple(ordered))


def _ids_after_renames(
    connection: Connection, pairs: Sequence[VersionPair], hits: Sequence[Hit]
) -> Mapping[str, str]:
    """For hits in documents that were renamed, the chunk's id under the new name."""
    found = {(hit.source, hit.document_id) for hit in hits}
    ids: dict[str, str] = {}
    for pair in pairs:
        old, new = pair.old, pair.new
        if pair.kind != "renamed" or old is None or new is None or _identity(old) not in found:
            continue
        for fingerprint, occurrence in chunk_texts(connection, old.parse_id):
            of_old = chunk_id(*_identity(old), fingerprint, occurrence)
            ids[of_old] = chunk_id(*_identity(new), fingerprint, occurrence)
    return ids


def _ranked(why: _Moves, old: Hit | None, new: Hit | None) -> RankedChunk:
    shown = new or old
    assert shown is not None
    return RankedChunk(
        source=shown.source,
        document_id=shown.document_id,
        chunk_id=shown.chunk_id,
        path=shown.path,
        start_line=shown.start_line,
        end_line=shown.end_line,
        snippet=shown.snippet,
        old_rank=None if old is None else old.rank,
        new_rank=None if new is None else new.rank,
        old_score=None if old is None else old.semantic_score,
        new_score=None if new is None else new.semantic_score,
        move=why.move(old, new),
    )


class _Moves:
    """Says why a chunk ranks otherwise; remembers the chunks of the documents it looked at."""

    def __init__(self, connection: Connection, pairs: Sequence[VersionPair]) -> None:
        self._connection = connection
        self._by_old = {_identity(pair.old): pair for pair in pairs if pair.old is not None}
        self._by_new = {_identity(pair.new): pair for pair in pairs if pair.new is not None}
        self._texts: dict[tuple[Identity, int], dict[str, int]] = {}

    def move(self, old: Hit | None, new: Hit | None) -> Move:
        """Why the chunk's ranks differ, or `same`."""
        pair = self._pair(old, new)
        if pair is None:
            return _unlike(old, new)
        if pair.old is None:
            return "added"
        if pair.new is None:
            return "removed"
        old_text = self._text(pair.old, old, pair.new, new)
        new_text = self._text(pair.new, new, pair.old, old)
        if old_text is None or new_text is None:
            return "changed"
        if old_text != new_text:
            return "vector"
        return "renamed" if pair.kind == "renamed" else _unlike(old, new)

    def _pair(self, old: Hit | None, new: Hit | None) -> VersionPair | None:
        if new is not None:
            return self._by_new.get((new.source, new.document_id))
        assert old is not None
        return self._by_old.get((old.source, old.document_id))

    def _text(
        self,
        version: ComparedVersion,
        hit: Hit | None,
        other: ComparedVersion,
        in_other: Hit | None,
    ) -> int | None:
        """The embedding text of a chunk in a version, None if the version has no such chunk.

        Args:
            hit: the chunk as found in the version's generation, if it was.
            in_other: else as found in the other one, whose version is `other`.
        """
        if hit is not None:
            return self._chunks(_identity(version), version.parse_id)[hit.chunk_id]
        assert in_other is not None
        # As the other version names its chunks: a rename changes the ids.
        return self._chunks(_identity(other), version.parse_id).get(in_other.chunk_id)

    def _chunks(self, named: Identity, parse_id: int) -> dict[str, int]:
        key = (named, parse_id)
        if key not in self._texts:
            self._texts[key] = {
                chunk_id(*named, fingerprint, occurrence): text_id
                for (fingerprint, occurrence), text_id in chunk_texts(
                    self._connection, parse_id
                ).items()
            }
        return self._texts[key]


def _unlike(old: Hit | None, new: Hit | None) -> Move:
    is_same = old is not None and new is not None and old.rank == new.rank
    return "same" if is_same else "others"
