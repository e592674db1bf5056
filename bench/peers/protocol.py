"""What a peer's driver and the benchmark say to each other; standard library only.

A driver is a module `bench/peers/NAME.py` that ends with `serve(Driver)`. It runs in the peer's own
environment, one process for each task: `python -m bench.peers.NAME TASK STORE CORPUS ARGUMENT…`, and
prints one JSON object a line. `STORE` is the folder of the peer's index, `CORPUS` one that
`write_corpus` made.
"""

from __future__ import annotations

import json
import mmap
import re
import shutil
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

TOP = 100
"""Hits of every search."""

MODES = ("lexical", "vector", "hybrid")

_RANK_CONSTANT = 60
_WORD = re.compile(r"[^\W_]+")
_REPLACE_ROUNDS = 5
_REPLACE_SECONDS = 10
"""No further replacement begins after this time; two are always made."""


class Vectors:
    """Rows of a float32 `.npy` file of two dimensions, mapped into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        (header,) = struct.unpack("<H", self._mapped[8:10])
        shape = re.search(rb"'shape': \((\d+), (\d+)\)", self._mapped[10 : 10 + header])
        assert shape is not None, path
        self.count, self.dimensions = int(shape[1]), int(shape[2])
        self._start = 10 + header

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> bytes:
        """A row: little-endian float32, 4 × dimensions bytes."""
        width = 4 * self.dimensions
        return self._mapped[self._start + row * width : self._start + (row + 1) * width]

    def __iter__(self) -> Iterator[bytes]:
        return (self[row] for row in range(self.count))

    def all(self) -> bytes:
        """All rows behind each other."""
        return self._mapped[self._start : self._start + 4 * self.dimensions * self.count]


class Driver(ABC):
    """A peer as the benchmark sees it. Texts are known by their row; hits are rows, best first.

    Attributes:
        modes: which of `MODES` it can.
        is_approximate: whether the nearest vectors may be missed.
        top: hits it is asked for; fewer than `TOP` if it cannot give more.
        note: how it is set up, for the table.
        rename: why an unchanged refresh after a rename cannot be measured; empty if it can.
    """

    modes: ClassVar[tuple[str, ...]]
    is_approximate: ClassVar[bool] = False
    top: ClassVar[int] = TOP
    note: ClassVar[str]
    rename: ClassVar[str] = "the caller's business"

    def __init__(self, store: Path) -> None:
        self.store = store

    @abstractmethod
    def build(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Make the index of all texts in the empty folder `store`, durable on disk."""

    @abstractmethod
    def open(self, texts: Sequence[str] = (), vectors: Vectors | None = None) -> None:
        """Open what is in `store`.

        Args:
            texts, vectors: what is stored, for a peer that can only write itself anew as a whole.
                Empty where nothing is changed.
        """

    @abstractmethod
    def replace(self, row: int, text: str, vector: bytes) -> None:
        """Change one text: durable, and seen by the searches that follow."""

    @abstractmethod
    def rebuild(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Give every text of the open index its new content, as safely as the peer offers."""

    def lexical(self, text: str, limit: int) -> list[int]:
        """Rows that hold any of the question's words."""
        raise NotImplementedError

    def vector(self, text: str, vector: bytes, limit: int) -> list[int]:
        """Rows by cosine with the question's vector."""
        raise NotImplementedError

    def hybrid(self, text: str, vector: bytes, limit: int) -> list[int]:
        """Both fused."""
        raise NotImplementedError

    def count(self, word: str) -> int:
        """How many texts hold a word."""
        return len(self.lexical(word, 1_000_000))

    def renamed(self, texts: Sequence[str], vectors: Vectors) -> int:
        """Texts that an unchanged refresh embeds after all their files were renamed."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Close the index; called once."""


def words(text: str) -> list[str]:
    """Distinct words in lower case: the query "any of these" in every peer's own syntax."""
    return list(dict.fromkeys(_WORD.findall(text.lower())))


def fused(rankings: Sequence[Sequence[int]], limit: int) -> list[int]:
    """Reciprocal rank fusion, for peers that leave it to their caller."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (_RANK_CONSTANT + rank)
    return sorted(scores, key=lambda row: (-scores[row], row))[:limit]


def emptied(folder: Path) -> Path:
    """The folder, made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def serve(driver: type[Driver]) -> None:
    """Run the task that the command line names."""
    task, store, corpus, *arguments = sys.argv[1:]
    _TASKS[task](driver(Path(store)), Path(corpus), arguments)


def _build(driver: Driver, corpus: Path, _: list[str]) -> None:
    texts, vectors = read_texts(corpus), Vectors(corpus / "vectors.npy")
    emptied(driver.store)
    started = time.perf_counter()
    driver.build(texts, vectors)
    driver.close()
    _say(build_s=time.perf_counter() - started, peak_mib=peak_mib())


def _search(driver: Driver, corpus: Path, arguments: list[str]) -> None:
    """Time the first questions in each mode; answer the others too if rankings are asked for."""
    timed, ranked = int(arguments[0]), bool(int(arguments[1]))
    questions, vectors = read_texts(corpus, "questions"), Vectors(corpus / "question_vectors.npy")
    driver.open()
    for mode in driver.modes:
        ask = _asking(driver, mode, questions, vectors)
        ask(0)
        took_ms, rankings = [], []
        for at in range(min(timed, len(questions))):
            started = time.perf_counter()
            rankings.append(ask(at))
            took_ms.append((time.perf_counter() - started) * 1000)
        if ranked:
            rankings += [ask(at) for at in range(len(rankings), len(questions))]
        _say(mode=mode, ms=took_ms, rankings=rankings if ranked else [])
    _say(peak_mib=peak_mib())
    driver.close()


def _first(driver: Driver, corpus: Path, arguments: list[str]) -> None:
    """The first answer of a new process in one mode; the benchmark holds the clock."""
    (mode,) = arguments
    questions, vectors = read_texts(corpus, "questions"), Vectors(corpus / "question_vectors.npy")
    driver.open()
    _say(hits=len(_asking(driver, mode, questions, vectors)(0)))
    driver.close()


def _replace(driver: Driver, corpus: Path, _: list[str]) -> None:
    """Time from a changed text until a search finds the new one and the old one no longer."""
    texts, vectors = read_texts(corpus), Vectors(corpus / "vectors.npy")
    row, width = len(texts) // 2, vectors.dimensions
    driver.open(texts, vectors)
    took_ms: list[float] = []
    began = time.perf_counter()
    for at in range(_REPLACE_ROUNDS + 1):
        word, old = f"neuwort{at}x", f"neuwort{at - 1}x"
        vector, old_vector = _axis(width, at + 1), _axis(width, at)
        started = time.perf_counter()
        driver.replace(row, f"{texts[row]} {word}", vector)
        while not _is_searchable(driver, row, word, vector, old, old_vector):
            assert time.perf_counter() - started < 60, "the changed text was never found"
        took_ms.append((time.perf_counter() - started) * 1000)
        if len(took_ms) > 2 and time.perf_counter() - began > _REPLACE_SECONDS:
            break
    driver.close()
    _say(ms=took_ms[1:])


def _rebuild(driver: Driver, corpus: Path, _: list[str]) -> None:
    texts, vectors = read_texts(corpus), Vectors(corpus / "vectors.npy")
    driver.open(texts, vectors)
    _say(started=True)
    started = time.perf_counter()
    driver.rebuild(texts, vectors)
    driver.close()
    _say(rebuild_s=time.perf_counter() - started)


def _state(driver: Driver, corpus: Path, arguments: list[str]) -> None:
    """What a new process finds: texts by word, and the nearest row of some vectors."""
    vectors = Vectors(corpus / "vectors.npy")
    driver.open()
    counts = {word: driver.count(word) for word in arguments}
    nearest = {}
    if "vector" in driver.modes:
        step = max(1, len(vectors) // 20)
        nearest = {
            row: driver.vector("row", vectors[row], 1) for row in range(0, len(vectors), step)
        }
    driver.close()
    _say(counts=counts, nearest=nearest, is_approximate=driver.is_approximate)


def _probes(driver: Driver, corpus: Path, _: list[str]) -> None:
    """Rows that each question finds lexically."""
    texts, vectors = read_texts(corpus), Vectors(corpus / "vectors.npy")
    emptied(driver.store)
    driver.build(texts, vectors)
    driver.close()
    driver.open()
    limit = len(texts)
    _say(rows=[driver.lexical(question, limit) for question in read_texts(corpus, "questions")])
    driver.close()


def _renamed(driver: Driver, corpus: Path, _: list[str]) -> None:
    texts, vectors = read_texts(corpus), Vectors(corpus / "vectors.npy")
    emptied(driver.store)
    _say(texts=len(texts), embedded=driver.renamed(texts, vectors))


def _facts(driver: Driver, _: Path, __: list[str]) -> None:
    import platform
    from importlib import metadata

    installed = {found.name: found.version for found in metadata.distributions()}
    _say(
        modes=driver.modes,
        top=driver.top,
        note=driver.note,
        rename=driver.rename,
        versions={"python": platform.python_version(), **dict(sorted(installed.items()))},
    )


_TASKS: dict[str, Callable[[Driver, Path, list[str]], None]] = {
    "facts": _facts,
    "build": _build,
    "search": _search,
    "first": _first,
    "replace": _replace,
    "rebuild": _rebuild,
    "state": _state,
    "probes": _probes,
    "renamed": _renamed,
}


def _asking(
    driver: Driver, mode: str, questions: Sequence[str], vectors: Vectors
) -> Callable[[int], list[int]]:
    if mode == "lexical":
        return lambda at: driver.lexical(questions[at], driver.top)
    if mode == "vector":
        return lambda at: driver.vector(questions[at], vectors[at], driver.top)
    return lambda at: driver.hybrid(questions[at], vectors[at], driver.top)


def _is_searchable(
    driver: Driver, row: int, word: str, vector: bytes, old: str, old_vector: bytes
) -> bool:
    is_found = True
    if "lexical" in driver.modes:
        is_found = driver.lexical(word, 1) == [row] and row not in driver.lexical(old, 1)
    if is_found and "vector" in driver.modes:
        of_new, of_old = driver.vector(word, vector, 1), driver.vector(old, old_vector, 1)
        is_found = of_new == [row] and of_old != [row]
    return is_found


def _axis(width: int, at: int) -> bytes:
    """A unit vector along one axis: far from every text."""
    return struct.pack(f"<{width}f", *(float(axis == at) for axis in range(width)))


def read_texts(corpus: Path, name: str = "texts") -> list[str]:
    with (corpus / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def peak_mib() -> float:
    """Peak resident memory of this process; `ru_maxrss` may start at the parent's on Linux."""
    status = Path("/proc/self/status")
    if status.is_file():
        found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        if found:
            return int(found[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def _say(**values: object) -> None:
    print(json.dumps(values), flush=True)
