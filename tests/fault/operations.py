"""Every operation that writes an index, by name: each tier of fault tests runs over all of them.

A new one is a few lines at the end of this file. `rehearse` runs it once undisturbed, so that a
tier knows which states may be seen; a `Rehearsal` makes copies of the index before it and verifies
what a fault left.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlindex import Gate, Index
from sqlindex.cancellation import CancelToken
from sqlindex.config import IndexConfig, Retention
from sqlindex.errors import CancelledError, GateError, UnknownDocumentError
from sqlindex.indexing.report import Progress
from sqlindex.sources.memory import Document, MemorySource
from sqlindex.store.driver import read_header
from sqlindex.store.header import SCHEMA_VERSION
from sqlindex.testing import HashingEmbedder
from tests.damage import DERIVED, Damage, inflict
from tests.faults import State, copy_index, is_sound, observe, verify

QUERIES = ("pump letter", "quartz valve")

BEFORE = {
    "pump.md": "# Pump\n\nThe pump runs at low pressure.\n\n## Service\n\nGrease it each spring.\n",
    "valve.md": "# Valve\n\nA valve closes the pump.\n",
    "old.md": "# Letter\n\nAn archive letter about the valve.\n",
    "gone.md": "# Gone\n\nquartz lamp\n",
    "same.md": "# Same\n\nNothing happens to this archive.\n",
}
AFTER = {
    "pump.md": "# Pump\n\nThe pump runs at high pressure now.\n\n## Service\n\nGrease it each spring.\n",
    "valve.md": BEFORE["valve.md"],
    "new/letter.md": BEFORE["old.md"],
    "same.md": BEFORE["same.md"],
    "added.md": "# Added\n\nA quartz valve.\n",
}
SMALL_STEPS = IndexConfig(documents_per_batch=2, embedding_batch=2)
STAGED_STEPS = IndexConfig(documents_per_batch=3, embedding_batch=8, staged_fts_chunks=1)
OLD_INDEX = Path(__file__).parents[2] / "fixtures" / "indexes" / "schema-5.db.gz"

Step = Callable[[Index, Path], object]
"""Does something to an index; the path is the folder of its documents."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A write on an index.

    Attributes:
        name: as the command lines of the tiers call it.
        prepare: makes the index as it is before.
        run: the write; run again, it also brings an index up to date after it was interrupted.
        config: of the index.
        revision: of the embedder that runs it; the index before it is made with revision 1.
        origin: a stored index of an older schema to start from, gzipped.
        damages: what the index has before, which the write mends; it shows what it showed sound.
    """

    name: str
    prepare: Step
    run: Step
    config: IndexConfig = SMALL_STEPS
    revision: str = "1"
    origin: Path | None = None
    damages: tuple[Damage, ...] = ()

    def open(self, db: Path, *, is_first: bool = False) -> Index:
        """Open the index as the operation needs it; the first time, make it."""
        embedder = HashingEmbedder(16, "1" if is_first else self.revision)
        is_made = is_first and self.origin is None
        return Index.open(db, create=is_made, embedder=embedder, config=self.config)


OPERATIONS: dict[str, Operation] = {}


def register(name: str, prepare: Step, run: Step, **others: object) -> Operation:
    """Let every tier run over a new operation; the arguments are those of `Operation`."""
    assert name not in OPERATIONS, name
    OPERATIONS[name] = Operation(name, prepare, run, **others)  # type: ignore[arg-type]  # checked there
    return OPERATIONS[name]


def look(db: Path) -> State:
    """The state that an index shows, whichever of the embedders made its vectors."""
    return observe(db, QUERIES, HashingEmbedder(16), HashingEmbedder(16, "2"))


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """An operation that was run once undisturbed.

    Attributes:
        before_db: the index before it; nothing opens it any more.
        before, after: the published states.
    """

    operation: Operation
    before_db: Path
    folder: Path
    scratch: Path
    before: State
    after: State

    def copy(self, name: object) -> Path:
        """A copy of the index before the operation."""
        return copy_index(self.before_db, self.scratch / str(name))

    def run(self, db: Path) -> None:
        """The operation, from opening the index to closing it."""
        with self.operation.open(db) as index:
            self.operation.run(index, self.folder)

    def verify(
        self, db: Path, allowed: Sequence[State] | None = None, *, completes: bool = True
    ) -> State:
        """Verify what a fault left; see `tests.faults.verify`.

        Args:
            allowed: the states before and after if None.
            completes: also run the operation again: it must lead where it led undisturbed.
        """
        if read_header(db)[1] < SCHEMA_VERSION:
            self.run(db)  # an older index can be read only when it was brought up to date
        if self.operation.damages and not is_sound(db):
            self.run(db)
        return verify(
            db, allowed or (self.before, self.after), look, self._complete if completes else None
        )

    def _complete(self, db: Path, seen: State) -> None:
        self.run(db)
        if seen.content() in (self.before.content(), self.after.content()):
            assert look(db).content() == self.after.content(), "the operation led elsewhere"


def rehearse(operation: Operation, place: Path) -> Rehearsal:
    """Make the index before an operation, run it on a copy, and take both states.

    Args:
        place: an empty folder; everything lies below it.
    """
    folder, db = place / "documents", place / "before" / "index.db"
    for made in (folder, db.parent, place / "copies"):
        made.mkdir()
    if operation.origin is not None:
        db.write_bytes(gzip.decompress(operation.origin.read_bytes()))
        db.chmod(0o600)
    with operation.open(db, is_first=True) as index:
        operation.prepare(index, folder)
    sound = None if operation.origin is not None else look(db)
    for damage in operation.damages:
        inflict(db, damage)
    after_db = copy_index(db, place / "after")
    with operation.open(after_db) as index:
        operation.run(index, folder)
    after = look(after_db)
    before = sound or after
    rehearsal = Rehearsal(operation, db, folder, place / "copies", before, after)
    rehearsal.verify(after_db, (after,))
    return rehearsal


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Let the folder hold just these files."""
    for old in sorted(folder.rglob("*.md")):
        old.unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def documents(files: dict[str, str]) -> list[Document]:
    """The files as documents of a host."""
    return [Document(name, text, type_name="md") for name, text in files.items()]


def first_refresh(index: Index, folder: Path) -> None:
    """Publish the files as they are before, then change them."""
    write_files(folder, BEFORE)
    index.add_source(folder)
    index.refresh()
    write_files(folder, AFTER)


def notes(index: Index, _: Path) -> None:
    """Push the documents as they are before."""
    index.upsert("notes", documents(BEFORE))


def two_sources(index: Index, _: Path) -> None:
    """Two sources of a host, of which one goes."""
    index.add_source(MemorySource("notes", documents(BEFORE)))
    index.add_source(MemorySource("letters", documents(AFTER)))
    index.refresh()


def remove_letters(index: Index, _: Path) -> None:
    """Remove a source unless it is gone."""
    if any(source.name == "letters" for source in index.status().sources):
        index.remove_source("letters")


def refresh(index: Index, _: Path) -> None:
    """Bring the index up to date with its folder."""
    index.refresh()


REFRESH = register("refresh", first_refresh, refresh)
STAGED = register("staged", first_refresh, refresh, config=STAGED_STEPS)
SECOND_SPACE = register("second-space", first_refresh, refresh, revision="2")
UPSERT = register("upsert", notes, lambda index, _: index.upsert("notes", documents(AFTER)))
REMOVE = register("remove", notes, lambda index, _: index.remove("notes", ["gone.md", "old.md"]))
REMOVE_SOURCE = register("remove-source", two_sources, remove_letters)
MIGRATE = register(
    "migrate", lambda *_: None, lambda index, _: index.set_embedder(None), origin=OLD_INDEX
)


def interrupted_refresh(index: Index, folder: Path) -> None:
    """Publish the files as they are before, change them, and cancel the refresh half-way."""
    first_refresh(index, folder)
    token = CancelToken()

    def cancel_late(progress: Progress) -> None:
        if progress.phase == "embed" and progress.done:
            token.cancel()

    try:
        index.refresh(cancel=token, progress=cancel_late)
    except CancelledError:
        return
    raise AssertionError("the refresh was not interrupted")


def three_generations(index: Index, _: Path) -> None:
    """Publish documents, other ones, and fewer."""
    index.upsert("notes", documents(BEFORE))
    index.upsert("notes", documents(AFTER))
    index.remove("notes", ["gone.md", "old.md"])


RESUME = register("resume", interrupted_refresh, refresh)
COLLECT = register(
    "collect",
    three_generations,
    lambda index, _: index.collect(Retention(generations=1, vector_days=0)),
)
ROLLBACK = register("rollback", three_generations, lambda index, _: index.rollback(1))


def purge_gone(index: Index, _: Path) -> None:
    """Purge a document, or finish that."""
    no_more: tuple[str, ...] = ()
    for names in ("gone.md", no_more):
        with suppress(UnknownDocumentError):
            index.purge(names)


COMPACT = register("compact", three_generations, lambda index, _: index.compact())
COMPACT_FULL = register("compact-full", three_generations, lambda index, _: index.compact("full"))
PURGE = register("purge", notes, purge_gone)
BACKUP = register(
    "backup", notes, lambda index, _: index.backup(index.path.with_name("backup.db"), force=True)
)
REPAIR = register(
    "repair",
    notes,
    lambda index, _: index.repair(),
    damages=tuple(d for d in DERIVED if d.name in ("lexical pages deleted", "names deleted")),
)
TAG = register("tag", three_generations, lambda index, _: index.tag("first", 1, force=True))


def golden_refresh(index: Index, folder: Path) -> None:
    """Publish the files as they are before, ask for what will be gone, then change them."""
    first_refresh(index, folder)
    index.add_question("quartz lamp", ["gone.md"])
    index.add_question("grease it each spring", ["pump.md"])


def gated_refresh(index: Index, folder: Path) -> None:
    """A refresh that its gate keeps back."""
    golden_refresh(index, folder)
    refuse(index, folder)


def refuse(index: Index, _: Path) -> None:
    """Refresh with a gate that is missed."""
    with suppress(GateError):
        index.refresh(gate=Gate("hit@1 >= 0.9"))
    # A fault may have left the build unfinished, and then it was measured again.
    assert index.status().gated is not None


def publish(index: Index, _: Path) -> None:
    """Publish what waits, if anything does."""
    if index.status().gated is not None:
        index.publish(force=True)


def discard(index: Index, _: Path) -> None:
    """Drop what waits, if anything does."""
    if index.status().gated is not None:
        index.discard()


def reindex(index: Index, _: Path) -> None:
    """Make every layer anew, of files that have changed."""
    index.reindex()


REINDEX = register("reindex", first_refresh, reindex)
GATE_MISSED = register("gate-missed", golden_refresh, refuse)
GATE_MISSED_STAGED = register("gate-missed-staged", golden_refresh, refuse, config=STAGED_STEPS)
PUBLISH = register("publish-force", gated_refresh, publish)
DISCARD = register("discard", gated_refresh, discard)


def another_index(index: Index, folder: Path) -> None:
    """An index, and another one beside the documents that has vectors it lacks."""
    notes(index, folder)
    with Index.open(folder / "other.db", create=True, embedder=HashingEmbedder(16)) as other:
        other.upsert("notes", documents(AFTER))


IMPORT_VECTORS = register(
    "import-vectors",
    another_index,
    lambda index, folder: index.import_vectors(folder / "other.db"),
)
EXPORT_VECTORS = register(
    "export-vectors",
    notes,
    lambda index, _: index.export_vectors(index.path.with_name("vectors.db")),
)
