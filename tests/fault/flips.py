"""One flipped bit anywhere in a closed index: found by `check`, or without any effect.

Each flip is judged by what it changed: nothing that anybody could observe, what an index is the only
holder of (the truth: texts, vectors, versions, generations), or what is derived from it (b-tree
indexes, the lexical tables). Probes run in a child with a time limit, so a crash or a loop counts
against the flip.

`python -m tests.fault.flips --n 10000 [--content] [--seed N] [--jobs N] [--json] [--verbose]`
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import apsw

from sqlindex import Index
from sqlindex.errors import SqlindexError
from sqlindex.model.requests import MODES
from sqlindex.model.results import Hit
from sqlindex.store import driver
from sqlindex.store.driver import sqlite_version
from sqlindex.testing import HashingEmbedder
from tests.fault.operations import AFTER, BEFORE, QUERIES, SMALL_STEPS, documents, write_files
from tests.faults import folder_in_memory

PROBE_S = 10
"""Processor time that a probe may take; it may wait twenty times as long on a busy machine."""

CONTENT = (
    "content",
    "content_piece",
    "parse",
    "section",
    "chunk",
    "link",
    "document_version",
    "vector",
)
"""Tables whose rows nothing else can give back; each row has a checksum of its own or its parse's."""

LINKS = "# Links\n\nSee [the pump](pump.md) and [[valve]].\n"
_LEXICAL = ("chunk_fts_a", "chunk_fts_b")

Outcome = Literal["detected", "harmless", "missed", "crashed"]


@dataclass(frozen=True, slots=True)
class Subject:
    """An index that no process has open.

    Attributes:
        data: its bytes.
        answers: what it answers to a host.
        rows: digest of each table's rows, those of lexical tables left out.
        places: name of the table or index that each page belongs to, from page 1 on.
    """

    data: bytes
    page_size: int
    answers: str
    rows: dict[str, str]
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one flip did.

    Attributes:
        bit: number of the bit in the file.
        place: the table or index whose page it is in.
        outcome: whether `check` tells of it; if not, whether anything differs; or whether something
            ended in a crash, a loop or an exception that is none of ours.
        changed: tables whose rows differ.
        answers: whether readers got the same, an error, or something else without a word.
        detail: what check said, or the exception that is none of ours.
    """

    bit: int
    place: str
    outcome: Outcome
    changed: tuple[str, ...] = ()
    answers: Literal["same", "error", "wrong"] = "same"
    detail: str = ""


def make_subject(place: Path) -> Subject:
    """An index with files, pushed documents, vectors of two generations, refusals and links."""
    folder, db = place / "documents", place / "index.db"
    folder.mkdir()
    with Index.open(db, create=True, embedder=HashingEmbedder(16), config=SMALL_STEPS) as index:
        write_files(folder, BEFORE)
        (folder / "image.png").write_bytes(b"\x89PNG")
        index.add_source(folder)
        index.refresh()
        index.upsert("notes", documents({f"n{n}.md": f"# N {n}\n\npump {n}\n" for n in range(20)}))
        write_files(folder, {**AFTER, "links.md": LINKS})
        index.refresh()
        assert index.check() == []
    with closing(apsw.Connection(str(db))) as connection:
        ask: Any = connection.execute
        ask("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        page_size = ask("PRAGMA page_size").fetchone()[0]
        names = dict(ask("SELECT pageno, name FROM dbstat").fetchall())
    data = db.read_bytes()
    pages = len(data) // page_size
    return Subject(
        data,
        page_size,
        _answers(db),
        _rows(db),
        tuple(names.get(page, "free or bookkeeping") for page in range(1, pages + 1)),
    )


def _answers(db: Path) -> str:
    """A digest of what searches and the other reading calls give, texts and scores included."""
    with Index.open(db, embedder=HashingEmbedder(16)) as index:
        status = index.status()
        given: list[object] = [status.generation, status.documents, status.sources]
        for mode, query in product(MODES, QUERIES):
            given += [_seen(hit) for hit in index.search(query, mode=mode, limit=100).hits]
        for name in ("links.md", *AFTER):
            given += [index.get(name), index.links(name), index.backlinks(name)]
    return _digest(given)


def _seen(hit: Hit) -> Hit:
    """A hit as people see it: no digit of a score behind the ninth."""
    scores = ("lexical_score", "semantic_score")
    rounded = {
        name: round(value, 9) for name in scores if (value := getattr(hit, name)) is not None
    }
    return replace(hit, **rounded)


def _rows(db: Path) -> dict[str, str]:
    """A digest of every table's rows and of the schema."""
    library: Any = importlib.import_module(driver.driver_name)
    with closing(library.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
        tables = [row[0] for row in connection.execute(names).fetchall()]
        found = {"sqlite_schema": _digest(connection.execute(schema).fetchall())}
        for table in tables:
            if not table.startswith(_LEXICAL):
                # NOT INDEXED: a damaged b-tree index must not hide that the rows are whole.
                rows = connection.execute(f'SELECT * FROM "{table}" NOT INDEXED').fetchall()
                found[table] = _digest(sorted(map(repr, rows)))
        for pragma in ("application_id", "user_version", "auto_vacuum", "encoding"):
            found[pragma] = _digest(connection.execute(f"PRAGMA {pragma}").fetchall())
    return found


def _digest(rows: Sequence[object]) -> str:
    return hashlib.blake2b(repr(rows).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def flip(subject: Subject, bit: int, folder: Path) -> Path:
    """Write the index with one bit flipped."""
    db = folder / "index.db"
    changed = bytearray(subject.data)
    changed[bit // 8] ^= 1 << bit % 8
    for suffix in ("-wal", "-shm", "-lock"):
        Path(f"{db}{suffix}").unlink(missing_ok=True)
    db.write_bytes(changed)
    db.chmod(0o600)
    return db


def probe(subject: Subject, bit: int, folder: Path) -> Verdict:
    """Judge one flip, in this process."""
    db = flip(subject, bit, folder)
    place = subject.places[bit // 8 // subject.page_size]
    answers: Literal["same", "error", "wrong"]
    foreign = ""
    try:
        answers = "same" if _answers(db) == subject.answers else "wrong"
    except SqlindexError:
        answers = "error"
    except Exception as exc:  # counted as a crash
        answers, foreign = "error", f"reading: {type(exc).__name__}: {exc}"
    findings: list[str] = []
    try:
        with Index.open(db) as index:
            findings = [f"{found.invariant}: {found.detail}" for found in index.check()]
    except SqlindexError as exc:
        findings = [f"{type(exc).__name__}: {exc}"]
    except Exception as exc:  # counted as a crash
        foreign = f"check: {type(exc).__name__}: {exc}"
    try:
        rows = _rows(db)
        changed = tuple(sorted(n for n, d in subject.rows.items() if rows.get(n) != d))
    except Exception as exc:  # of SQLite or its driver: all that matters is that it fails
        changed = (f"unreadable: {exc}",)
    outcome: Outcome = "missed"
    if foreign:
        outcome = "crashed"
    elif findings:
        outcome = "detected"
    elif not changed and answers == "same":
        outcome = "harmless"
    return Verdict(bit, place, outcome, changed, answers, foreign or "; ".join(findings[:1]))


def probe_each(subject: Subject, bits: Sequence[int]) -> list[Verdict]:
    """Judge flips, each with a time limit, in children: a crash or a loop is a verdict too."""
    verdicts: list[Verdict] = []
    with (
        tempfile.TemporaryDirectory() as otherwise,
        folder_in_memory(Path(otherwise)) as folder,
    ):
        while len(verdicts) < len(bits):
            rest = bits[len(verdicts) :]
            lines, ended = _in_child(subject, rest, folder)
            verdicts += [_verdict_of(line) for line in lines]
            if len(lines) < len(rest):
                bit = rest[len(lines)]
                place = subject.places[bit // 8 // subject.page_size]
                verdicts.append(Verdict(bit, place, "crashed", answers="wrong", detail=ended))
    return verdicts


def _in_child(subject: Subject, bits: Sequence[int], folder: Path) -> tuple[list[str], str]:
    """(the verdicts that a child gave, how it ended)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            for limit in (signal.SIGALRM, signal.SIGPROF):
                signal.signal(limit, signal.SIG_DFL)
            with os.fdopen(writing, "w") as out:
                for bit in bits:
                    signal.setitimer(signal.ITIMER_PROF, PROBE_S)
                    signal.alarm(20 * PROBE_S)
                    verdict = probe(subject, bit, folder)
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    signal.alarm(0)
                    values = [getattr(verdict, name) for name in Verdict.__slots__]
                    print(json.dumps(values), file=out, flush=True)
            code = 0
        except BaseException as exc:  # a forked child must not go on as its parent
            print(f"bit {bit}: {type(exc).__name__}: {exc}", file=sys.stderr)
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return lines, f"the child ended with {code}"


def _verdict_of(line: str) -> Verdict:
    bit, place, outcome, changed, answers, detail = json.loads(line)
    return Verdict(bit, place, outcome, tuple(changed), answers, detail)


def random_bits(subject: Subject, count: int, seed: int, places: Collection[str] = ()) -> list[int]:
    """A random bit of a random page, `count` times, outside of gaps that nothing ever reads.

    Args:
        places: only pages of these tables and indexes, if any are named.
    """
    chance = random.Random(seed)
    pages = [at for at, place in enumerate(subject.places) if not places or place in places]
    drawn: list[int] = []
    while len(drawn) < count:
        page, byte = chance.choice(pages), chance.randrange(subject.page_size)
        if byte not in _gap(subject, page):
            drawn.append((page * subject.page_size + byte) * 8 + chance.randrange(8))
    return drawn


def _gap(subject: Subject, page: int) -> range:
    """The bytes of a b-tree page between the pointers to its cells and the cells.

    Source: the SQLite file format, section 1.6. Pages of other kinds count as full.
    """
    start = page * subject.page_size
    data = subject.data[start : start + subject.page_size]
    header = 100 if page == 0 else 0
    if data[header] not in (0x02, 0x05, 0x0A, 0x0D) or subject.places[page].startswith("free"):
        return range(0)
    pointers = header + (12 if data[header] in (0x02, 0x05) else 8)
    cells = int.from_bytes(data[header + 3 : header + 5])
    return range(pointers + 2 * cells, int.from_bytes(data[header + 5 : header + 7]) or 65_536)


@dataclass(slots=True)
class Tally:
    """Verdicts counted.

    Attributes:
        outcomes: by outcome.
        wrong: places of flips that let a search answer wrongly without a word.
        missed: places, with the tables that differ, of flips that check did not find.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict) -> None:
        self.outcomes[verdict.outcome] += 1
        if verdict.answers == "wrong":
            self.wrong[f"{verdict.place} ({verdict.outcome})"] += 1
        if verdict.outcome in ("missed", "crashed"):
            changed = ", ".join(verdict.changed) or "no table"
            self.missed[f"{verdict.place} changes {changed}; answers {verdict.answers}"] += 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Flip many bits by hand; progress on stderr, a summary on stdout; 1 if a flip was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.flips")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--content", action="store_true", help="only where content lies")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="print each missed flip")
    options = parser.parse_args(arguments)
    started, tally = time.monotonic(), Tally()
    with (
        tempfile.TemporaryDirectory() as otherwise,
        folder_in_memory(Path(otherwise)) as folder,
    ):
        subject = make_subject(folder)
    bits = random_bits(subject, options.n, options.seed, CONTENT if options.content else ())
    parts = [bits[at : at + 100] for at in range(0, len(bits), 100)]
    with ThreadPoolExecutor(options.jobs) as pool:
        for verdicts in pool.map(lambda part: probe_each(subject, part), parts):
            for verdict in verdicts:
                tally.add(verdict)
                if options.verbose and verdict.outcome in ("missed", "crashed"):
                    print(verdict, file=sys.stderr)
            seconds = time.monotonic() - started
            print(f"{dict(tally.outcomes)}, {seconds:.0f} s", file=sys.stderr)
    summary = {
        "flips": len(bits),
        **tally.outcomes,
        "wrong_answers": dict(tally.wrong.most_common()),
        "misses": dict(tally.missed.most_common()),
        "seed": options.seed,
        "pages": len(subject.places),
        "seconds": round(time.monotonic() - started, 1),
        "sqlite": sqlite_version,
    }
    if options.json:
        print(json.dumps(summary))
    else:
        for key, value in summary.items():
            print(f"{key}: {value}")
    return 1 if tally.missed else 0


if __name__ == "__main__":
    sys.exit(main())
