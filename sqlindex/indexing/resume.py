"""Go on with a build that was interrupted, or say why that cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sqlindex.chunking.chunker import CHUNKER_VERSION
from sqlindex.chunking.embedding_text import EMBEDDING_INPUT_VERSION
from sqlindex.errors import BuildChangedError
from sqlindex.indexing.prepare import Workshop
from sqlindex.indexing.seen import SeenVersions
from sqlindex.model.layers import Layer
from sqlindex.ports import Embedder
from sqlindex.store.builds import (
    NO_EMBEDDER,
    UnfinishedBuild,
    begin_build,
    drop_build,
    go_on_with,
    unfinished_builds,
)
from sqlindex.store.documents import KnownDocument, staged_document, staged_versions
from sqlindex.store.driver import Connection
from sqlindex.store.head import Head
from sqlindex.store.sources import SourceRow
from sqlindex.store.writer import Writer

REINDEX_SCOPE = "reindex"
"""What a reindex covers, as it is stored; whatever a refresh is asked for is stored as JSON."""

LAYERS_OF_PLAN = "layers"
"""Where the plan of a reindex names the layers that are made anew."""

_BAD_VECTORS, _REFUSED, _LEFT_OUT = "bad vectors", "refused", "published without"
_SOURCE = "source "
_SHOWN = 60


class StagedBefore:
    """What an unfinished build has staged. What still fits is confirmed, the rest goes."""

    def __init__(self, connection: Connection, build_id: int) -> None:
        self._connection = connection
        self._build_id = build_id
        self._confirmed = SeenVersions()
        self._last = max(staged_versions(connection, build_id), default=0)
        self.confirmed = 0

    def find(self, source_id: int, document_id: str) -> KnownDocument | None:
        """What is staged of a document, or None."""
        return staged_document(self._connection, self._build_id, source_id, document_id)

    def confirm(self, version_id: int) -> None:
        """Keep a staged version: its document is still what it says."""
        self._confirmed.add(version_id)
        self.confirmed += 1

    def stale(self) -> Iterator[int]:
        """Versions staged before this run that were neither confirmed nor replaced."""
        for version_id in staged_versions(self._connection, self._build_id):
            if version_id <= self._last and version_id not in self._confirmed:
                yield version_id


@dataclass(frozen=True, slots=True)
class OpenBuild:
    """A build under way; `before` is what it had staged when an earlier process left it."""

    build_id: int
    head: Head
    before: StagedBefore | None = None


def open_build(writer: Writer, scope: str, plan: Mapping[str, str], *, restart: bool) -> OpenBuild:
    """Go on with the unfinished build of this scope, or begin a new one.

    Builds that only their own process could go on with are dropped; what they parsed and embedded
    is reused. So is one that a gate refused, if the plan is another one now: that is how its owner
    answers the gate. Those of other scopes stay as they are.

    Args:
        scope: what the build covers; '' for one that is not gone on with.
        plan: what shapes it.
        restart: drop the unfinished build of this scope and begin anew.

    Raises:
        BuildChangedError: the unfinished build was begun with another plan; nothing is changed.
    """
    kept = None
    for build in unfinished_builds(writer.connection):
        if build.scope != scope and build.scope:
            continue
        is_left = restart or not _has_work(build, plan) or _is_answered(build, plan)
        if not scope or not build.scope or is_left:
            drop_build(writer, build.build_id)
        elif not _can_go_on(build, plan):
            raise _changed(build, plan)
        else:
            kept = build
    with writer.transaction() as connection:
        if kept is None:
            build_id, head = begin_build(connection, scope, plan)
            return OpenBuild(build_id, head)
        head = go_on_with(connection, kept.build_id, plan)
    return OpenBuild(kept.build_id, head, StagedBefore(writer.connection, kept.build_id))


def require_fitting(
    connection: Connection, scope: str, plan: Mapping[str, str], *, restart: bool
) -> None:
    """Refuse what `open_build` would refuse; reads only.

    Raises:
        BuildChangedError: the unfinished build of this scope was begun with another plan.
    """
    for build in unfinished_builds(connection):
        is_ours = scope and build.scope == scope and not restart
        is_left = not _has_work(build, plan) or _is_answered(build, plan)
        if is_ours and not is_left and not _can_go_on(build, plan):
            raise _changed(build, plan)


def drop_covered(writer: Writer, plan: Mapping[str, str]) -> None:
    """Drop unfinished builds all of whose sources have just been published as a whole."""
    done = {name for name in plan if name.startswith(_SOURCE)}
    for build in unfinished_builds(writer.connection):
        if build.scope == REINDEX_SCOPE:
            continue  # it makes anew what a refresh only keeps up
        sources = {name for name in build.plan if name.startswith(_SOURCE)}
        if sources <= done:
            drop_build(writer, build.build_id)


def scope_of_request(names: Sequence[str] | None, parts: Mapping[str, Sequence[str]] | None) -> str:
    """What a refresh was asked to cover, as it is stored.

    Args:
        names: of the sources; None for all.
        parts: by source, the parts of it; None for whole sources.
    """
    if parts is not None:
        return json.dumps({name: sorted(ids) for name, ids in sorted(parts.items())})
    return json.dumps(None if names is None else sorted(set(names)))


def plan_of(
    sources: Sequence[SourceRow],
    workshop: Workshop,
    embedder: Embedder | None,
    *,
    allow_bad_vectors: bool,
    layers: frozenset[Layer] = frozenset(),
) -> dict[str, str]:
    """Everything that shapes a build, by name.

    Args:
        layers: those that are made anew, of a reindex.
    """
    plan = _sources_plan(sources)
    plan["embedder"] = NO_EMBEDDER if embedder is None else embedder.identity
    plan["chunks"] = workshop.cuts
    plan["chunker"] = f"{CHUNKER_VERSION}, embedding input {EMBEDDING_INPUT_VERSION}"
    plan["parsers"] = blake2b("\n".join(workshop.readers()).encode(), digest_size=8).hexdigest()
    plan[_BAD_VECTORS] = _LEFT_OUT if allow_bad_vectors else _REFUSED
    if layers:
        plan[LAYERS_OF_PLAN] = ", ".join(sorted(layers))
    return plan


def fits_sources(plan: Mapping[str, str], sources: Iterable[SourceRow]) -> bool:
    """Whether the sources of a plan are registered as they were then."""
    now = _sources_plan(sources)
    return all(now.get(name) == was for name, was in plan.items() if name.startswith(_SOURCE))


def _sources_plan(sources: Iterable[SourceRow]) -> dict[str, str]:
    return {
        f"{_SOURCE}{row.name}": f"{row.kind} {row.root or ''} {json.dumps(row.options, sort_keys=True)}"
        for row in sources
    }


def _can_go_on(build: UnfinishedBuild, plan: Mapping[str, str]) -> bool:
    """Whether a build can be finished: as it was begun, or without the vectors that stopped it."""
    return plan in (build.plan, {**build.plan, _BAD_VECTORS: _LEFT_OUT})


def _is_answered(build: UnfinishedBuild, plan: Mapping[str, str]) -> bool:
    """Whether a gate refused a build and settings or sources have been changed since."""
    return build.is_gated and build.plan != plan


def _has_work(build: UnfinishedBuild, plan: Mapping[str, str]) -> bool:
    """Whether a build that fits no more has done something that its owner may want to finish."""
    return (
        build.documents > 0
        or build.plan == plan
        or build.plan.get("embedder") != plan["embedder"]
        or build.scope == REINDEX_SCOPE
    )


def _changed(build: UnfinishedBuild, plan: Mapping[str, str]) -> BuildChangedError:
    notes = []
    for name in sorted(build.plan.keys() | plan.keys(), key=_by_weight):
        was, now = build.plan.get(name), plan.get(name)
        if was == now:
            continue
        if was is None:
            notes.append(f"{name} is new")
        elif now is None:
            notes.append(f"{name} is gone")
        elif name in ("parsers", "chunks"):
            notes.append(
                "parsers or file types changed" if name == "parsers" else "chunk sizes changed"
            )
        else:
            notes.append(f"{name} was {_short(was)}, is {_short(now)}")
    what = "reindex" if build.scope == REINDEX_SCOPE else "refresh"
    return BuildChangedError(
        f"the {what} begun at {build.started_at} was interrupted ({build.documents:,} documents are "
        f"staged) and cannot go on, since something has changed: {'; '.join(notes)}",
        hint=f"undo the change and {what} to finish it, or begin anew with --restart (restart=True), "
        "which reuses what is still valid",
    )


def _by_weight(name: str) -> tuple[bool, bool, str]:
    """What people change comes first: the embedder, then sources."""
    return (name != "embedder", not name.startswith(_SOURCE), name)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
