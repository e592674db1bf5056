"""Compare what sources list with the head: what changed, what is gone, what stays."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from sqlindex.cancellation import CancelToken
from sqlindex.errors import DocumentRefusedError, SourceError, SqlindexError
from sqlindex.filetypes.unsupported import unsupported
from sqlindex.indexing.given import check_entry, check_raw
from sqlindex.indexing.parsing import Parsing
from sqlindex.indexing.prepare import Draft, Parsed, PreparedDocument, Workshop
from sqlindex.indexing.report import ProgressSink, Tally
from sqlindex.indexing.resume import StagedBefore
from sqlindex.indexing.seen import SeenVersions
from sqlindex.model.documents import DocumentRef, FileStat, RawDocument, Refusal, RefusalReason
from sqlindex.ports import OnFileSystem, Source
from sqlindex.store.documents import (
    KnownDocument,
    LiveVersion,
    known_document,
    live_in_scope,
    row_check8,
)
from sqlindex.store.driver import Connection
from sqlindex.store.ledger import Ledger
from sqlindex.store.scope import EVERYTHING, NOTHING, Scope
from sqlindex.store.sources import SourceRow, StatRow, refusal_of, refused_ids_in_scope

RACY_NS = 2_000_000_000
"""A file changed this shortly before it was read may have changed again within the same time
stamp: the coarsest clock of common file systems ticks every two seconds."""


_WAITING_DOCUMENTS = 512
_WAITING_CHARS = 8_000_000
"""Past so many documents or characters that wait for one before them, no other is read."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A registered source and what lists it now.

    Attributes:
        row: the registered source.
        adapter: lists and reads its documents.
        scope: where the listing is complete: what lies there and is not named is gone.
    """

    row: SourceRow
    adapter: Source
    scope: Scope = EVERYTHING


@dataclass(frozen=True, slots=True)
class Rules:
    """How strict the walk is.

    Attributes:
        strict: a refused document ends the refresh (formats that are not indexed excepted).
        verify: read and hash every file, also those whose stat is unchanged.
        anew: parse and stage every document, also those that are as they were; what an interrupted
            run of the build has staged stays.
    """

    strict: bool = False
    verify: bool = False
    anew: bool = False


@dataclass(frozen=True, slots=True)
class TouchedFile:
    """A file that was read and has not changed: its stat is remembered, to save the next reading."""

    document_id: str
    stat: StatRow


def walk(
    connection: Connection,
    listing: Listing,
    workshop: Workshop,
    rules: Rules,
    ledger: Ledger,
    tally: Tally,
    *,
    cancel: CancelToken,
    parsing: Parsing,
    progress: ProgressSink,
    before: StagedBefore | None = None,
) -> Generator[PreparedDocument | TouchedFile]:
    """Yield every document of a source that is new or changed; note all in `ledger` and `tally`.

    Removals are known only when the listing has ended without an error.

    Args:
        parsing: who parses; documents that are being parsed are yielded in their order.
        before: what the build has staged already; documents that are still so are not yielded.

    Raises:
        SourceError: the listing failed or named a document twice.
        DocumentRefusedError: `rules.strict` and a document was refused.
    """
    comparison = _Comparison(connection, listing, workshop, rules, ledger, tally, before)
    desk = _Desk(parsing)
    with closing(_listed(listing)) as entries:
        for entry in entries:
            cancel.check()
            if tally.listed % 64 == 0:
                progress(tally.progress)
            tally.listed += 1
            if isinstance(entry, Refusal):
                comparison.refuse(entry)
                continue
            found = comparison.compare(entry)
            if isinstance(found, _Unparsed):
                yield from desk.take(found)
            elif found is not None:
                yield found
    yield from desk.rest()
    comparison.end(cancel)


@dataclass(slots=True)
class _Unparsed:
    """A document that is being parsed, and what is to be done with the outcome."""

    draft: Draft
    settle: Callable[[Parsed | Exception], PreparedDocument | TouchedFile | None]
    outcome: Parsed | Exception | None = None


class _Desk:
    """Documents that are being parsed, in their order."""

    def __init__(self, parsing: Parsing) -> None:
        self._parsing = parsing
        self._waiting: deque[tuple[int, _Unparsed]] = deque()
        self._started = 0
        self._chars = 0

    def take(self, document: _Unparsed) -> Iterator[PreparedDocument | TouchedFile]:
        """Let a document be parsed; yields those that are ready meanwhile."""
        ref, text = document.draft.ref, document.draft.decoded.text
        self._parsing.start(self._started, ref.document_id, ref.type_name, text)
        self._waiting.append((self._started, document))
        self._started += 1
        self._chars += len(text)
        while self._waiting and (
            not self._parsing.is_free
            or len(self._waiting) > _WAITING_DOCUMENTS
            or self._chars > _WAITING_CHARS
        ):
            yield from self._next()

    def rest(self) -> Iterator[PreparedDocument | TouchedFile]:
        """Wait for all that are left."""
        while self._waiting:
            yield from self._next()

    def _next(self) -> Iterator[PreparedDocument | TouchedFile]:
        number, outcome = self._parsing.finished()
        self._waiting[number - self._waiting[0][0]][1].outcome = outcome
        while self._waiting and self._waiting[0][1].outcome is not None:
            _, document = self._waiting.popleft()
            self._chars -= len(document.draft.decoded.text)
            assert document.outcome is not None
            found = document.settle(document.outcome)
            if found is not None:
                yield found


class _Comparison:
    """One source's listing against the head, an entry at a time."""

    def __init__(
        self,
        connection: Connection,
        listing: Listing,
        workshop: Workshop,
        rules: Rules,
        ledger: Ledger,
        tally: Tally,
        before: StagedBefore | None,
    ) -> None:
        self._connection = connection
        self._before = before
        self._listing = listing
        self._workshop = workshop
        self._rules = rules
        self._ledger = ledger
        self._tally = tally
        self._source_id = listing.row.source_id
        self._seen = SeenVersions()
        self._is_whole = listing.scope == EVERYTHING
        # Pushed documents have names and no folders, whatever signs their ids hold.
        self._has_folders = listing.scope != NOTHING
        self._folders_let_in: set[str] = set()

    def compare(self, entry: DocumentRef) -> PreparedDocument | TouchedFile | _Unparsed | None:
        """What is to be stored of a listed document, or None if nothing is."""
        recipe = self._workshop.recipe(entry.type_name)
        if recipe is None:
            self.refuse(unsupported(entry.document_id, entry.type_name))
            return None
        known = known_document(self._connection, self._source_id, entry.document_id)
        version, stat = (None, None) if known is None else (known.version, known.stat)
        is_named = version is not None and version.version_id in self._seen
        if is_named or self._ledger.is_refused(self._source_id, entry.document_id):
            raise self._listed_twice(entry.document_id)
        if (
            self._trusts_stat
            and not self._rules.anew
            and version is not None
            and version.recipe == recipe
            and is_unchanged(entry.stat, stat, version)
        ):
            self._stays(version)
            return None
        staged = self._staged(entry, recipe)
        if (
            self._trusts_stat
            and staged is not None
            and is_unchanged(entry.stat, staged.stat, staged.version)
        ):
            self._stays_staged(version, staged.version)
            return None
        read_ns = time.time_ns()
        raw = _read(self._listing, entry)
        if isinstance(raw, Refusal):
            self.refuse(raw)
            return None
        raw_digest = sha256(raw.data).digest()
        is_same_file = (
            version is not None
            and entry.stat is not None
            and version.recipe == recipe
            and version.raw_digest == raw_digest
        )
        if stat is None and staged is not None:
            stat = staged.stat
        new_stat = _stat_to_remember(entry, raw, read_ns, raw_digest, stat)
        touched = None if new_stat is None else TouchedFile(entry.document_id, new_stat)
        if version is not None and is_same_file and not (self._rules.verify or self._rules.anew):
            self._stays(version)
            return touched
        if (
            staged is not None
            and staged.version.raw_digest == raw_digest
            and not self._rules.verify
        ):
            self._stays_staged(version, staged.version)
            return touched
        prepared = self._workshop.prepare(
            self._connection, entry, raw, raw_digest, is_anew=self._rules.anew
        )

        def settle(found: PreparedDocument | Refusal) -> PreparedDocument | TouchedFile | None:
            return self._settled(
                entry, found, version, raw_digest, new_stat, is_same_file=is_same_file
            )

        if isinstance(prepared, Draft):
            draft = prepared
            return _Unparsed(draft, lambda outcome: settle(self._workshop.finish(draft, outcome)))
        return settle(prepared)

    def _settled(
        self,
        entry: DocumentRef,
        prepared: PreparedDocument | Refusal,
        version: LiveVersion | None,
        raw_digest: bytes,
        new_stat: StatRow | None,
        *,
        is_same_file: bool,
    ) -> PreparedDocument | TouchedFile | None:
        """What is to be stored of a document that was read; it is noted in the ledger."""
        if isinstance(prepared, Refusal):
            self.refuse(prepared)
            return None
        if version is None:
            kind = "added"
        elif version.recipe != prepared.recipe and version.raw_digest == raw_digest:
            kind = "reparsed"
        elif is_same_file or version.row_check8 == row_check8(self._source_id, prepared.version):
            # Also a host's document that says the same as before.
            if prepared.parse is None:
                self._stays(version)
                return None if new_stat is None else TouchedFile(entry.document_id, new_stat)
            # Its stored text is damaged: staging it again makes it whole. Or it is asked for.
            kind = "reparsed"
        else:
            kind = "changed"
        self._accept(entry.document_id, version, kind, raw_digest)
        return replace(prepared, stat=new_stat)

    def _staged(self, entry: DocumentRef, recipe: str) -> KnownDocument | None:
        """What the build has staged of a file under the present recipe.

        A host's document says more than its bytes: it is read and staged again, from stored chunks.
        """
        if self._before is None or entry.stat is None:
            return None
        staged = self._before.find(self._source_id, entry.document_id)
        return None if staged is None or staged.version.recipe != recipe else staged

    def _stays_staged(self, version: LiveVersion | None, staged: LiveVersion) -> None:
        """Keep what an earlier run of the build has staged; the change is counted as it was then."""
        assert self._before is not None
        self._before.confirm(staged.version_id)
        if version is None:
            kind = "added"
        elif version.recipe != staged.recipe and version.raw_digest == staged.raw_digest:
            kind = "reparsed"
        else:
            kind = "changed"
        self._accept(staged.document_id, version, kind, staged.raw_digest)

    @cached_property
    def _trusts_stat(self) -> bool:
        # Asked when the first entry has been listed: only then is an automounted folder there. Where
        # caches of a network lie about size and times, only the bytes tell.
        adapter = self._listing.adapter
        return not self._rules.verify and (
            not isinstance(adapter, OnFileSystem) or adapter.trusts_stat
        )

    def refuse(self, refusal: Refusal) -> None:
        """Note a document that is not indexed.

        Raises:
            DocumentRefusedError: the rules are strict, and it is no matter of format or rules.
        """
        reason = refusal.reason
        is_harmless = reason is RefusalReason.UNSUPPORTED or reason.is_left_out
        if self._rules.strict and not is_harmless:
            raise DocumentRefusedError(
                f"{self._listing.row.name}: {refusal.document_id}: {reason.value}: {refusal.detail}",
                hint=refusal.hint or "fix the document, exclude it, or refresh without strict",
            )
        known = known_document(self._connection, self._source_id, refusal.document_id)
        if self._is_accepted(refusal.document_id, known):
            raise self._listed_twice(refusal.document_id)
        is_folder = self._has_folders and refusal.document_id.endswith("/")
        is_kept = reason.keeps_last_version and (is_folder or known is not None)
        if known is not None and not is_kept and self._listing.scope == NOTHING:
            # A host has put something else in its place, which cannot be indexed.
            self._end_version(known.version)
        told = refusal_of(self._connection, self._source_id, refusal.document_id)
        self._ledger.add_refusal(
            self._source_id, refusal, is_kept=is_kept, is_news=told != (refusal, is_kept)
        )

    def end(self, cancel: CancelToken) -> None:
        """Note what the listing, now complete within its scope, no longer names."""
        connection, source_id, scope = self._connection, self._source_id, self._listing.scope
        for version in cancel.checked(live_in_scope(connection, source_id, scope)):
            is_seen = version.version_id in self._seen
            if not is_seen and not self._ledger.keeps(
                source_id, version.document_id, with_folders=self._has_folders
            ):
                self._end_version(version)
        for document_id in refused_ids_in_scope(connection, source_id, scope):
            if not self._ledger.is_refused(source_id, document_id):
                self._ledger.readmit(source_id, document_id)

    def _end_version(self, version: LiveVersion) -> None:
        self._seen.add(version.version_id)
        self._ledger.add_removal(
            self._source_id, version.document_id, version.raw_digest, version.version_id
        )

    def _is_accepted(self, document_id: str, known: KnownDocument | None) -> bool:
        if known is not None:
            return known.version.version_id in self._seen
        return self._ledger.ends(self._source_id, document_id)

    def _stays(self, version: LiveVersion) -> None:
        self._seen.add(version.version_id)
        self._tally.unchanged += 1
        self._forget_refusal(version.document_id)

    def _accept(
        self, document_id: str, version: LiveVersion | None, kind: str, raw_digest: bytes
    ) -> None:
        if version is not None:
            self._seen.add(version.version_id)
        if not self._ledger.add_change(self._source_id, document_id, kind, raw_digest):
            raise self._listed_twice(document_id)
        self._forget_refusal(document_id)

    def _forget_refusal(self, document_id: str) -> None:
        # A complete listing sees at its end which refusals no longer hold. A part must look: at the
        # document, and at the folders above it, which have let it in.
        if self._is_whole:
            return
        ids = [document_id]
        at = document_id.rfind("/") if self._has_folders else -1
        while at >= 0 and document_id[: at + 1] not in self._folders_let_in:
            self._folders_let_in.add(document_id[: at + 1])
            ids.append(document_id[: at + 1])
            at = document_id.rfind("/", 0, at)
        for id_ in ids:
            if refusal_of(self._connection, self._source_id, id_) is not None:
                self._ledger.readmit(self._source_id, id_)

    def _listed_twice(self, document_id: str) -> SourceError:
        return SourceError(
            f"source {self._listing.row.name!r} lists document {document_id!r} twice",
            hint="document ids must be unique within a source",
        )


def _listed(listing: Listing) -> Generator[DocumentRef | Refusal]:
    """What the adapter lists. A host's own database error must not pass for one of the index."""
    try:
        for entry in listing.adapter.list():
            check_entry(entry)
            yield entry
    except SqlindexError:
        raise
    except Exception as exc:  # a host's source may raise anything
        raise _broken(listing, "cannot be listed", exc) from exc


def _read(listing: Listing, ref: DocumentRef) -> RawDocument | Refusal:
    try:
        raw = listing.adapter.read(ref)
        if isinstance(raw, Refusal):
            check_entry(raw)
        else:
            check_raw(raw)
        return raw
    except SqlindexError:
        raise
    except Exception as exc:  # a host's source may raise anything
        raise _broken(listing, f"failed on document {ref.document_id!r}", exc) from exc


def _broken(listing: Listing, what: str, exc: Exception) -> SourceError:
    return SourceError(
        f"source {listing.row.name!r} {what}: {type(exc).__name__}: {exc}",
        hint="see the cause; nothing was deleted",
    )


def is_unchanged(stat: FileStat | None, known: StatRow | None, version: LiveVersion) -> bool:
    """Whether a listed file needs no reading: it has the stat with which the head's version was
    read, long enough after its last change for a further one to show in its times."""
    if (
        stat is None
        or known is None
        or stat != known.stat
        or known.raw_digest != version.raw_digest
    ):
        return False
    return max(stat.mtime_ns, stat.ctime_ns) + RACY_NS < known.read_ns


def _stat_to_remember(
    ref: DocumentRef, raw: RawDocument, read_ns: int, raw_digest: bytes, known: StatRow | None
) -> StatRow | None:
    """What to keep of a file that was read, unless the index has it already."""
    stat = raw.stat or ref.stat
    if stat is None:
        return None
    is_known = known is not None and known.stat == stat and known.raw_digest == raw_digest
    if known is not None and is_known and not _was_racy(known):
        return None
    return StatRow(stat, read_ns, raw_digest)


def _was_racy(known: StatRow) -> bool:
    return max(known.stat.mtime_ns, known.stat.ctime_ns) + RACY_NS >= known.read_ns
