"""A random life of an index, step by step beside a dictionary (`index_model`).

Long runs by hand: `python -m tests.property.index_life --examples 2000 --seed 1`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from sqlindex import Index, IndexConfig, Retention
from sqlindex.cancellation import CancelToken
from sqlindex.config import ChunkConfig
from sqlindex.errors import (
    BuildChangedError,
    EmbedderMismatchError,
    EmbedderRequiredError,
    GateError,
    GenerationGoneError,
    LockedError,
)
from sqlindex.indexing import diff
from sqlindex.model.gate import GateCondition
from sqlindex.model.requests import Mode
from sqlindex.sources.memory import Document
from tests.faults import folder_in_memory
from tests.property.index_model import Folder, IndexModel, Key, difference, is_at, listed
from tests.property.index_witness import (
    COMMON,
    EmbeddingLog,
    IndexWitness,
    LoggingEmbedder,
)
from tests.property.mishaps import Mishap, mishaps, run

if TYPE_CHECKING:
    from sqlindex.indexing.purge import Purge
    from sqlindex.indexing.report import RefreshReport
    from sqlindex.store.compact import CompactMode

T = TypeVar("T")

_FOLDERS = ("files", "more")
_NOTES = "notes"
_PATHS = ("a.txt", "b.md", "s/a.txt", "s/t/b.md", "a.txt/in.txt", "ü c.py")
_PLACES = (*_PATHS, "s", "r")
_TICK_NS = 20_000_000
_PICKS = st.integers(0, 999)


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to a file.

    Attributes:
        what: see `IndexLife._change`.
        where: the source.
        pick: which of the files that are there.
        path: a name that may be taken.
        age: 0 for a new text, else one of the latest.
    """

    what: str
    where: str
    pick: int
    path: str
    age: int


_AGES = st.sampled_from([0, 0, 0, 1, 2, 3])
_CHANGES = st.lists(
    st.builds(
        Change,
        st.sampled_from(
            ["write"] * 4
            + ["replace", "append", "rename", "rename folder", "delete", "delete folder", "touch"]
            + ["hide", "show", "hard link", "link", "FIFO", "block", "empty", "binary", "rest"]
        ),
        st.sampled_from(_FOLDERS),
        _PICKS,
        st.sampled_from(_PATHS),
        _AGES,
    ),
    max_size=5,
)
_PARTS = st.one_of(
    st.sampled_from([("files", None), ("more", None)]),
    st.tuples(st.sampled_from(_FOLDERS), st.sampled_from(_PLACES)),
)


class _Refusing:
    """A gate that no generation passes."""

    text = "refusing"
    mode: Mode | None = "lexical"
    depth = 1
    conditions = (GateCondition("asked", ">=", 1.0),)

    def measure(
        self, qrels: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]
    ) -> Mapping[str, Mapping[str, float]]:
        return {question: {"asked": 0.0} for question in qrels}


class IndexLife(RuleBasedStateMachine):
    """Files change, the index is refreshed, fails, is killed, goes back; `model` is what it is."""

    @initialize(
        staged_fts_chunks=st.sampled_from([1, 12, 20_000]),
        documents_per_batch=st.sampled_from([1, 3]),
        embedding_batch=st.sampled_from([2, 5]),
        retention=st.integers(1, 5),
    )
    def start(
        self,
        staged_fts_chunks: int,
        documents_per_batch: int,
        embedding_batch: int,
        retention: int,
    ) -> None:
        self.stack = ExitStack()
        otherwise = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.place = self.stack.enter_context(folder_in_memory(otherwise))
        # What `diff` waits for before it trusts a time stamp is made for file systems of two
        # seconds; a tick of this one is far below 20 ms.
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(diff, "RACY_NS", _TICK_NS)
        self.config = IndexConfig(
            ChunkConfig(target_chars=40, min_chars=0, overlap_lines=0),
            documents_per_batch=documents_per_batch,
            embedding_batch=embedding_batch,
            staged_fts_chunks=staged_fts_chunks,
        )
        self.embeddings = EmbeddingLog(self.place / "embedded")
        self.witness = IndexWitness(self._open, self.embeddings)
        self.embedder: LoggingEmbedder | None = self.embeddings.embedders[0]
        self.index = self._open(self.embedder, create=True)
        self.folders = {name: Folder(self.place / name) for name in _FOLDERS}
        for folder in self.folders.values():
            self.index.add_source(folder.root)
        self.index.upsert(_NOTES, ())
        self.index.add_question(COMMON, ["nowhere"], source=_NOTES)
        self.index.collect(Retention(retention))
        self.model = IndexModel(retention=retention)
        self.interrupted: dict[object, set[str | None]] = {}
        """Encodings of the builds that may be unfinished, by scope."""
        self.serial = 0
        self.is_at_rest = True

    @property
    def identity(self) -> str | None:
        """Of the present embedder."""
        return None if self.embedder is None else self.embedder.identity

    def _open(self, embedder: LoggingEmbedder | None, *, create: bool = False) -> Index:
        return Index.open(self.place / "i.db", create=create, embedder=embedder, config=self.config)

    # Files

    def _content(self, age: int) -> str:
        """A new text, or one of the latest."""
        if age == 0:
            self.serial += 1
        serial = max(1, self.serial - age)
        return "".join(
            f"{COMMON} {_marker(serial)} part {line} of it\n" for line in range(serial % 3 + 1)
        )

    def _change(self, change: Change) -> None:
        folder = self.folders[change.where]
        text, path = self._content(change.age).encode(), change.path
        old = _pick(folder.paths(), change.pick)
        file = _pick(folder.regular(), change.pick)
        match change.what:
            case "write":
                folder.write(path, text)
            case "replace":
                folder.replace(path, text)
            case "empty":
                folder.write(path, b"")
            case "binary":
                folder.write(path, b"common \0")
            case "append" if file is not None:
                folder.append(file, text)
            case "rename" if old is not None and not _overlap(old, path):
                folder.rename(old, path)
            case "rename folder" if old is not None and not _overlap(_above(old), "r"):
                folder.rename(_above(old), "r")
            case "delete" if folder.files:
                folder.delete(sorted(folder.files)[change.pick % len(folder.files)])
            case "delete folder" if old is not None:
                folder.delete(_above(old))
            case "touch" if file is not None:
                folder.touch(file, change.pick)
            case "hide" if file is not None:
                folder.change_mode(file, is_readable=False)
            case "show" if file is not None:
                folder.change_mode(file, is_readable=True)
            case "hard link" if file is not None and not _overlap(file, path):
                folder.hard_link(file, path)
            case "link":
                folder.symlink(path, [".", "b.md", "s", "nowhere", "/"][change.pick % 5])
            case "FIFO":
                folder.fifo(path)
            case "block":
                folder.block(["s", "s/t"][change.pick % 2])
            case "rest":  # until stats are trusted
                time.sleep(2 * _TICK_NS / 1e9)

    @rule(changes=_CHANGES)
    def change_files(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._change(change)

    # What publishes

    @rule(changes=_CHANGES, mishap=mishaps(150, 20), meanwhile=_CHANGES)
    def refresh(
        self, changes: Sequence[Change], mishap: Mishap | None, meanwhile: Sequence[Change]
    ) -> None:
        """Twice, if something happened to the first."""
        self.change_files(changes)
        self._refresh(None, mishap)
        if mishap is not None:
            self.change_files(meanwhile)
            self._refresh(None, None)

    @rule(changes=_CHANGES, part=_PARTS, mishap=mishaps(150, 20))
    def refresh_part(
        self, changes: Sequence[Change], part: tuple[str, str | None], mishap: Mishap | None
    ) -> None:
        self.change_files(changes)
        self._refresh(part, mishap)

    @rule(changes=_CHANGES, is_forced=st.booleans(), mishap=mishaps(150, 20))
    def refresh_behind_a_gate(
        self, changes: Sequence[Change], is_forced: bool, mishap: Mishap | None
    ) -> None:
        """It is refused, so that nothing changes; then published all the same, or refreshed again."""
        self.change_files(changes)
        if self.index.status().is_collecting:
            return

        def refused(token: CancelToken) -> None:
            with suppress(GateError):
                self.index.refresh(
                    drop_vectors=self.embedder is None, restart=True, gate=_Refusing(), cancel=token
                )

        self._do(refused, mishap, [self.model], self.identity)
        self.interrupted.setdefault(None, set()).add(self.identity)
        if is_forced and self.index.status().gated is not None:
            documents = self.model.head.documents
            for name, folder in self.folders.items():
                documents = listed(documents, name, folder, None)
            published = self.model.published(documents, self.identity)
            self._do(
                lambda token: self.index.publish(force=True, cancel=token),
                None,
                self._publishing(published),
                self.identity,
            )
        self._refresh(None, None)

    def _refresh(self, scope: tuple[str, str | None] | None, mishap: Mishap | None) -> None:
        wanted: dict[str, Any] = {"drop_vectors": self.embedder is None}
        if scope is not None:
            wanted["sources"] = [scope[0]]
        if scope is not None and scope[1] is not None:
            root = self.folders[scope[0]].root
            wanted["paths"] = [root / scope[1]]
            if not self._is_something_at(*scope):
                return
            if os.path.realpath(root / scope[1]) == os.path.realpath(root):
                scope = (scope[0], None)  # a link to the folder itself means all of it
        documents = self.model.head.documents
        for name, folder in self.folders.items():
            if scope is None or scope[0] == name:
                documents = listed(documents, name, folder, None if scope is None else scope[1])
        if self._needs_embedder():
            with pytest.raises(EmbedderRequiredError):
                self.index.refresh(**{**wanted, "drop_vectors": False})
        before = self.interrupted.setdefault(scope, set())
        restart = False
        try:
            planned = self.index.plan(**wanted)
        except BuildChangedError:
            assert before - {self.identity}, "there is no build with another embedder"
            with pytest.raises(BuildChangedError):
                self.index.refresh(**wanted)
            restart = True
            planned = self.index.plan(**wanted, restart=True)

        def work(token: CancelToken) -> RefreshReport:
            return self.index.refresh(**wanted, restart=restart, cancel=token)

        published = self.model.published(documents, self.identity)
        was = self.model.head.documents
        report = self._do(work, mishap, self._publishing(published), self.identity)
        if report is None:
            before.add(self.identity)
            return
        before.clear()
        assert report.changes == planned
        assert report.generation == self.model.number
        assert report.embedded == planned.embedding_inputs
        renamed = planned.count("renamed")
        came, went = planned.count("added") + renamed, planned.count("removed") + renamed
        changed = planned.count("changed") + planned.count("reparsed")
        assert (came, went, changed) == difference(was, documents)

    def _is_something_at(self, name: str, part: str | None) -> bool:
        assert part is not None
        return os.path.lexists(self.folders[name].root / part) or any(
            source == name and is_at(id_, part) for source, id_ in self.model.head.documents
        )

    @rule(
        ages=st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), _AGES, max_size=2),
        gone=st.sampled_from([(), ("n4",), ("n3",), ("n2", "n3")]),
        mishap=mishaps(100, 20),
    )
    def push(self, ages: Mapping[str, int], gone: Sequence[str], mishap: Mishap | None) -> None:
        """Documents of a host come and go."""
        head = self.model.head
        texts = {id_: self._content(age) for id_, age in ages.items()}
        given = [Document(id_, text) for id_, text in texts.items()]
        gone = [id_ for id_ in gone if id_ not in texts]
        documents = {
            **{key: text for key, text in head.documents.items() if key not in _notes(gone)},
            **{(_NOTES, id_): text for id_, text in texts.items()},
        }
        identity = self.identity if given else head.space

        def work(token: CancelToken) -> RefreshReport:
            if given:
                return self.index.upsert(_NOTES, given, remove=gone, cancel=token)
            return self.index.remove(_NOTES, gone)

        if given and self._needs_embedder():
            with pytest.raises(EmbedderRequiredError):
                work(CancelToken())
            return
        published = self.model.published(documents, identity)
        report = self._do(work, mishap, self._publishing(published), identity)
        assert report is None or report.generation == self.model.number

    @rule(pick=_PICKS, mishap=mishaps(60, 5))
    def rollback(self, pick: int, mishap: Mishap | None) -> None:
        gone = [n for n in range(self.model.number) if n not in self.model.kept]
        if gone:
            with pytest.raises(GenerationGoneError):
                self.index.rollback(gone[-1])
        number, was = self._kept(pick), self.model.head.documents
        wanted = self.model.kept[number]
        published = self.model.published(wanted.documents, wanted.space)
        report = self._do(
            lambda token: self.index.rollback(number, cancel=token),
            mishap,
            # Nothing is collected behind a rollback, so that it can be undone.
            [self.model] if published is self.model else [self.model, published],
        )
        if report is not None:
            assert report.generation == self.model.number
            counts = (report.added, report.removed, report.changed)
            assert counts == difference(was, wanted.documents)

    # What is kept

    @rule(
        retention=st.one_of(st.none(), st.tuples(st.integers(1, 6), st.booleans())),
        mishap=mishaps(60, 5),
    )
    def collect(self, retention: tuple[int, bool] | None, mishap: Mishap | None) -> None:
        retaining, given = self.model, None
        if retention is not None:
            generations, keeps_vectors = retention
            given = Retention(generations, vector_days=30 if keeps_vectors else 0)
            retaining = self.model.retaining(generations, keeps_vectors=keeps_vectors)
        self._do(
            lambda token: self.index.collect(given, cancel=token),
            mishap,
            [self.model, retaining, retaining.collected(self.witness.held)],
        )

    @rule(mode=st.sampled_from(["incremental", "full"]), mishap=mishaps(60, 8))
    def compact(self, mode: CompactMode, mishap: Mishap | None) -> None:
        self._do(
            lambda token: self.index.compact(mode, cancel=token),
            mishap,
            [self.model, self.model.collected(self.witness.held)],
        )

    @rule(mishap=mishaps(110, 12))
    def repair(self, mishap: Mishap | None) -> None:
        """There is nothing to repair."""
        report = self._do(lambda token: self.index.repair(cancel=token), mishap, [self.model])
        if report is not None:
            assert (report.mended, report.remaining, report.is_published) == ((), (), False)

    @rule(pick=_PICKS, mishap=mishaps(90, 8))
    def purge(self, pick: int, mishap: Mishap | None) -> None:
        generations = self.model.kept.items()
        key = _pick(sorted({key for _, g in generations for key in g.documents}), pick)
        if key is None:
            return
        source, document_id = key

        def work(token: CancelToken) -> Purge:
            return self.index.purge(document_id, source=source, cancel=token)

        if self.witness.held & {number for number, g in generations if key in g.documents}:
            with pytest.raises(LockedError):
                work(CancelToken())
            self._do(lambda token: None, None, [self.model])
            return
        texts = {g.documents[key] for _, g in generations if key in g.documents}
        report = self._do(work, mishap, [self.model, self.model.purged(key)])
        self._forget_vectors(with_spaces=False)
        if report is not None and not self.index.status().unfinished:
            assert report.documents == (key,)
            self._find_no_trace(texts)

    def _find_no_trace(self, texts: Iterable[str]) -> None:
        """No file of the index holds a marker of these texts, but for what others have of them."""
        others = " ".join(t for g in self.model.kept.values() for t in g.documents.values())
        gone = {
            word for t in texts for word in t.split() if "marker" in word and word not in others
        }
        if gone:
            # In a process of its own: closing the file here would take SQLite's locks away.
            patterns = [argument for word in gone for argument in ("-e", word)]
            files = [str(path) for path in self.place.glob("i.db*")]
            assert subprocess.run(["grep", "-a", "-q", *patterns, *files]).returncode == 1

    @rule(
        name=st.sampled_from(["first", "second"]),
        pick=_PICKS,
        is_given=st.sampled_from([True, True, False]),
        mishap=mishaps(16, 1),
    )
    def tag(self, name: str, pick: int, is_given: bool, mishap: Mishap | None) -> None:
        if is_given:
            number = self._kept(pick)
            outcome = self.model.tagged(name, number)
            self._do(
                lambda token: self.index.tag(name, number, force=True),
                mishap,
                [self.model, outcome],
            )
        elif name in self.model.tags:
            outcome = self.model.untagged(name)
            self._do(lambda token: self.index.untag(name), mishap, [self.model, outcome])

    @rule(pick=_PICKS, is_held=st.sampled_from([True, True, False]))
    def hold(self, pick: int, is_held: bool) -> None:
        """Or let go of one that is held."""
        if is_held:
            self.witness.hold(self.model, self._kept(pick))
        else:
            self.witness.release(pick)

    def _kept(self, pick: int) -> int:
        return sorted(self.model.kept)[pick % len(self.model.kept)]

    # Who looks

    @rule(choice=st.sampled_from([None, None, 0, 1, 2, 3]), everything=st.booleans())
    def reopen(self, choice: int | None, everything: bool) -> None:
        """With the same embedder, or with another one or none."""
        if choice is not None:
            self.embedder = [*self.embeddings.embedders, None][choice]
        if everything:
            self.witness.close()
        self.index.close()
        self.index = self._open(self.embedder)
        self._look()

    @rule()
    def look_back(self) -> None:
        self.witness.look_back(self.model)

    def _look(self) -> None:
        head = self.model.head
        latest = range(max(1, self.serial - 2), self.serial + 1)
        self.witness.look_at_head(self.model, [_marker(serial) for serial in latest])
        if self.identity != head.space and any(head.documents.values()):
            is_none = self.embedder is None
            with pytest.raises(EmbedderRequiredError if is_none else EmbedderMismatchError):
                self.index.search(COMMON, mode="semantic")

    # How it is done

    def _publishing(self, published: IndexModel) -> list[IndexModel]:
        """What an index may be while a generation is published and others are collected."""
        collected = published.collected(self.witness.held)
        if published is self.model and not self.index.status().is_collecting:
            return [self.model]
        return [self.model, published, collected]

    def _needs_embedder(self) -> bool:
        """Whether the vectors of the head cannot be kept up here."""
        return self.embedder is None and bool(self.model.head.space and self.model.head.documents)

    def _do(
        self,
        work: Callable[[CancelToken], T],
        mishap: Mishap | None,
        outcomes: Sequence[IndexModel],
        space: str | None = None,
    ) -> T | None:
        """Do the work, which a mishap may strike, and look at what the index is then.

        Args:
            outcomes: what it may be, from what it was to what it is once all is done.
            space: whose vectors may be made.

        Returns:
            What `work` returned, or None if it was struck or done by a process of its own.
        """
        self.is_at_rest = False
        before = self.model
        done, is_struck = run(work, mishap)
        seen = _shown_by(self.index)
        allowed = outcomes if is_struck else outcomes[-1:]
        matching = [outcome for outcome in allowed if _shown(outcome) == seen]
        assert matching, f"{seen} is none of {[_shown(outcome) for outcome in allowed]}"
        self.model = matching[-1]
        self._look()
        is_published = self.model.number > before.number and not is_struck
        needed = self.witness.texts_of([self.model.head]) if is_published else None
        self.embeddings.account_for_news(space, needed, is_struck=is_struck)
        if not self.model.keeps_vectors or not before.keeps_vectors:
            self._forget_vectors(with_spaces=True)
        assert self.index.check(quick=True) == []
        self.is_at_rest = True
        return done

    def _forget_vectors(self, *, with_spaces: bool) -> None:
        texts = self.witness.texts_of(self.model.kept.values())
        self.embeddings.forget(self.model, texts, with_spaces=with_spaces)

    def teardown(self) -> None:
        if not hasattr(self, "stack"):
            return
        with self.stack:
            if self.is_at_rest:  # else a step has failed, which is what is to be told
                self.look_back()
                assert self.index.check() == []
            self.witness.close()
            self.index.close()


def _pick(among: Sequence[T], pick: int) -> T | None:
    return among[pick % len(among)] if among else None


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _above(path: str) -> str:
    """The folder that a path lies in; the path itself if that is the root."""
    return path.rpartition("/")[0] or path


def _marker(serial: int) -> str:
    return f"marker{serial:05d}"


def _notes(ids: Iterable[str]) -> set[Key]:
    return {(_NOTES, id_) for id_ in ids}


def _shown(model: IndexModel) -> object:
    """What the index says of itself without a search."""
    return (
        {number: (len(g.documents), g.space) for number, g in model.kept.items()},
        dict(model.tags),
        model.retention,
        model.keeps_vectors,
    )


def _shown_by(index: Index) -> object:
    history, retention = index.history(), index.retention()
    assert [g.number for g in history if g.is_head] == [max(g.number for g in history)]
    return (
        {g.number: (g.documents, g.embedder) for g in history},
        index.tags(),
        retention.generations,
        retention.vector_days > 0,
    )


def live(examples: int, steps: int, **others: Any) -> None:
    """Run so many lives of up to so many steps, and fail if one differs from its model.

    Args:
        others: more settings of Hypothesis.
    """
    wanted = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        **others,
    )
    run_state_machine_as_test(IndexLife, settings=wanted)


def main() -> None:
    """Run lives until one of them differs from its model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2_000)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    seed(arguments.seed)(IndexLife)
    live(arguments.examples, arguments.steps, derandomize=False, database=None)
    print(f"{arguments.examples} lives of up to {arguments.steps} steps agree with their models")


if __name__ == "__main__":
    main()
