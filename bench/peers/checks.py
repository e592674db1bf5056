"""The checks beside the timings: killed while it rebuilds, renamed files, German probes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import Figure, Sense
from bench.peers.corpus import DIMENSIONS, Corpus
from bench.peers.environments import PeerFailedError
from bench.peers.processes import Peer, Said, write_corpus

KILLED_TEXTS = 1_000
KILLS_AT = (0.25, 0.5, 0.75, 0.95)
"""Shares of the time that an undisturbed rebuild takes."""

KILLS_AFTER = (1, 3)
"""Changes to the files of the index: a whole that is written at the end is written for a moment only."""

KILLS = len(KILLS_AT) + len(KILLS_AFTER)

RENAMED_TEXTS = 200
OLD, NEW = "altbestand", "neubestand"

PROBES: Mapping[str, tuple[str, ...]] = {
    "Die Wärmepumpenförderung wurde beantragt.": ("Wärmepumpe", "Förderung", "Waermepumpe"),
    "Anträge auf Förderung für Zählerschränke": ("Zählerschrank", "Antrag"),
    "Straße und Fuß": ("Strasse",),
    "Die Wallbox im Keller": ("Walbox",),
}
"""Questions that should find a text: compound, stem, umlaut, sharp s, a slip of the keys."""

_OTHER_TEXTS = 50


class Checks:
    """Their inputs, written once for all peers."""

    def __init__(self, base: Path, corpus: Corpus) -> None:
        import numpy as np

        self._base = base
        rows = _distinct(corpus)[:KILLED_TEXTS]
        rows = rows[: len(rows) // 2 * 2]  # an even number: no row is its own mirror
        vectors = corpus.text_vectors[rows]
        self.count = len(rows)
        old = [f"{corpus.texts[row]} {OLD}" for row in rows]
        new = [f"{corpus.texts[row]} {NEW}" for row in rows]
        self._old = write_corpus(base / "old", old, vectors)
        self._new = write_corpus(base / "new", new, np.ascontiguousarray(vectors[::-1]))
        few = rows[:RENAMED_TEXTS]
        self._few = write_corpus(
            base / "few", [corpus.texts[row] for row in few], corpus.text_vectors[few]
        )
        self._asked = [
            (at, question) for at, probes in enumerate(PROBES.values()) for question in probes
        ]
        texts = [*PROBES, *(corpus.texts[row] for row in rows[:_OTHER_TEXTS])]
        axes = np.eye(len(texts), DIMENSIONS, dtype=np.float32)
        self._probes = write_corpus(
            base / "probes", texts, axes, [question for _, question in self._asked]
        )

    def killed(self, peer: Peer) -> Figure:
        """After how many kills a new process finds the content complete, all old or all new."""
        built, store = self._base / f"{peer.name}-built", self._base / f"{peer.name}-killed"
        peer.run("build", built, self._old)
        _copied(built, store)
        rebuild_s = peer.run("rebuild", store, self._new)[-1]["rebuild_s"]
        undisturbed = self._outcome(peer, store)
        if not undisturbed.startswith("new"):
            raise PeerFailedError(f"a rebuild that is not killed leaves content {undisturbed}")
        moments = [partial(time.sleep, share * rebuild_s) for share in KILLS_AT]
        moments += [partial(_after_changes, store, count, rebuild_s) for count in KILLS_AFTER]
        outcomes = []
        for moment in moments:
            _copied(built, store)
            was_working = peer.killed_rebuild(store, self._new, moment)
            outcome = self._outcome(peer, store)
            outcomes.append(outcome if was_working else f"{outcome} (it had ended)")
        complete = sum(outcome.split()[0] in ("old", "new") for outcome in outcomes)
        return _checked(peer, "killed.complete", complete, "kills", KILLS, ">=", outcomes=outcomes)

    def renamed(self, peer: Peer, facts: Said) -> Figure:
        """Texts that an unchanged refresh embeds after all files were renamed."""
        if facts["rename"]:
            return not_applicable(peer.name, "renamed.embedded", "texts", facts["rename"])
        said = peer.run("renamed", self._base / f"{peer.name}-renamed", self._few)[-1]
        return _checked(
            peer, "renamed.embedded", said["embedded"], "texts", 0, "<=", texts=said["texts"]
        )

    def german(self, peer: Peer, facts: Said) -> Figure:
        """How many of the German probes are found lexically."""
        if "lexical" not in facts["modes"]:
            return not_applicable(peer.name, "probes.found", "probes", "no lexical search")
        rows = peer.run("probes", self._base / f"{peer.name}-probes", self._probes)[-1]["rows"]
        found = [q for (at, q), hits in zip(self._asked, rows, strict=True) if at in hits]
        missed = [question for _, question in self._asked if question not in found]
        return Figure(
            figure=f"peers.{peer.name}.probes.found",
            value=len(found),
            unit="probes",
            n=len(self._asked),
            details={"found": found, "missed": missed},
        )

    def _outcome(self, peer: Peer, store: Path) -> str:
        """`old`, `new`, or what a new process finds instead."""
        try:
            said = peer.run("state", store, self._new, OLD, NEW)[-1]
        except PeerFailedError as exc:
            return f"broken: {exc}"
        old, new = said["counts"][OLD], said["counts"][NEW]
        # The new vectors are the old ones in reverse order.
        nearest = [(int(row), hits) for row, hits in said["nearest"].items()]
        new_vectors = sum(hits == [row] for row, hits in nearest)
        old_vectors = sum(hits == [self.count - 1 - row] for row, hits in nearest)
        found = {"old": old_vectors, "new": new_vectors}
        for name, texts, other in (
            ("old", (self.count, 0), "new"),
            ("new", (0, self.count), "old"),
        ):
            is_found = found[name] == len(nearest)
            if (old, new) == texts and (is_found or (said["is_approximate"] and not found[other])):
                return (
                    name if is_found else f"{name} ({found[name]} of {len(nearest)} vectors found)"
                )
        return (
            f"mixed: {old} old and {new} new of {self.count} texts, "
            f"{old_vectors} old and {new_vectors} new of {len(nearest)} vectors"
        )


def not_applicable(peer: str, name: str, unit: str, reason: str) -> Figure:
    """A figure without a value, with its reason."""
    return Figure(
        figure=f"peers.{peer}.{name}", value=None, unit=unit, n=0, details={"reason": reason}
    )


def _checked(
    peer: Peer, name: str, value: int, unit: str, limit: int, sense: Sense, **details: Any
) -> Figure:
    """A figure that sqlindex is held to; for the others it is reported."""
    is_ours = peer.name == "sqlindex"
    return Figure(
        figure=f"peers.{peer.name}.{name}",
        value=value,
        unit=unit,
        n=details.get("texts") or KILLS,
        limit=limit if is_ours else None,
        sense=sense if is_ours else None,
        details=details,
    )


def _distinct(corpus: Corpus) -> list[int]:
    """Rows whose text and vector no other row has, so that the nearest text is one."""
    seen: set[bytes] = set()
    rows = []
    for row, vector in enumerate(corpus.text_vectors):
        key = vector.tobytes()
        if key not in seen:
            seen.add(key)
            rows.append(row)
    return rows


def _after_changes(store: Path, count: int, at_most_s: float) -> None:
    """Wait until the files of a folder have changed so often, or for the time of the whole work."""
    ends = time.perf_counter() + at_most_s
    seen = _stamps(store)
    while count and time.perf_counter() < ends:
        now = _stamps(store)
        count -= now != seen
        seen = now


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file below a folder."""
    stamps = {}
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            with suppress(FileNotFoundError):
                found = os.stat(path)
                stamps[path] = found.st_size, found.st_mtime_ns
    return stamps


def _copied(built: Path, store: Path) -> None:
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(built, store)
