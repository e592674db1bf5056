"""Embedding overlaps with reading, stores each batch before the next, and tokenises no text twice."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqlindex import CancelToken, Document, Index, IndexConfig
from sqlindex.errors import BadVectorError, EmbedderError, InputTooLongError
from sqlindex.indexing.stored_inputs import InputReader
from sqlindex.ports import OverLongPolicy
from sqlindex.store import driver
from sqlindex.testing import HashingEmbedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BATCH = 4
DOCUMENTS = [Document(f"d{n:02}", f"The pump number {n} is hot.") for n in range(22)]


class Watching(HashingEmbedder):
    """Looks into the file whenever it is called."""

    def __init__(self, db: Path) -> None:
        super().__init__(16)
        self._db = db
        self.stored: list[int] = []

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        with closing(driver.connect(self._db, "ro")) as connection:
            self.stored += connection.execute("SELECT count(*) FROM vector").fetchone()
        return super().embed_documents(texts)


class Reading(HashingEmbedder):
    """Each call waits until the texts of the next batch have been read."""

    def __init__(self, texts_read: threading.Semaphore) -> None:
        super().__init__(16)
        self._texts_read = texts_read
        self.waited = 0

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        left = len(DOCUMENTS) - len(self.document_inputs) - len(texts)
        own = 0 if self.document_inputs else len(texts)
        for _ in range(own + min(BATCH, left)):
            assert self._texts_read.acquire(timeout=10), "the next batch was not read meanwhile"
            self.waited += 1
        return super().embed_documents(texts)


class Tokenising(HashingEmbedder):
    """An embedder with a limit of six words."""

    token_limit = 6

    def __init__(self, policy: OverLongPolicy = "truncate") -> None:
        super().__init__(16)
        self.over_long_policy = policy
        self.counted: list[str] = []

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        self.counted += texts
        return [len(text.split()) for text in texts]


class CountingWhileEmbedding(Tokenising):
    """The same, that counts while it embeds."""

    def embed_counted(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], list[int]]:
        return self.embed_documents(texts), [len(text.split()) for text in texts]


def config() -> IndexConfig:
    return IndexConfig(documents_per_batch=5, embedding_batch=BATCH)


@pytest.mark.req("A-14")
@pytest.mark.parametrize("token", [None, CancelToken()])
def test_each_batch_is_in_the_file_before_the_next_is_embedded(
    tmp_path: Path, token: CancelToken | None
) -> None:
    db = tmp_path / "i.db"
    embedder = Watching(db)
    with Index.open(db, create=True, embedder=embedder, config=config()) as index:
        index.upsert("notes", DOCUMENTS, cancel=token)
    assert embedder.stored == list(range(0, len(DOCUMENTS), BATCH))


@pytest.mark.req("A-14")
def test_the_next_batch_is_read_while_one_is_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts_read = threading.Semaphore(0)
    text_of = InputReader.text

    def text(self: InputReader, parse_id: int, ord_: int) -> str:
        texts_read.release()
        return text_of(self, parse_id, ord_)

    monkeypatch.setattr(InputReader, "text", text)
    embedder = Reading(texts_read)
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder, config=config()) as index:
        report = index.upsert("notes", DOCUMENTS, cancel=CancelToken())
    assert report.embedded == len(DOCUMENTS)
    assert embedder.waited == len(DOCUMENTS)


@pytest.mark.req("A-27")
def test_an_embedder_that_counts_while_it_embeds_is_not_asked_to_count_again(
    tmp_path: Path,
) -> None:
    words = "The pump is hot and the valve is cold today."
    reports, counted = [], []
    for at, made in enumerate((Tokenising(), CountingWhileEmbedding())):
        db = tmp_path / f"{at}.db"
        with Index.open(db, create=True, embedder=made, config=config()) as index:
            index.upsert("notes", [Document("long", words), Document("short", "A pump.")])
            cut = len(made.counted)
            made.counted.clear()
            reports.append(index.upsert("notes", [Document("other", words + " No.")]).truncated)
        counted.append((cut, len(made.counted)))
    assert reports == [1, 1]
    assert counted[0][0] > counted[1][0]
    assert counted[0][1] > counted[1][1]


@pytest.mark.req("A-27")
def test_one_that_fails_on_a_long_text_is_asked_to_count_before_it_embeds(tmp_path: Path) -> None:
    made = CountingWhileEmbedding("fail")
    with Index.open(tmp_path / "i.db", create=True, embedder=made) as index:
        with pytest.raises(InputTooLongError, match="limit of 6 tokens"):
            index.upsert("notes", [Document("long", "The pump is hot and the valve is cold.")])
        assert made.document_inputs == []


class Refusing(HashingEmbedder):
    """Has no good vector for a text, and names its row."""

    def __init__(self, detail: str, row: object) -> None:
        super().__init__(16)
        self._detail, self._row = detail, row

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if len(texts) > 1:
            raise BadVectorError(self._detail, row=self._row)  # type: ignore[arg-type]
        return super().embed_documents(texts)


@pytest.mark.req("A-21")
@pytest.mark.parametrize("row", ["0", 0.5, len(DOCUMENTS), -1])
def test_a_row_that_is_none_of_the_batch_is_no_text_to_leave_out(
    tmp_path: Path, row: object
) -> None:
    embedder = Refusing("all zeros", row)
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        with pytest.raises(EmbedderError, match="a batch of 22, from n: d00"):
            index.upsert("n", DOCUMENTS, allow_bad_vectors=True)
        assert index.check() == []


@pytest.mark.req("A-21")
def test_a_reason_that_cannot_be_stored_as_it_is_leaves_the_text_out_all_the_same(
    tmp_path: Path,
) -> None:
    embedder = Refusing("zeros of \ud800", 0)
    with Index.open(tmp_path / "i.db", create=True, embedder=embedder) as index:
        report = index.upsert("n", DOCUMENTS[:2], allow_bad_vectors=True)
        assert report.without_vector == ("n: d00, lines 1-1: zeros of ?",)
        assert index.check() == []
