"""The diff of two generations agrees with a comparison of two whole listings."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlindex import Index, Retention
from sqlindex.sources.memory import Document
from tests.faults import folder_in_memory

SOURCES = ("p", "q")
IDS = ("a", "b", "c", "d")
SECTIONS = ("one", "two", "three")

_texts = st.lists(st.sampled_from(SECTIONS), min_size=1, max_size=4).map(
    lambda parts: "\n".join(f"# {part}\n\nabout {part}\n" for part in parts)
)
_contents = st.tuples(_texts, st.sampled_from(["x", "y"]))
_states = st.dictionaries(st.tuples(st.sampled_from(SOURCES), st.sampled_from(IDS)), _contents)

Found = dict[tuple[str, str], tuple[bytes, str, Counter[str]]]
Line = tuple[str, str, str, str | None, int, int, int]


def naive_diff(old: Found, new: Found) -> list[Line]:
    """Every document that differs, from all that both generations hold."""

    def line(kind: str, name: tuple[str, str], was: tuple[str, str] | None) -> Line:
        before = old[was][2] if was is not None else Counter[str]()
        after = new[name][2] if kind != "removed" else Counter[str]()
        counts = ((after - before).total(), (before - after).total(), (before & after).total())
        return (name[0], name[1], kind, was[1] if kind == "renamed" and was else None, *counts)

    lines = [
        line("changed", name, name) for name in old.keys() & new.keys() if old[name] != new[name]
    ]
    gone, come = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    waiting: dict[tuple[str, bytes], list[tuple[str, str]]] = defaultdict(list)
    for name in come:
        waiting[name[0], new[name][0]].append(name)
    for name in gone:
        same = waiting[name[0], old[name][0]]
        lines.append(line("renamed", same.pop(0), name) if same else line("removed", name, name))
    lines += [line("added", name, None) for names in waiting.values() for name in names]
    return sorted(lines)


def all_that(index: Index, generation: int) -> Found:
    """Bytes, title and chunks of every document of a generation."""
    found: Found = {}
    for listed in index.documents(generation):
        name = (listed.source, listed.document_id)
        chunks = index.chunks(listed.document_id, source=listed.source, at=generation)
        document = index.get(listed.document_id, source=listed.source, at=generation)
        texts = Counter(chunk.text for chunk in chunks)
        found[name] = (document.text.encode(), document.title, texts)
    return found


def publish(index: Index, state: dict[tuple[str, str], tuple[str, str]]) -> None:
    for source in SOURCES:
        wanted = {id_: content for (owner, id_), content in state.items() if owner == source}
        documents = [
            Document(id_, text, title=title, type_name="md")
            for id_, (text, title) in wanted.items()
        ]
        index.upsert(source, documents, remove=set(IDS) - wanted.keys())


@pytest.mark.req("D-2")
@settings(max_examples=10, deadline=None)
@given(states=st.lists(_states, min_size=2, max_size=4))
def test_a_diff_is_what_two_listings_say(
    states: list[dict[tuple[str, str], tuple[str, str]]],
) -> None:
    with (
        tempfile.TemporaryDirectory() as otherwise,
        folder_in_memory(Path(otherwise)) as place,
        Index.open(place / "i.db", create=True) as index,
    ):
        index.collect(Retention(generations=100))
        for state in states:
            publish(index, state)
        head = index.status().generation
        if head > 1:
            index.rollback(head // 2)
            head = index.status().generation
            index.tag("first", 1)
            index.tag("half", head // 2)
            index.collect(Retention(generations=2))
        kept = [generation.number for generation in index.history()]
        held = {number: all_that(index, number) for number in kept}
        for old in kept:
            for new in kept:
                diff = index.diff(old, new)
                lines = [
                    (
                        d.source,
                        d.document_id,
                        d.kind,
                        d.old_id,
                        d.chunks_added,
                        d.chunks_removed,
                        d.chunks_kept,
                    )
                    for d in diff.documents
                ]
                assert lines == naive_diff(held[old], held[new])
                assert (diff.old.number, diff.new.number) == (old, new)
                assert sum(diff.counts().values()) == len(lines)
        assert index.check() == []
