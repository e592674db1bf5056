"""Builds that a gate refused: hold one, publish it after all, or drop it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlindex.cancellation import CancelToken
from sqlindex.errors import GateError, StaleBuildError, UsageError
from sqlindex.indexing.publishing import Gatekeeper, only_told, publish_build
from sqlindex.indexing.report import ProgressSink
from sqlindex.indexing.resume import LAYERS_OF_PLAN, fits_sources
from sqlindex.store.builds import drop_build, unfinished_builds, utc_now
from sqlindex.store.collect import collect
from sqlindex.store.driver import Connection
from sqlindex.store.gated import (
    GatedBuild,
    GateRecord,
    apply_notes,
    gated_build,
    gated_builds,
    note_refusals,
    put_record,
)
from sqlindex.store.generations import ChangeCounts
from sqlindex.store.head import read_head
from sqlindex.store.ledger import Ledger
from sqlindex.store.sources import list_sources
from sqlindex.store.vectors import missing_texts
from sqlindex.store.writer import Writer


def hold_build(
    writer: Writer,
    build_id: int,
    gatekeeper: Gatekeeper,
    refused: GateError,
    *,
    cause: str,
    space_id: int | None,
    counts: ChangeCounts,
    mount_points: Mapping[int, Sequence[str]],
    ledger: Ledger,
) -> None:
    """Keep a build that a gate refused, with all that publishing it needs.

    One that waited before is dropped. A process that ends before the last transaction leaves an
    unfinished build.
    """
    for waiting in gated_builds(writer.connection):
        if waiting != build_id:
            drop_build(writer, waiting)
    note_refusals(writer, build_id, ledger.news(), ledger.readmitted())
    result = gatekeeper.result
    assert result is not None
    record = GateRecord(
        result=result,
        missed=tuple(map(str, refused.missed)),
        at=utc_now(),
        cause=cause,
        space_id=space_id,
        counts=counts,
        mount_points=mount_points,
    )
    with writer.transaction(durable=True) as connection:
        put_record(connection, build_id, record)


def publish_gated(
    writer: Writer,
    gatekeeper: Gatekeeper | None,
    *,
    staged_fts_chunks: int,
    cancel: CancelToken,
    progress: ProgressSink,
) -> int:
    """Publish the build that waits behind its gate, just as it was measured; the new generation.

    Args:
        gatekeeper: another gate to ask; None for none.

    Raises:
        GateError: that one refuses as well; the build waits on, with what it measured.
        UsageError: no build waits behind a gate.
        StaleBuildError: the head, a source or a vector is not as it was when the build was made.
    """
    build = require_gated(writer.connection)
    head = read_head(writer.connection)
    _require_current(writer.connection, build, head.generation, head.space_id)
    record = build.record
    layers = _plan(writer.connection, build.build_id).get(LAYERS_OF_PLAN, "").split(", ")
    try:
        generation = publish_build(
            writer,
            build.build_id,
            head,
            cause=record.cause,
            space_id=record.space_id,
            counts=record.counts,
            staged_fts_chunks=staged_fts_chunks,
            cancel=cancel,
            progress=progress,
            also=lambda connection: apply_notes(connection, build),
            gatekeeper=gatekeeper,
            makes_lexical_anew="lexical" in layers,
        )
    except GateError as exc:
        assert gatekeeper is not None
        assert gatekeeper.result is not None
        again = replace(
            record,
            result=gatekeeper.result,
            missed=tuple(map(str, exc.missed)),
            at=utc_now(),
        )
        with writer.transaction(durable=True) as connection:
            put_record(connection, build.build_id, again)
        raise
    with only_told("tidying up behind the publish"):
        collect(writer, cancel)
    return head.generation if generation is None else generation


def discard_gated(writer: Writer, cancel: CancelToken) -> None:
    """Drop the build that waits behind its gate, in small transactions.

    Vectors stay for as long as retention lets unused ones stay.

    Raises:
        UsageError: no build waits behind a gate.
    """
    # Also one whose record is damaged.
    waiting = gated_builds(writer.connection) or [require_gated(writer.connection).build_id]
    for build_id in waiting:
        drop_build(writer, build_id)
    with only_told("tidying up behind the discard"):
        collect(writer, cancel)


def require_gated(connection: Connection) -> GatedBuild:
    """The build that waits behind its gate.

    Raises:
        UsageError: there is none; the message tells of one that is unfinished.
    """
    build = gated_build(connection)
    if build is not None:
        return build
    unfinished = unfinished_builds(connection)
    if unfinished:
        raise UsageError(
            f"no generation waits behind a gate: the refresh begun at {unfinished[-1].started_at} is "
            "unfinished; it was interrupted, or a purge or a repair changed what its gate had measured",
            hint="'sqlindex refresh' goes on with it, or begins anew with --restart",
        )
    raise UsageError(
        "no generation waits behind a gate", hint="'sqlindex refresh --gate …' measures one"
    )


def _require_current(
    connection: Connection, build: GatedBuild, generation: int, space_id: int | None
) -> None:
    """Refuse to publish anything but what was measured."""
    why = ""
    if build.base_generation != generation:
        why = f"it was made on generation {build.base_generation}, the head is {generation}"
    elif not fits_sources(_plan(connection, build.build_id), list_sources(connection)):
        why = "a source of it was removed or changed"
    elif build.record.space_id is not None and len(
        missing_texts(
            connection,
            build.build_id,
            build.record.space_id,
            is_new_space=build.record.space_id != space_id,
            skips_refused=True,
        )
    ):
        why = "vectors of it are missing"
    if why:
        raise StaleBuildError(
            f"the generation behind the gate can no longer be published: {why}",
            hint="refresh again, which goes on with what is staged; or 'sqlindex discard'",
        )


def _plan(connection: Connection, build_id: int) -> Mapping[str, str]:
    return next(b.plan for b in unfinished_builds(connection) if b.build_id == build_id)
