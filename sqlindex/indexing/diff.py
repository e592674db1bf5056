"""Compare what sources list with the head: what changed, what is gone, what stays."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from sqlindex.cancellation import CancelToken
from sqlindex.errors import DocumentRefusedError, SourceError, SqlindexError
from sqlindex.indexing.prepare import PreparedDocument, Workshop, unsupported
from sqlindex.indexing.report import ChangeLog, DocumentChange, Progress, ProgressSink
from sqlindex.model.documents import DocumentRef, FileStat, RawDocument, Refusal, RefusalReason
from sqlindex.ports import LeavesOut, Source
from sqlindex.store.documents import LiveVersion, live_version, live_versions, row_check8
from sqlindex.store.driver import Connection
from sqlindex.store.sources import SourceRow, StatRow, file_stats

RACY_NS = 2_000_000_000
"""A file changed this shortly before it was read may have changed again within the same time
stamp: the coarsest clock of common file systems ticks every two seconds."""

Lookup = Callable[[str], LiveVersion | None]


@dataclass(frozen=True, slots=True)
class Listing:
    """A registered source and what lists it now.

    Attributes:
        row: the registered source.
        adapter: lists and reads its documents.
        is_complete: whether what the listing does not name is gone; False for pushed documents.
    """

    row: SourceRow
    adapter: Source
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class Rules:
    """How strict the walk is.

    Attributes:
        strict: a refused document ends the refresh (formats that are not indexed excepted).
        verify: read and hash every file, also those whose stat is unchanged.
    """

    strict: bool = False
    verify: bool = False


@dataclass(slots=True)
class SourceDifference:
    """What a walk over one source found; complete once the walk has ended.

    Attributes:
        stats: file stats to remember.
        gone_stats: document ids whose stats are to be forgotten.
        removed: live versions that end.
        seen_ids: listed documents that are indexed; for partial listings.
    """

    row: SourceRow
    stats: list[tuple[str, StatRow]] = field(default_factory=list)
    gone_stats: list[str] = field(default_factory=list)
    removed: list[LiveVersion] = field(default_factory=list)
    refused: dict[Refusal, bool] = field(default_factory=dict)
    seen_ids: list[str] = field(default_factory=list)
    is_complete: bool = True


def walk(
    connection: Connection,
    listing: Listing,
    workshop: Workshop,
    rules: Rules,
    log: ChangeLog,
    difference: SourceDifference,
    *,
    cancel: CancelToken,
    progress: ProgressSink,
) -> Iterator[PreparedDocument]:
    """Yield every document of a source that is new or changed; fill `log` and `difference`.

    Removals and renames are known only when the listing has ended without an error.

    Raises:
        SourceError: the listing failed or named a document twice.
        DocumentRefusedError: `rules.strict` and a document was refused.
    """
    source_id = listing.row.source_id
    live = live_versions(connection, source_id) if listing.is_complete else {}
    known_stats = file_stats(connection, source_id) if listing.is_complete else {}

    def lookup(document_id: str) -> LiveVersion | None:
        if listing.is_complete:
            return live.get(document_id)
        return live_version(connection, source_id, document_id)

    added: dict[str, bytes] = {}
    seen: set[str] = set()
    for entry in _listed(listing):
        cancel.check()
        if log.listed % 64 == 0:
            progress(Progress("read", log.listed))
        log.listed += 1
        if isinstance(entry, Refusal):
            _refuse(entry, rules, listing.row.name, difference)
            continue
        if entry.document_id in seen:
            raise SourceError(
                f"source {listing.row.name!r} lists document {entry.document_id!r} twice",
                hint="document ids must be unique within a source",
            )
        seen.add(entry.document_id)
        version = lookup(entry.document_id)
        recipe = workshop.recipe(entry.type_name)
        if recipe is None:
            _refuse(
                unsupported(entry.document_id, entry.type_name), rules, listing.row.name, difference
            )
            seen.discard(entry.document_id)
            continue
        known = known_stats.get(entry.document_id)
        if (
            not rules.verify
            and version is not None
            and version.recipe == recipe
            and _is_unchanged(entry.stat, known, version)
        ):
            log.unchanged += 1
            _mark_seen(entry, listing, difference)
            continue
        read_ns = time.time_ns()
        raw = _read(listing, entry)
        if isinstance(raw, Refusal):
            _refuse(raw, rules, listing.row.name, difference)
            seen.discard(entry.document_id)
            continue
        raw_digest = sha256(raw.data).digest()
        _remember(entry, raw, read_ns, raw_digest, known, difference)
        is_same_file = (
            version is not None
            and entry.stat is not None
            and version.recipe == recipe
            and version.raw_digest == raw_digest
        )
        if is_same_file and not rules.verify:
            log.unchanged += 1
            _mark_seen(entry, listing, difference)
            continue
        prepared = workshop.prepare(connection, entry, raw, raw_digest)
        if isinstance(prepared, Refusal):
            _refuse(prepared, rules, listing.row.name, difference)
            seen.discard(entry.document_id)
            continue
        _mark_seen(entry, listing, difference)
        if version is None:
            added[entry.document_id] = raw_digest
        elif version.recipe != prepared.recipe and version.raw_digest == raw_digest:
            log.reparsed += 1
            log.documents.append(DocumentChange("reparsed", listing.row.name, entry.document_id))
        elif is_same_file or version.row_check8 == row_check8(source_id, prepared.version):
            # Also a host's document that says the same as before.
            if prepared.parse is None:
                log.unchanged += 1
                continue
            # Its stored text is damaged: staging it again makes it whole.
            log.reparsed += 1
            log.documents.append(DocumentChange("reparsed", listing.row.name, entry.document_id))
        else:
            log.documents.append(DocumentChange("changed", listing.row.name, entry.document_id))
        yield prepared
    if isinstance(listing.adapter, LeavesOut):
        log.left_out += listing.adapter.ignored_count
    if listing.is_complete:
        _end_of_listing(listing, live, known_stats, seen, difference)
    _log_refusals(difference, lookup, listing.row.name, log)
    _match_renames(listing.row.name, added, difference.removed, log)


def _mark_seen(ref: DocumentRef, listing: Listing, difference: SourceDifference) -> None:
    if not listing.is_complete:
        difference.seen_ids.append(ref.document_id)


def _listed(listing: Listing) -> Iterator[DocumentRef | Refusal]:
    """What the adapter lists. A host's own database error must not pass for one of the index."""
    try:
        for entry in listing.adapter.list():
            if not isinstance(entry, DocumentRef | Refusal):
                raise TypeError(f"the listing names {type(entry).__name__}, no DocumentRef")
            if isinstance(entry, DocumentRef):
                if not entry.document_id or "\0" in entry.document_id:
                    raise ValueError(f"document id {entry.document_id!r} is empty or holds a NUL")
                for text in (entry.document_id, entry.path, entry.type_name):
                    text.encode("utf-8")
            yield entry
    except SqlindexError:
        raise
    except Exception as exc:
        raise _broken(listing, "cannot be listed", exc) from exc


def _read(listing: Listing, ref: DocumentRef) -> RawDocument | Refusal:
    try:
        raw = listing.adapter.read(ref)
        if isinstance(raw, Refusal):
            return raw
        if not isinstance(raw, RawDocument):
            raise TypeError(f"it was read as {type(raw).__name__}, no RawDocument")
        _check(raw)
        return raw
    except SqlindexError:
        raise
    except Exception as exc:
        raise _broken(listing, f"failed on document {ref.document_id!r}", exc) from exc


def _check(raw: RawDocument) -> None:
    """Find out now, and not in the middle of a transaction, what the file cannot hold.

    Raises:
        TypeError, ValueError: a field has another type than it says.
    """
    if not isinstance(raw.data, bytes):
        raise TypeError(f"data is {type(raw.data).__name__}, not bytes")
    if raw.modified_ns is not None and not -(2**63) <= raw.modified_ns < 2**63:
        raise ValueError(f"modified_ns {raw.modified_ns} is out of range")
    texts = (raw.uri, raw.title, raw.date, *raw.tags)
    if raw.metadata or any(texts):
        json.dumps([texts, dict(raw.metadata)], ensure_ascii=False, allow_nan=False).encode("utf-8")


def _broken(listing: Listing, what: str, exc: Exception) -> SourceError:
    return SourceError(
        f"source {listing.row.name!r} {what}: {type(exc).__name__}: {exc}",
        hint="see the cause; nothing was deleted",
    )


def _is_unchanged(stat: FileStat | None, known: StatRow | None, version: LiveVersion) -> bool:
    if (
        stat is None
        or known is None
        or stat != known.stat
        or known.raw_digest != version.raw_digest
    ):
        return False
    return max(stat.mtime_ns, stat.ctime_ns) + RACY_NS < known.read_ns


def _remember(
    ref: DocumentRef,
    raw: RawDocument,
    read_ns: int,
    raw_digest: bytes,
    known: StatRow | None,
    difference: SourceDifference,
) -> None:
    stat = raw.stat or ref.stat
    if stat is not None:
        row = StatRow(stat, read_ns, raw_digest)
        if (
            known is None
            or known.stat != stat
            or known.raw_digest != raw_digest
            or _was_racy(known)
        ):
            difference.stats.append((ref.document_id, row))


def _was_racy(known: StatRow) -> bool:
    return max(known.stat.mtime_ns, known.stat.ctime_ns) + RACY_NS >= known.read_ns


def _refuse(refusal: Refusal, rules: Rules, source: str, difference: SourceDifference) -> None:
    if rules.strict and refusal.reason is not RefusalReason.UNSUPPORTED:
        raise DocumentRefusedError(
            f"{source}: {refusal.document_id}: {refusal.reason.value}: {refusal.detail}",
            hint=refusal.hint or "fix the document, exclude it, or refresh without strict",
        )
    difference.refused[refusal] = False


def _end_of_listing(
    listing: Listing,
    live: dict[str, LiveVersion],
    known_stats: dict[str, StatRow],
    seen: set[str],
    difference: SourceDifference,
) -> None:
    kept_ids = {r.document_id for r in difference.refused if r.reason.keeps_last_version}
    kept_folders = tuple(i for i in kept_ids if i.endswith("/"))

    def is_kept(document_id: str) -> bool:
        return document_id in kept_ids or bool(
            kept_folders and document_id.startswith(kept_folders)
        )

    for document_id, version in sorted(live.items()):
        if document_id not in seen and not is_kept(document_id):
            difference.removed.append(version)
    difference.gone_stats.extend(i for i in known_stats if i not in seen and not is_kept(i))


def _log_refusals(
    difference: SourceDifference, lookup: Lookup, source: str, log: ChangeLog
) -> None:
    for refusal in difference.refused:
        is_kept = refusal.reason.keeps_last_version and (
            refusal.document_id.endswith("/") or lookup(refusal.document_id) is not None
        )
        difference.refused[refusal] = is_kept
        log.refused.append((source, refusal, is_kept))


def _match_renames(
    source: str, added: dict[str, bytes], removed: Sequence[LiveVersion], log: ChangeLog
) -> None:
    """Pair added and removed documents with equal bytes, as multisets, in order of their ids."""
    gone: dict[bytes, list[str]] = defaultdict(list)
    for version in removed:
        gone[version.raw_digest].append(version.document_id)
    paired: set[str] = set()
    for document_id in sorted(added):
        old = gone.get(added[document_id])
        if old:
            old_id = old.pop(0)
            paired.add(old_id)
            log.documents.append(DocumentChange("renamed", source, document_id, old_id))
        else:
            log.documents.append(DocumentChange("added", source, document_id))
    for version in removed:
        if version.document_id not in paired:
            log.documents.append(DocumentChange("removed", source, version.document_id))
