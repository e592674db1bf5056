"""D18 to D21: vectors of two models never mix, bad ones are refused, a service that asks for patience
or has small limits loses nothing."""

from __future__ import annotations

import json
import resource
import threading
import time
import unicodedata
from collections.abc import Callable, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sqlindex import CancelToken, Document, Index, IndexConfig
from sqlindex.embedding.service import ServiceEmbedder
from sqlindex.embedding.service_config import ServiceConfig
from sqlindex.errors import BadVectorError, CancelledError, EmbedderUnavailableError
from sqlindex.testing import HashingEmbedder
from tests.faults import shell_lines, sqlindex
from tests.unit.embedding.fault_server import (
    MODEL,
    Fault,
    Handler,
    Service,
    changed,
    running_service,
    status,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Rotated(HashingEmbedder):
    """The same axes as `HashingEmbedder(8)`, turned by one: comparable with it in nothing."""

    def __init__(self) -> None:
        super().__init__(8, revision="2")

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        import numpy as np

        return np.roll(super().embed_documents(texts), 1, axis=1)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        import numpy as np

        return np.roll(super().embed_query(text), 1)


class Renamed(HashingEmbedder):
    """`HashingEmbedder(8)` under another class and spelling, with its identity."""

    title = "demo:latest"


def _folder(tmp_path: Path, files: int) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(files):
        (folder / f"{number:02}.md").write_text(f"pump {number} valve{number}\n", encoding="utf-8")
    return folder


# D18


@pytest.mark.req("A-26", "A-29", "D-11")
def test_d18_a_generation_holds_the_vectors_of_one_encoding(tmp_path: Path) -> None:
    folder, path = _folder(tmp_path, 10), tmp_path / "i.db"
    first = HashingEmbedder(8)
    with Index.open(path, create=True, embedder=first) as index:
        index.add_source(folder)
        index.refresh()
    (folder / "03.md").write_text("pump 3, mended\n", encoding="utf-8")
    second = Rotated()
    with Index.open(path, embedder=second) as index:
        report = index.refresh()
        assert report.embedded == len(set(second.document_inputs)) == 10
        hits = index.search("pump 7 valve7", mode="semantic", limit=10).hits
        assert hits[0].document_id == "07.md"
        assert hits[0].semantic_score == pytest.approx(1, abs=1e-6)
        assert index.check() == []
    told = "SELECT identity, count(*) FROM v_vector JOIN vector_space USING(space_id) GROUP BY identity"
    assert shell_lines(path, told) == ["hashing@1|8|10", "hashing@2|8|10"]


@pytest.mark.req("A-26")
def test_d18_a_name_alone_embeds_nothing_again(tmp_path: Path) -> None:
    folder, path = _folder(tmp_path, 10), tmp_path / "i.db"
    with Index.open(path, create=True, embedder=HashingEmbedder(8)) as index:
        index.add_source(folder)
        index.refresh()
    again = Renamed(8)
    with Index.open(path, embedder=again) as index:
        assert index.refresh().embedded == 0
        assert again.document_inputs == []
        assert index.search("pump", mode="semantic").hits


# D19


class Faulty(HashingEmbedder):
    """Gives a fault for each text with a word that says so."""

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = super().embed_documents(texts)
        for row, text in enumerate(texts):
            if "zeros" in text:
                rows[row] = 0
            elif "nan" in text:
                rows[row, 3] = float("nan")
            elif "infinite" in text:
                rows[row, 3] = float("inf")
        return rows[:, :4] if any("short" in text for text in texts) else rows

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        vector = super().embed_query(text)
        return vector * 0 if text == "zeros" else vector


@pytest.mark.req("A-26", "C-17")
@pytest.mark.parametrize("fault", ["zeros", "nan", "infinite", "short"])
def test_d19_a_bad_vector_is_refused_by_file_and_lines(fault: str, tmp_path: Path) -> None:
    folder, path = _folder(tmp_path, 10), tmp_path / "i.db"
    with Index.open(path, create=True, embedder=Faulty(8)) as index:
        index.add_source(folder)
        index.refresh()
        (folder / "04.md").write_text(f"# Pump\n\n{fault}\n", encoding="utf-8")
        words = r"04\.md, lines 1-3|batch of 1, from .*04\.md, lines 1-3"
        with pytest.raises(BadVectorError, match=words):
            index.refresh()
        assert index.status().generation == 1
        assert len(index.search("pump", mode="semantic", limit=20).hits) == 10
        assert index.check() == []


@pytest.mark.req("A-26")
def test_d19_the_other_texts_rank_as_without_the_bad_ones(tmp_path: Path) -> None:
    texts = [Document(f"d{n}", f"pump {n} valve{n}") for n in range(6)]
    bad = [Document(word, f"pump {word}") for word in ("zeros", "nan", "infinite")]
    found = []
    for name, documents in (("with", texts + bad), ("without", texts)):
        with Index.open(tmp_path / name, create=True, embedder=Faulty(8)) as index:
            report = index.upsert("host", documents, allow_bad_vectors=True)
            assert len(report.without_vector) == len(documents) - len(texts)
            hits = index.search("pump valve3", mode="semantic", limit=20).hits
            found.append([(hit.document_id, hit.semantic_score) for hit in hits])
            assert len(index.search("pump", mode="lexical", limit=20).hits) == len(documents)
    assert found[0] == found[1]
    assert len(found[1]) == len(texts)


@pytest.mark.req("A-26")
def test_d19_a_zero_query_vector_is_an_error(tmp_path: Path) -> None:
    with Index.open(tmp_path / "i.db", create=True, embedder=Faulty(8)) as index:
        index.upsert("host", [Document("a", "pump")])
        with pytest.raises(BadVectorError, match="query"):
            index.search("zeros", mode="semantic")


# D20

BATCHES = 20
OF_A_BATCH = 4


def _documents(run: str) -> list[Document]:
    return [Document(f"{run}{n:02}", f"pump {run} {n}") for n in range(BATCHES * OF_A_BATCH)]


def _embedder(service: Service, **settings: Any) -> ServiceEmbedder:
    config = ServiceConfig(service.url, MODEL, in_flight=1, **settings)
    embedder = ServiceEmbedder(config, first_wait_s=0.05)
    assert embedder.dimensions
    service.requests.clear()
    return embedder


def _ok() -> Fault:
    return changed(lambda body: None)


def _asking_for_patience(answer: Callable[[], Fault]) -> list[Fault]:
    faults: list[Fault] = []
    for batch in range(1, BATCHES + 1):
        if batch in (3, 4, 11):
            faults += [answer(), answer()]
        faults.append(_ok())
    return faults


@pytest.mark.req("C-13")
@pytest.mark.parametrize(
    ("wait", "least_s"),
    [
        (lambda: status(429, Retry_After="1"), 2),
        (lambda: status(503), 0),
        (lambda: status(429, Retry_After=formatdate(time.time() + 1.5, usegmt=True)), 1),
    ],
)
def test_d20_a_service_that_asks_for_patience_is_given_it(
    wait: Callable[[], Fault], least_s: float, tmp_path: Path
) -> None:
    config = IndexConfig(embedding_batch=OF_A_BATCH)
    with running_service() as service:
        embedder = _embedder(service)
        service.faults[:] = _asking_for_patience(wait)
        started = time.monotonic()
        with Index.open(tmp_path / "i.db", create=True, embedder=embedder, config=config) as index:
            report = index.upsert("host", _documents("a"))
            assert report.embedded == BATCHES * OF_A_BATCH
            assert index.check() == []
        assert least_s <= time.monotonic() - started < 60
        # Each answered once: what was refused was sent again, and nothing else was.
        assert len(service.requests) == BATCHES + 6
        answered = [request["input"] for request in service.requests]
        distinct = {text for texts in answered for text in texts}
        assert len(distinct) == BATCHES * OF_A_BATCH


@pytest.mark.req("C-13", "C-17")
def test_d20_what_was_embedded_before_the_service_gave_up_is_kept(tmp_path: Path) -> None:
    config = IndexConfig(embedding_batch=OF_A_BATCH)
    path = tmp_path / "i.db"
    with running_service() as service:
        embedder = _embedder(service, retries=1)
        service.faults[:] = [_ok()] * 11 + [status(429)] * 100
        with Index.open(path, create=True, embedder=embedder, config=config) as index:
            with pytest.raises(EmbedderUnavailableError):
                index.upsert("host", _documents("a"))
            assert index.status().generation == 0
            service.faults.clear()
            service.requests.clear()
            report = index.upsert("host", _documents("a"))
            assert report.embedded == len(service.texts) == (BATCHES - 11) * OF_A_BATCH
            assert report.without_vector == ()
            assert len(index.search("pump", mode="semantic", limit=100).hits) == 80
            assert index.check() == []


@pytest.mark.req("C-13", "C-17")
def test_d20_the_command_fails_and_the_next_one_asks_only_for_the_rest(tmp_path: Path) -> None:
    folder, db = tmp_path / "notes", tmp_path / "i.db"
    folder.mkdir()
    for number in range(160):
        (folder / f"{number:03}.md").write_text(f"pump {number}\n", encoding="utf-8")
    environment = {"SQLINDEX_SERVICES": str(tmp_path / "services")}
    with running_service() as service:
        arguments: list[str | Path] = [
            "--embedder-url",
            service.url,
            "--embedder-model",
            MODEL,
            "--db",
            db,
        ]
        assert sqlindex("init", folder, *arguments, env=environment).code == 0
        # More than one batch of 32 texts is answered, the rest never.
        service.faults[:] = [_ok()] * 11 + [status(429)] * 1_000
        failed = sqlindex("refresh", "--db", db, env=environment)
        assert failed.code == 1
        assert "429" in failed.err
        assert "Traceback" not in failed.err
        service.faults.clear()
        service.requests.clear()
        done = sqlindex("refresh", "--db", db, "--json", env=environment)
        assert done.code == 0, done.err
        assert done.json["embedded"] == len(set(service.texts)) < 160
        assert done.json["without_vector"] == []
        assert sqlindex("check", "--db", db).code == 0


@pytest.mark.req("C-13", "A-14")
def test_d20_a_wait_ends_with_a_cancel(tmp_path: Path) -> None:
    with running_service() as service:
        embedder = _embedder(service)
        service.faults[:] = [status(429, Retry_After="60")] * 5
        cancel = CancelToken()
        with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
            timer = threading.Timer(0.5, cancel.cancel)
            timer.start()
            started = time.monotonic()
            with pytest.raises(CancelledError):
                index.upsert("host", _documents("a"), cancel=cancel)
            assert time.monotonic() - started < 1.5
            timer.join()


# D21

NEEDLE = "nadelimheu"
MOST_INPUTS = 16
MOST_CHARS = 8_000


def _strict(handler: Handler, service: Service, asked: dict[str, Any]) -> None:
    texts = asked["input"]
    if len(texts) > MOST_INPUTS or sum(map(len, texts)) > MOST_CHARS:
        handler.refuse(413, "too large")
    else:
        _ok()(handler, service, asked)


@pytest.mark.req("C-13", "A-27")
@pytest.mark.parametrize("tells_limits", [True, False])
def test_d21_a_line_without_end_is_embedded_within_the_limits(
    tells_limits: bool, tmp_path: Path
) -> None:
    folder, path = tmp_path / "web", tmp_path / "i.db"
    folder.mkdir()
    script = ("x=y(1);" * 56_000)[:390_000] + f";{NEEDLE};" + "z=2;" * 2_497
    (folder / "min.js").write_text(script, encoding="utf-8")
    part = "a👍🏽e\u0301"
    (folder / "data.json").write_text(
        json.dumps({"long": part * (2_000_000 // len(part.encode()))}, ensure_ascii=False),
        encoding="utf-8",
    )
    # The client counts two bytes to a token; a service that does not tell is set up by its user.
    entry = {"embedding": {"max_inputs": MOST_INPUTS, "max_batch_tokens": MOST_CHARS // 2}}
    settings: dict[str, Any] = {} if tells_limits else {"max_inputs": 1, "max_tokens": 2_000}
    started = time.monotonic()
    with running_service(entry=entry if tells_limits else {}) as service:
        service.at_text[""] = _strict
        embedder = ServiceEmbedder(ServiceConfig(service.url, MODEL, **settings))
        with Index.open(path, create=True, embedder=embedder) as index:
            index.add_source(folder)
            report = index.refresh()
            assert report.changes.refused == ()
            assert report.embedded == len(set(service.texts))
            hit = index.search(NEEDLE, mode="lexical").hits[0]
            text = index.get(hit.document_id).text
            assert (hit.document_id, hit.start_line, hit.end_line) == ("min.js", 1, 1)
            assert NEEDLE in text[hit.start_char : hit.end_char] == hit.text
            assert index.check() == []
    assert time.monotonic() - started < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2_000_000
    for request in service.requests:
        assert len(request["input"]) <= MOST_INPUTS
        assert sum(map(len, request["input"])) <= MOST_CHARS
    for text in service.texts:
        body = text.strip()
        assert not unicodedata.combining(body[0])
        assert body[0] != "\U0001f3fd"  # the tone of the hand before it
        body.encode()  # no half of a pair


@pytest.mark.req("A-23")
def test_d21_a_long_hit_is_cut_for_display(tmp_path: Path) -> None:
    folder, db = tmp_path / "web", tmp_path / "i.db"
    folder.mkdir()
    (folder / "min.js").write_text("var x=y(1);" * 36_000 + NEEDLE, encoding="utf-8")
    assert sqlindex("init", folder, "--db", db).code == 0
    started = time.monotonic()
    assert sqlindex("refresh", "--db", db).code == 0
    assert time.monotonic() - started < 30
    found = sqlindex("search", NEEDLE, "--db", db)
    assert "min.js:1-1" in found.out
    assert max(map(len, found.out.splitlines())) < 2_000
