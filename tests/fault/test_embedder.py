"""The k-th batch of an embedder fails, lies or is cancelled: the last generation stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sqlindex import Index
from sqlindex.cancellation import CancelToken
from sqlindex.config import IndexConfig
from sqlindex.errors import (
    BadVectorError,
    CancelledError,
    EmbedderError,
    EmbedderMismatchError,
    EmbedderRequiredError,
    InputTooLongError,
    SourceError,
)
from sqlindex.indexing.report import Progress
from sqlindex.model.documents import DocumentRef, RawDocument, Refusal
from sqlindex.ports import OverLongPolicy
from sqlindex.sources.memory import Document, MemorySource
from sqlindex.testing import HashingEmbedder
from tests.faults import State, observe

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

WIDTH = 16
BATCH = 2
CONFIG = IndexConfig(embedding_batch=BATCH)
QUERIES = ("pump", "valve")

FIRST = [
    Document(f"first{n}.md", f"# First {n}\n\npump number {n}\n", type_name="md") for n in range(3)
]
NEXT = [
    Document(f"next{n}.md", f"# Next {n}\n\nvalve number {n}\n", type_name="md") for n in range(7)
]


class Faulty(HashingEmbedder):
    """Embeds like `HashingEmbedder`, but hands the reply of one call to `spoil`."""

    def __init__(
        self, at_call: int = 0, spoil: Callable[[Faulty, Vectors], object] | None = None
    ) -> None:
        super().__init__(WIDTH)
        self.at_call = at_call
        self.spoil = spoil
        self.revision = "1"
        self.answered: list[str] = []

    @property
    def identity(self) -> str:
        return f"faulty@{self.revision}|{self.dimensions}"

    def embed_documents(self, texts: Sequence[str]) -> Any:
        vectors = super().embed_documents(texts)
        if self.document_calls == self.at_call and self.spoil is not None:
            return self.spoil(self, vectors)
        self.answered.extend(texts)
        return vectors


def _raise(error: BaseException) -> Callable[[Faulty, Vectors], object]:
    def spoil(_: Faulty, __: Vectors) -> object:
        raise error

    return spoil


def _with_row(value: float | None, row: int = 1) -> Callable[[Faulty, Vectors], object]:
    def spoil(_: Faulty, vectors: Vectors) -> object:
        vectors[row if row < len(vectors) else 0, :] = 0
        if value is not None:
            vectors[row if row < len(vectors) else 0, 0] = value
        return vectors

    return spoil


def _new_identity(embedder: Faulty, vectors: Vectors) -> object:
    embedder.revision = "2"
    return vectors


FAULTS: dict[str, tuple[Callable[[Faulty, Vectors], object], type[EmbedderError], str]] = {
    "raises": (_raise(RuntimeError("out of memory")), EmbedderError, "out of memory"),
    "raises an error of the driver": (
        _raise(OSError(28, "No space left")),
        EmbedderError,
        "No space",
    ),
    "nan": (_with_row(float("nan")), BadVectorError, "not finite"),
    "infinite": (_with_row(float("inf")), BadVectorError, "not finite"),
    "zeros": (_with_row(None), BadVectorError, "all zeros"),
    "too narrow": (lambda _, v: v[:, : WIDTH - 1], BadVectorError, f"width {WIDTH - 1}"),
    "too wide": (lambda _, v: np.hstack([v, v]), BadVectorError, f"width {2 * WIDTH}"),
    "one row too few": (lambda _, v: v[:-1], BadVectorError, "shape"),
    "one row too many": (lambda _, v: np.vstack([v, v[:1]]), BadVectorError, "shape"),
    "one dimension": (lambda _, v: v[0], BadVectorError, "shape"),
    "a list": (lambda _, v: v.tolist(), BadVectorError, "list"),
    "nothing": (lambda _, v: None, BadVectorError, "NoneType"),
    "texts": (lambda _, v: v.astype(str), BadVectorError, "dtype"),
    "objects": (lambda _, v: np.full(v.shape, None), BadVectorError, "dtype"),
    "too large for float32": (lambda _, v: v.astype(float) * 1e300, BadVectorError, "not finite"),
    "too small for float32": (lambda _, v: v.astype(float) * 1e-300, BadVectorError, "all zeros"),
    "changes its identity": (_new_identity, EmbedderMismatchError, "faulty@2"),
}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """An index whose first generation was embedded without a fault."""
    path = tmp_path / "index.db"
    with Index.open(path, create=True, embedder=Faulty(), config=CONFIG) as index:
        index.upsert("host", FIRST)
    return path


def _state(db: Path) -> State:
    return observe(db, QUERIES, Faulty())


def _texts(documents: Sequence[Document]) -> list[str]:
    return sorted(document.text.rstrip("\n") for document in documents)


@pytest.mark.req("A-14", "A-21", "A-26")
@pytest.mark.parametrize("at_call", [1, 2, 4])
@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_batch_keeps_the_last_generation_and_what_was_embedded(
    name: str, at_call: int, db: Path
) -> None:
    spoil, expected, words = FAULTS[name]
    before = _state(db)
    faulty = Faulty(at_call, spoil)
    with Index.open(db, embedder=faulty, config=CONFIG) as index:
        with pytest.raises(expected, match=words) as caught:
            index.upsert("host", NEXT)
        assert index.status().generation == before.generation
        assert index.check() == []
    assert _state(db) == before
    if expected is not EmbedderMismatchError:
        first = BATCH * (at_call - 1)
        named = [f"host: {d.id}, lines 1-3" for d in NEXT[first : first + BATCH]]
        assert any(place in str(caught.value) for place in named), str(caught.value)

    sound = Faulty()
    with Index.open(db, embedder=sound, config=CONFIG) as index:
        report = index.upsert("host", NEXT)
        assert index.check() == []
    assert report.is_published
    assert len(faulty.answered) == BATCH * (at_call - 1)
    assert sorted([*faulty.answered, *sound.document_inputs]) == _texts(NEXT)
    assert report.embedded == len(sound.document_inputs)


@pytest.mark.req("A-21", "A-27")
def test_the_message_of_a_bad_vector_names_the_chunk_that_it_belongs_to(db: Path) -> None:
    long = Document(
        "long.md", "# One\n\n" + "pump\n" * 30 + "\n# Two\n\n" + "valve\n" * 30, type_name="md"
    )
    embedder = Faulty(1, _with_row(float("nan"), row=1))
    with (
        Index.open(db, embedder=embedder, config=CONFIG) as index,
        pytest.raises(BadVectorError, match=r"host: long\.md, lines 34-65: not finite"),
    ):
        index.upsert("host", [long])


@pytest.mark.req("A-21")
@pytest.mark.parametrize(
    "name", ["nan", "infinite", "zeros", "too narrow", "too large for float32"]
)
def test_a_bad_vector_is_published_lexical_only_on_request(name: str, db: Path) -> None:
    spoil, _, words = FAULTS[name]
    faulty = Faulty(1, spoil)
    with Index.open(db, embedder=faulty, config=CONFIG) as index:
        index.add_source(MemorySource("more", NEXT))
        report = index.refresh(["more"], allow_bad_vectors=True)
        assert report.is_published
        assert len(report.without_vector) in (1, BATCH)
        assert all(", lines " in place and words in place for place in report.without_vector)
        semantic = index.search("valve", mode="semantic", limit=100).hits
        lexical = index.search("valve", mode="lexical", limit=100).hits
        hybrid = index.search("valve", mode="hybrid", limit=100).hits
        assert len(lexical) == len(NEXT)
        assert len(semantic) == len(FIRST) + len(NEXT) - len(report.without_vector)
        assert {h.document_id for h in hybrid} == {d.id for d in (*FIRST, *NEXT)}
        for hit in hybrid:
            is_listed = any(s.chunk_id == hit.chunk_id for s in semantic)
            assert (hit.semantic_rank is not None) == is_listed
        assert index.check() == []


@pytest.mark.req("A-21", "A-27")
def test_a_text_published_without_a_vector_gets_one_when_its_document_changes(db: Path) -> None:
    spoil, _, _ = FAULTS["nan"]
    documents = list(NEXT)
    with Index.open(db, embedder=Faulty(1, spoil), config=CONFIG) as index:
        index.add_source(MemorySource("more", lambda: documents))
        index.refresh(["more"], allow_bad_vectors=True)
        documents[1] = Document(NEXT[1].id, NEXT[1].text + "and new\n", type_name="md")
        report = index.refresh(["more"])
        assert report.embedded == 1
        assert len(index.search("valve", mode="semantic", limit=100).hits) == 10
        assert index.check() == []


@pytest.mark.req("A-14", "A-24")
def test_a_refresh_cancelled_between_batches_resumes_with_the_rest(db: Path) -> None:
    before = _state(db)
    token = CancelToken()

    def cancel(_: Faulty, vectors: Vectors) -> object:
        token.cancel()
        return vectors

    faulty = Faulty(3, cancel)
    with Index.open(db, embedder=faulty, config=CONFIG) as index, pytest.raises(CancelledError):
        index.upsert("host", NEXT, cancel=token)
    assert _state(db) == before
    sound = Faulty()
    with Index.open(db, embedder=sound, config=CONFIG) as index:
        index.upsert("host", NEXT)
        assert index.check() == []
    # The batch during which it was cancelled may be lost, no more.
    assert len(sound.document_inputs) <= len(NEXT) - 2 * BATCH
    assert set(faulty.answered).isdisjoint(sound.document_inputs)


@pytest.mark.req("A-14")
def test_a_cancel_after_the_publish_does_not_undo_it(db: Path) -> None:
    token = CancelToken()

    def cancel_at_the_end(progress: Progress) -> None:
        if progress == Progress("publish", 1, 1):
            token.cancel()

    with Index.open(db, embedder=Faulty(), config=CONFIG) as index:
        report = index.upsert("host", NEXT, cancel=token, progress=cancel_at_the_end)
        assert report.is_published
        assert index.status().documents == len(FIRST) + len(NEXT)


@pytest.mark.req("A-14")
@pytest.mark.parametrize("at", range(1, 8))
def test_a_cancel_at_any_progress_step_leaves_one_whole_generation(at: int, db: Path) -> None:
    before = _state(db)
    token = CancelToken()
    seen: list[Progress] = []

    def count(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == at:
            token.cancel()

    config = IndexConfig(embedding_batch=BATCH, staged_fts_chunks=1)
    with Index.open(db, embedder=Faulty(), config=config) as index:
        try:
            index.upsert("host", NEXT, cancel=token, progress=count)
        except CancelledError:
            assert _state(db) == before
        else:
            assert _state(db).generation == before.generation + 1
        index.upsert("host", NEXT)
        assert index.check() == []


@pytest.mark.req("A-14")
def test_progress_never_goes_down_within_a_phase_of_one_refresh(db: Path) -> None:
    seen: dict[str, list[int]] = {}
    with Index.open(db, embedder=Faulty(), config=CONFIG) as index:
        for name in ("one", "two"):
            documents = [
                Document(f"{name}{n}.md", f"# {name} {n}\n", type_name="md") for n in range(130)
            ]
            index.add_source(MemorySource(name, documents))
        index.refresh(progress=lambda p: seen.setdefault(p.phase, []).append(p.done))
    assert set(seen) == {"read", "embed", "publish"}
    for phase, done in seen.items():
        assert done == sorted(done), phase


@pytest.mark.req("A-21")
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (np.zeros(WIDTH, np.float32), "all zeros"),
        (np.full(WIDTH, np.nan, np.float32), "not finite"),
        (np.full(WIDTH, np.inf, np.float32), "not finite"),
        (np.full(WIDTH, 1e300), "not finite"),
        (np.ones(WIDTH + 1, np.float32), "shape"),
        (np.ones((1, WIDTH), np.float32), "shape"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_a_bad_query_vector_is_an_error_and_not_an_arbitrary_order(
    reply: npt.NDArray[Any], words: str, mode: Any, db: Path
) -> None:
    class BadQuery(Faulty):
        def embed_query(self, text: str) -> Any:
            return reply

    with Index.open(db, embedder=BadQuery(), config=CONFIG) as index:
        with pytest.raises(BadVectorError, match=words):
            index.search("pump", mode=mode)
        assert len(index.search("pump", mode="lexical").hits) == len(FIRST)


@pytest.mark.req("A-21")
def test_semantic_search_lists_every_vector_across_the_blocks_that_are_read(index: Index) -> None:
    from sqlindex.store.vectors import READ_BLOCK

    count = 2 * READ_BLOCK + 10
    documents = [Document(f"d{n:05}", f"text number {n}") for n in range(count)]
    with Index.open(index.path, embedder=Faulty()) as embedding:
        embedding.upsert("host", documents)
        found: list[str] = []
        for offset in range(0, count, 100):
            page = embedding.search("text", mode="semantic", limit=100, offset=offset)
            found.extend(hit.document_id for hit in page.hits)
    assert sorted(found) == [document.id for document in documents]


@pytest.mark.req("A-24")
def test_an_embedder_that_fails_on_the_query_is_a_typed_error(db: Path) -> None:
    class NoQuery(Faulty):
        def embed_query(self, text: str) -> Any:
            raise ConnectionError("refused")

    with (
        Index.open(db, embedder=NoQuery(), config=CONFIG) as index,
        pytest.raises(EmbedderError, match="ConnectionError: refused"),
    ):
        index.search("pump", mode="semantic")


@pytest.mark.req("A-24")
def test_an_embedder_that_changes_during_a_search_is_an_error(db: Path) -> None:
    class Changing(Faulty):
        def embed_query(self, text: str) -> Any:
            self.revision = "2"
            return super().embed_query(text)

    with (
        Index.open(db, embedder=Changing(), config=CONFIG) as index,
        pytest.raises(EmbedderMismatchError),
    ):
        index.search("pump", mode="semantic")


def _other(revision: str) -> Faulty:
    embedder = Faulty()
    embedder.revision = revision
    return embedder


@pytest.mark.req("A-26")
@pytest.mark.parametrize("mode", ["semantic", "hybrid", None])
def test_a_query_of_another_embedder_is_refused(mode: Any, db: Path) -> None:
    other = _other("2")
    with Index.open(db, embedder=other, config=CONFIG) as index:
        with pytest.raises(EmbedderMismatchError, match="faulty@1"):
            index.search("pump", mode=mode)
        assert len(index.search("pump", mode="lexical").hits) == len(FIRST)
    assert other.query_inputs == []


@pytest.mark.req("A-26", "A-29")
def test_a_second_embedder_replaces_all_vectors_and_mixes_none(
    db: Path, shell: Callable[[Path, str], list[str]]
) -> None:
    spaces = (
        "SELECT s.identity, count(*) FROM head h JOIN generation g USING(generation) "
        "JOIN vector_space s USING(space_id) JOIN document_version d ON d.died IS NULL "
        "AND d.born IS NOT NULL JOIN chunk c USING(parse_id) "
        "JOIN v_vector v ON v.space_id = g.space_id AND v.text_id = c.text_id GROUP BY 1"
    )
    with Index.open(db, embedder=_other("2"), config=CONFIG) as index:
        report = index.upsert("host", NEXT[:1])
        assert report.embedded == len(FIRST) + 1
        assert index.check() == []
        assert len(index.search("pump", mode="semantic", limit=100).hits) == len(FIRST) + 1
    assert shell(db, spaces) == [f"faulty@2|{WIDTH}|{len(FIRST) + 1}"]
    back = Faulty()
    with Index.open(db, embedder=back, config=CONFIG) as index:
        with pytest.raises(EmbedderMismatchError):
            index.search("pump", mode="semantic")
        report = index.upsert("host", NEXT[:1])
        # The first embedder's vectors are still there: only the new document lacks one.
        assert report.embedded == 1
        assert index.check() == []
    assert shell(db, spaces) == [f"faulty@1|{WIDTH}|{len(FIRST) + 1}"]


@pytest.mark.req("A-14", "A-26")
def test_a_second_embedder_that_fails_half_way_leaves_the_first_in_service(db: Path) -> None:
    before = _state(db)
    failing = Faulty(3, _raise(RuntimeError("gone")))
    failing.revision = "2"
    with (
        Index.open(db, embedder=failing, config=CONFIG) as index,
        pytest.raises(EmbedderError, match="gone"),
    ):
        index.upsert("host", NEXT)
    assert _state(db) == before
    third = _other("3")
    with Index.open(db, embedder=third, config=CONFIG) as index:
        index.upsert("host", NEXT)
        assert index.check() == []
    assert sorted(third.document_inputs) == _texts([*FIRST, *NEXT])


@pytest.mark.req("A-14")
def test_an_index_with_vectors_is_not_refreshed_without_an_embedder_unasked(db: Path) -> None:
    before = _state(db)
    with Index.open(db, config=CONFIG) as index, pytest.raises(EmbedderRequiredError):
        index.upsert("host", NEXT)
    assert _state(db) == before


class Limited(Faulty):
    """Says that an input is too long, or fails while it counts."""

    token_limit = 4
    over_long_policy: OverLongPolicy = "fail"

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self._error = error

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        if self._error is not None:
            raise self._error
        return [len(text.split()) for text in texts]


@pytest.mark.req("A-27")
def test_a_too_long_input_names_document_and_lines_and_publishes_nothing(db: Path) -> None:
    before = _state(db)
    with (
        Index.open(db, embedder=Limited(), config=CONFIG) as index,
        pytest.raises(InputTooLongError, match=r"host: next0\.md, lines 3-3"),
    ):
        index.upsert("host", NEXT)
    assert _state(db) == before


@pytest.mark.req("A-14")
def test_an_embedder_that_cannot_count_its_tokens_is_a_typed_error(db: Path) -> None:
    before = _state(db)
    with (
        Index.open(db, embedder=Limited(ValueError("no vocabulary")), config=CONFIG) as index,
        pytest.raises(EmbedderError, match="no vocabulary"),
    ):
        index.upsert("host", NEXT)
    assert _state(db) == before


class BrokenSource:
    """Fails in the middle of its listing, or of a read, with whatever error."""

    name = "broken"

    def __init__(self, error: Exception, *, on_read: bool) -> None:
        self._error = error
        self._on_read = on_read

    def list(self) -> Iterator[DocumentRef | Refusal]:
        for document in NEXT[:3]:
            yield DocumentRef(document.id, document.id, "md")
        if not self._on_read:
            raise self._error

    def read(self, ref: DocumentRef) -> RawDocument | Refusal:
        if self._on_read:
            raise self._error
        return RawDocument(b"# text\n")


@pytest.mark.req("A-14")
@pytest.mark.parametrize("on_read", [False, True])
@pytest.mark.parametrize("name", ["RuntimeError", "OSError", "OperationalError"])
def test_a_source_that_breaks_is_a_typed_error_and_deletes_nothing(
    name: str, on_read: bool, db: Path
) -> None:
    from tests.faults import operational_error

    errors = {
        "RuntimeError": RuntimeError("host is down"),
        "OSError": OSError(5, "host is down"),
        # A host's own database must not be taken for the index.
        "OperationalError": operational_error("host is down"),
    }
    before = _state(db)
    with Index.open(db, embedder=Faulty(), config=CONFIG) as index:
        index.add_source(BrokenSource(errors[name], on_read=on_read))
        with pytest.raises(SourceError, match=r"'broken'.*host is down"):
            index.refresh()
        assert index.check() == []
    assert _state(db) == before
