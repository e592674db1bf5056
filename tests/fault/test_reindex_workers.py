"""A reindex with worker processes: the same result, whoever dies, and nothing left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sqlindex import CancelToken, Index, IndexConfig
from sqlindex.config import ChunkConfig
from sqlindex.errors import BadVectorError, CancelledError, EmbedderError, WorkerDiedError
from sqlindex.testing import HashingEmbedder
from tests.faults import clean_environment, observe, wait_until

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BATCH = 4
FILES = {
    f"f{n:02}.md": f"# File {n}\n\nThe pump number {n} is hot.\n\n## Part\n\nValve {n}.\n"
    for n in range(30)
}
CONFIG = IndexConfig(chunks=ChunkConfig(60, 10, 0), documents_per_batch=4, embedding_batch=BATCH)
QUERIES = ("pump 7", "valve")
REPOSITORY = Path(__file__).resolve().parents[2]


class Logging(HashingEmbedder):
    """Writes down which process was given which text, before it embeds it.

    Attributes:
        dies_over: a text at which the process ends, as often as the file of that name says.
    """

    def __init__(self, log: Path, *, dies_over: str = "", pause_s: float = 0.0) -> None:
        super().__init__(16)
        self.log = log
        self.dies_over = dies_over
        self.pause_s = pause_s

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        with self.log.open("a") as log:
            log.write("".join(f"{json.dumps([os.getpid(), text])}\n" for text in texts))
        time.sleep(self.pause_s)
        if self.dies_over and any(self.dies_over in text for text in texts):
            deaths = self.log.with_suffix(".deaths")
            left = int(deaths.read_text())
            if left:
                deaths.write_text(str(left - 1))
                os.kill(os.getpid(), signal.SIGKILL)
        return super().embed_documents(texts)


class Broken(HashingEmbedder):
    """Fails or gives bad vectors in whatever process it is."""

    def __init__(self, how: str) -> None:
        super().__init__(16)
        self.how = how

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        print("an embedder may print")
        if self.how == "raises":
            raise ConnectionError("the model is away")
        return super().embed_documents(texts) * (0 if self.how == "zeros" else 1)


class NotPickled(HashingEmbedder):
    """Belongs to this process."""

    def __reduce__(self) -> Any:
        raise TypeError("it holds a connection")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    folder, path = tmp_path / "files", tmp_path / "i.db"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with Index.open(path, create=True, embedder=HashingEmbedder(16), config=CONFIG) as index:
        index.add_source(folder)
        index.refresh()
    return path


def children() -> set[int]:
    """Processes that this one has started and that run."""
    tasks = Path(f"/proc/{os.getpid()}/task")
    found = (
        int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()
    )
    return {pid for pid in found if Path(f"/proc/{pid}").exists()}


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


def logged(log: Path) -> list[tuple[int, str]]:
    return [(pid, text) for pid, text in map(json.loads, log.read_text().splitlines())]


def embedded_again(log: Path) -> int:
    counts = Counter(text for _, text in logged(log))
    return sum(counts.values()) - len(counts)


@pytest.mark.req("A-16")
def test_the_result_is_the_same_and_the_work_is_shared(db: Path, tmp_path: Path) -> None:
    before = observe(db, QUERIES, HashingEmbedder(16))
    log = tmp_path / "log"
    with Index.open(db, embedder=Logging(log, pause_s=0.02), config=CONFIG) as index:
        report = index.reindex(workers=2, cancel=CancelToken())
    after = observe(db, QUERIES, HashingEmbedder(16))
    assert after.generation == 2
    assert after.content() == before.content()
    assert report.embedded == len(logged(log)) == len({text for _, text in logged(log)})
    assert len({pid for pid, _ in logged(log)} - {os.getpid()}) == 2
    with Index.open(db, embedder=HashingEmbedder(16), config=CONFIG) as index:
        assert index.check() == []
        assert index.refresh().is_published is False


@pytest.mark.req("C-6")
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_killed_worker_is_replaced_once_and_then_a_typed_error(
    db: Path, tmp_path: Path, deaths: int
) -> None:
    log = tmp_path / "log"
    log.with_suffix(".deaths").write_text(str(deaths))
    with Index.open(db, embedder=Logging(log, dies_over="number 7 "), config=CONFIG) as index:
        if deaths == 2:
            with pytest.raises(WorkerDiedError, match="2 workers have died over the embedding of"):
                index.reindex(workers=2)
            assert index.status().generation == 1
        report = index.reindex(workers=2)
        assert report.is_published
        assert index.check() == []
    # What was in hand when a worker died, and with the error what the other one had.
    assert BATCH <= embedded_again(log) <= BATCH * (2 * deaths - 1)
    assert observe(db, QUERIES, HashingEmbedder(16)).generation == 2


@pytest.mark.req("A-14")
@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ("raises", EmbedderError, "ConnectionError: the model is away"),
        ("zeros", BadVectorError, "all zeros"),
    ],
)
def test_an_error_of_the_embedder_is_the_same_error_from_a_worker(
    db: Path, how: str, error: type[Exception], words: str
) -> None:
    with Index.open(db, embedder=Broken(how), config=CONFIG) as index:
        with pytest.raises(error, match=words):
            index.reindex(workers=2)
        assert index.status().generation == 1
        assert index.check() == []


@pytest.mark.req("A-26")
def test_an_embedder_that_cannot_be_pickled_is_called_here(db: Path) -> None:
    embedder = NotPickled(16)
    with Index.open(db, embedder=embedder, config=CONFIG) as index:
        report = index.reindex(workers=2)
        assert report.embedded == len(embedder.document_inputs) > 0
        assert index.check() == []


@pytest.mark.req("A-14")
def test_a_cancel_ends_the_workers_at_once_whatever_they_do(db: Path, tmp_path: Path) -> None:
    log, token, at = tmp_path / "log", CancelToken(), [0.0]

    def cancel() -> None:
        wait_until(log.exists)
        at[0] = time.monotonic()
        token.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with Index.open(db, embedder=Logging(log, pause_s=60), config=CONFIG) as index:
        with pytest.raises(CancelledError):
            index.reindex(workers=2, cancel=token)
        assert time.monotonic() - at[0] < 2
        thread.join()
        assert index.status().generation == 1


PROGRAM = """
import sys
from pathlib import Path
from sqlindex import Index
from tests.fault.test_reindex_workers import CONFIG, Logging

with Index.open(sys.argv[1], embedder=Logging(Path(sys.argv[2]), pause_s=0.05), config=CONFIG) as index:
    index.reindex(workers=2)
"""


def reindexing(db: Path, log: Path) -> subprocess.Popen[bytes]:
    environment = clean_environment({"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(db), str(log)], cwd=REPOSITORY, env=environment
    )


@pytest.mark.req("C-6", "A-16")
def test_after_a_kill_of_the_parent_its_workers_end_and_little_is_embedded_twice(
    db: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    kills = 0
    for at in (9, 30):
        process = reindexing(db, log)
        wait_until(lambda at=at: log.exists() and len(logged(log)) >= at)  # type: ignore[misc]
        process.kill()
        process.wait()
        kills += 1
        workers = {pid for pid, _ in logged(log)}
        wait_until(lambda workers=workers: not any(map(is_running, workers)), timeout_s=5)  # type: ignore[misc]
        with Index.open(db, embedder=HashingEmbedder(16)) as index:
            assert index.status().generation == 1
            assert index.check() == []
    assert reindexing(db, log).wait() == 0
    assert observe(db, QUERIES, HashingEmbedder(16)).generation == 2
    assert embedded_again(log) <= kills * 2 * BATCH
    assert len({text for _, text in logged(log)}) == 60


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
