"""A random life of an index agrees with a dictionary of its files."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from sqlindex import Index, IndexConfig
from sqlindex.testing import HashingEmbedder

_NAMES = st.sampled_from(["a.md", "b.txt", "c.py", "s/a.md", "s/t/b.txt", "ü b.md"])
_WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta"])


class IndexLife(RuleBasedStateMachine):
    """Writes, renames and deletes files, refreshes, reopens; `model` is what must be found."""

    @initialize(staged=st.sampled_from([1, 20_000]))
    def start(self, staged: int) -> None:
        self.place = Path(tempfile.mkdtemp())
        self.folder = self.place / "files"
        self.folder.mkdir()
        self.files: dict[str, str] = {}
        self.model: dict[str, str] = {}
        self.seen: set[str] = set()
        self.embedder = HashingEmbedder(dimensions=16)
        self.config = IndexConfig(staged_fts_chunks=staged)
        self.index = self._open(create=True)
        self.index.add_source(self.folder)
        self.serial = 0

    def _open(self, *, create: bool = False) -> Index:
        return Index.open(
            self.place / "i.db", create=create, embedder=self.embedder, config=self.config
        )

    @rule(name=_NAMES, word=_WORDS)
    def write(self, name: str, word: str) -> None:
        self.serial += 1
        text = f"{word} marker{self.serial}"
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.files[name] = text

    @precondition(lambda self: self.files)
    @rule(choice=st.randoms(use_true_random=False), target_name=_NAMES)
    def rename(self, choice, target_name: str) -> None:  # type: ignore[no-untyped-def]
        name = choice.choice(sorted(self.files))
        target = self.folder / target_name
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).rename(target)
        self.files[target_name] = self.files.pop(name)

    @precondition(lambda self: self.files)
    @rule(choice=st.randoms(use_true_random=False))
    def delete(self, choice) -> None:  # type: ignore[no-untyped-def]
        name = choice.choice(sorted(self.files))
        (self.folder / name).unlink()
        del self.files[name]

    @rule()
    def refresh(self) -> None:
        plan = self.index.plan()
        before = len(self.embedder.document_inputs)
        report = self.index.refresh()
        embedded = self.embedder.document_inputs[before:]
        assert report.changes == plan
        assert report.embedded == len(embedded) == len(set(embedded))
        assert self.seen.isdisjoint(embedded)
        self.seen.update(embedded)
        assert report.is_published == (self.files != self.model)
        self.model = dict(self.files)

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = self._open()

    @invariant()
    def searches_give_the_files_of_the_last_refresh(self) -> None:
        if not hasattr(self, "index"):
            return
        for word in ("alpha", "beta", "gamma", "delta"):
            expected = sorted(name for name, text in self.model.items() if word in text)
            for mode in ("lexical", "hybrid"):
                hits = self.index.search(word, mode=mode, limit=100).hits
                found = [h for h in hits if h.lexical_rank is not None]
                assert sorted(h.document_id for h in found) == expected
                assert all(h.text == self.model[h.document_id] for h in hits)

    def teardown(self) -> None:
        if hasattr(self, "index"):
            assert self.index.check() == []
            self.index.close()
            shutil.rmtree(self.place)


TestIndexLife = pytest.mark.req("A-14", "A-16", "A-17")(IndexLife.TestCase)
TestIndexLife.settings = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
