"""Repair an index: derived rows are made anew, damaged truth is named and bypassed.

Nothing is embedded and no source is read. Every step is a transaction of its own and finds its
faults again, so a process that ends in between leaves an index that a second run completes. Until
then what is damaged is an error where a search meets it, as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, cast

from sqlindex.analysis.analyser import analyse, analyzer_fingerprint
from sqlindex.cancellation import CancelToken
from sqlindex.chunking.identity import content_fingerprint
from sqlindex.indexing.build import key_at
from sqlindex.indexing.prepare import input_mark
from sqlindex.indexing.publishing import publish_build
from sqlindex.indexing.report import no_progress
from sqlindex.store import lost_rows
from sqlindex.store.builds import begin_build, drop_build, unreadable_builds
from sqlindex.store.check import Finding, lexical_faults, slot_faults
from sqlindex.store.contents import mend_length
from sqlindex.store.damage import (
    CHUNK_FINGERPRINT,
    CHUNK_KEY,
    TEXT_LENGTH,
    UNREADABLE,
    require_damage,
    text_faults,
)
from sqlindex.store.documents import stage_removals
from sqlindex.store.driver import Connection, read_any_text
from sqlindex.store.gated import forget_gate, unreadable_records
from sqlindex.store.generations import ChangeCounts
from sqlindex.store.links import remake_names, wrong_names
from sqlindex.store.mend_generations import (
    mend_counts,
    mend_generations,
    mend_next_slot,
    spaceless_generations,
)
from sqlindex.store.mend_lexical import mend_spare, renew_spare, swap_lexical
from sqlindex.store.mend_lists import mend_lists
from sqlindex.store.mend_questions import mend_questions
from sqlindex.store.mend_sources import mend_sources
from sqlindex.store.mend_structure import forget_suspects, mend_structure
from sqlindex.store.mend_vectors import mend_keys, mend_vectors
from sqlindex.store.parses import damaged_parses
from sqlindex.store.sources import drop_file_stats
from sqlindex.store.watch import CheckedConnection
from sqlindex.store.writer import Writer

_NAMES_PER_STEP = 500
"""Documents whose names are made anew in one transaction."""

Outcome = Literal["rebuilt", "dropped", "reembed", "lost", "removed"]
"""Made anew from what is whole; taken out, and nothing needs it; its vector is made again by the next
refresh; gone until it is indexed again; a question, taken out until somebody adds it again."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What a repair did about one fault."""

    what: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair did.

    Attributes:
        generation: the head afterwards.
        is_published: whether documents were lost, so that a new generation goes without them.
        mended: what was done, in order; empty if nothing was wrong.
        remaining: what `check` still finds.
    """

    generation: int
    is_published: bool
    mended: tuple[Mended, ...]
    remaining: tuple[Finding, ...]

    @property
    def needs_refresh(self) -> bool:
        """Whether something was bypassed that a refresh, or indexing again, brings back."""
        return any(each.outcome in ("reembed", "lost") for each in self.mended)

    @property
    def lost_questions(self) -> bool:
        """Whether golden questions were taken out, which nothing but their author brings back."""
        return any(each.outcome == "removed" for each in self.mended)


@dataclass(slots=True)
class _Damage:
    """Rows of truth that do not say what was stored, and what hangs on them."""

    contents: set[int] = field(default_factory=set)
    lengths: list[int] = field(default_factory=list)
    parses: set[int] = field(default_factory=set)
    versions: dict[int, str] = field(default_factory=dict)
    keys: list[tuple[int, int, int | None, bytes | None]] = field(default_factory=list)


def repair(
    writer: Writer, *, cancel: CancelToken, step: Callable[[str], None]
) -> tuple[Mended, ...]:
    """Make the index whole again, as far as it can be.

    Raises:
        CorruptIndexError: pages of a table, or the last generation, cannot be read; nothing of
            them is changed.
        CancelledError: cancelled between two steps; those done stay done.
    """
    read_any_text(writer.connection)
    connection = CheckedConnection(writer.connection, cancel)
    # What is damaged may break a constraint while it is being ended.
    connection.execute("PRAGMA ignore_check_constraints=ON")
    mended: list[Mended] = []

    def note(outcome: Outcome, whats: Iterable[str]) -> None:
        mended.extend(Mended(what, outcome) for what in whats)

    step("structure")
    with writer.transaction(durable=True):
        for what, is_gone in mend_structure(connection, writer.path):
            note("dropped" if is_gone else "rebuilt", [what])
    step("generations")
    with writer.transaction(durable=True):
        for what, is_gone in mend_generations(connection):
            note("dropped" if is_gone else "rebuilt", [what])
        for generation in spaceless_generations(connection):
            note("lost", [f"vector space of generation {generation}"])
        for what, is_lost in mend_counts(connection):
            note("lost" if is_lost else "rebuilt", [what])
    step("sources")
    with writer.transaction():
        for what, outcome in mend_sources(connection):
            note(cast(Outcome, outcome), [what])
        note("removed", mend_questions(connection))
    for build_id in unreadable_builds(connection):
        drop_build(writer, build_id)
        note("dropped", [f"unfinished build {build_id}"])
    for build_id in unreadable_records(connection):
        with writer.transaction():
            forget_gate(connection, build_id)
        note("dropped", [f"what a gate measured of build {build_id}"])
    step("rows and texts")
    damage = _find_damage(connection)
    step("lexical rows")
    live = [
        version
        for version_id in sorted(damage.versions)
        if (version := lost_rows.version(connection, version_id)) is not None
        and version.born is not None
        and version.died is None
    ]
    if live:
        _end_documents(writer, live, cancel)
    elif _is_lexical_wrong(connection):
        swap_lexical(writer, (analyse, analyzer_fingerprint()), cancel)
        note("rebuilt", ["the lexical table"])
    elif mend_spare(writer):
        note("rebuilt", ["the lexical table that is out of use"])
    step("lost rows")
    with writer.transaction(durable=True):
        note("lost", _forget(connection, damage))
        note("dropped", _forget_texts(connection, damage))
        mend_counts(connection)
        if mend_next_slot(connection):
            note("rebuilt", ["the next slot"])
        if forget_suspects(connection):
            note("rebuilt", ["what an index and its table disagreed on"])
    step("keys and vectors")
    with writer.transaction():
        for content_id in damage.lengths:
            mend_length(connection, content_id)
            note("rebuilt", [f"the number of characters of content {content_id}"])
        mend_keys(connection, damage.keys)
        note("rebuilt", (f"key of chunk {parse_id}/{ord_}" for parse_id, ord_, *_ in damage.keys))
        for what, outcome in mend_vectors(connection):
            note(cast(Outcome, outcome), [what])
    writer.bound_log()
    step("names")
    wrong_versions = wrong_names(connection)
    for at in range(0, len(wrong_versions), _NAMES_PER_STEP):
        cancel.check()
        with writer.transaction():
            remake_names(connection, wrong_versions[at : at + _NAMES_PER_STEP])
        writer.bound_log()
    if wrong_versions:
        note("rebuilt", [f"names of {len(wrong_versions)} documents, by which links find them"])
    step("lists")
    with writer.transaction():
        for what, outcome in mend_lists(connection):
            note(cast(Outcome, outcome), [what])
        mend_counts(connection)
    writer.bound_log()
    return tuple(mended)


def _find_damage(connection: Connection) -> _Damage:
    found = _Damage()
    found.versions = lost_rows.unsound_versions(connection)
    found.parses = {*damaged_parses(connection), *lost_rows.parses_without_content(connection)}
    faults = text_faults(
        connection,
        fingerprint=content_fingerprint,
        embedding_key=key_at,
        input_mark=input_mark(),
        damaged_parses=found.parses,
    )
    for fault in faults:
        if fault.rule == TEXT_LENGTH:
            found.lengths.append(fault.content_id)
        elif fault.parse_id is None:
            found.contents.add(fault.content_id)
            found.parses.update(lost_rows.parses_of(connection, fault.content_id))
        elif fault.rule == CHUNK_FINGERPRINT:
            found.parses.add(fault.parse_id)
        elif fault.rule == CHUNK_KEY:
            assert fault.ord is not None
            found.keys.append((fault.parse_id, fault.ord, fault.text_id, fault.key))
    for parse_id in found.parses:
        for version_id in lost_rows.versions_of(connection, parse_id):
            found.versions.setdefault(version_id, "its text, or how it was cut, is damaged")
    found.keys = [key for key in found.keys if key[0] not in found.parses]
    return found


def _is_lexical_wrong(connection: Connection) -> bool:
    try:
        if any(True for _ in slot_faults(connection)):
            return True
        return any(True for _ in lexical_faults(connection, analyzer_fingerprint(), analyse))
    except UNREADABLE as exc:
        require_damage(exc)
        return True


def _end_documents(writer: Writer, lost: list[lost_rows.Version], cancel: CancelToken) -> None:
    """Publish a generation without these live versions; the lexical table is made anew for it."""
    renew_spare(writer)
    with writer.transaction() as connection:
        build_id, head = begin_build(connection, "", {})
        stage_removals(connection, build_id, (version.version_id for version in lost))
    publish_build(
        writer,
        build_id,
        head,
        cause="repair",
        space_id=head.space_id,
        counts=ChangeCounts(removed=len(lost)),
        staged_fts_chunks=0,  # what is damaged cannot be taken out of the live table
        cancel=cancel,
        progress=no_progress,
        also=lambda connection: drop_file_stats(
            connection, [(version.source_id, version.document_id) for version in lost]
        ),
    )
    renew_spare(writer)


def _forget(connection: Connection, damage: _Damage) -> list[str]:
    """Delete damaged versions, now that none is live."""
    lost = []
    told = []
    for version_id, why in sorted(damage.versions.items()):
        version = lost_rows.version(connection, version_id)
        if version is not None:
            lost.append(version)
            generations = ", ".join(map(str, lost_rows.kept_generations(connection, version)))
            told.append(
                f"{version.source}: {version.document_id} ({why}), "
                f"from generations {generations or 'that are not kept'}"
            )
    lost_rows.forget_versions(connection, lost)
    return told


def _forget_texts(connection: Connection, damage: _Damage) -> list[str]:
    """Delete the damaged texts and parses, which no version has any more."""
    lost_rows.forget_parses(connection, damage.parses)
    lost_rows.forget_contents(connection, damage.contents)
    return [f"parse {parse_id}" for parse_id in sorted(damage.parses)] + [
        f"text {content_id}" for content_id in sorted(damage.contents)
    ]
