"""The error tree: what went wrong, whether a retry can help, and what to do next.

SqlindexError
├── UsageError                 a request that cannot be carried out as asked
│   ├── UnknownSourceError     no source of that name
│   ├── UnknownDocumentError   no such document or chunk in the generation
│   ├── UnknownQuestionError   no golden question of that id
│   ├── UnknownModelError      no model of that name
│   ├── DuplicateError         a name, extension or id is taken already
│   ├── FilterError            a filter with an unknown or malformed value
│   ├── UnknownGenerationError no generation of that number, tag or date
│   └── LexicalHistoryError    words of a generation that is not the head
├── StaleCursorError           the generation of a cursor is no longer served
├── LockedError                another writer holds the index
├── HeadMovedError             the head is not the one this build was made on
├── BuildChangedError          an unfinished build does not fit what is asked for now
├── StaleBuildError            what a gate keeps back is no longer what it measured
├── GateError                  golden questions find less than a gate demands
├── GenerationGoneError        a generation has been collected
├── CancelledError             cancelled by the caller
├── WorkerDiedError            worker processes end before their work is done
├── SourceError                a source cannot be listed
├── DocumentRefusedError       strict refresh met a document that cannot be indexed
├── EmbedderError              the embedder failed
│   ├── EmbedderRequiredError  the request needs an embedder and none is given
│   ├── EmbedderMismatchError  the embedder is not the one that made the stored vectors
│   ├── ModelNotInstalledError the model's files are not staged
│   ├── ModelFilesError        model files are missing, damaged or not the pinned ones
│   ├── EmbedderUnavailableError an embedding service cannot be reached, or not now
│   ├── EmbedderRefusedError   an embedding service refuses the request
│   ├── EmbedderReplyError     an embedding service answers with something else
│   ├── ApiKeyError            the key of an embedding service is not where it should be
│   ├── InputTooLongError      a text is over the embedder's limit and its policy is to fail
│   └── BadVectorError         a vector is zero, not finite, or of the wrong width
├── DeadlineError              reading the index took longer than allowed
├── UnsafeFileError            the index or a file beside it may be another user's trap
├── SharedFileSystemError      the index lies where other machines may use it as well
├── CorruptIndexError          the file contradicts itself
│   └── ForeignSchemaError     its tables, triggers or views are not those of this program
├── NotAnIndexError            the file is not an index of this program
│   ├── NoIndexError           there is no file of that name
│   └── NewerSchemaError       the index was made by a newer version
├── RebuildRequiredError       a stored layer was made by another version; a refresh rebuilds it
├── StorageError               the disk is full, read-only or failing
└── OptionalDependencyError    a package of an extra is missing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar


class SqlindexError(Exception):
    """Base of all errors that this package raises on purpose.

    Attributes:
        code: stable name for programs.
        retryable: whether the same call can succeed later without a change.
        exit_code: what the command line exits with.
        hint: what to do next, or an empty string.
    """

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def details(self) -> Mapping[str, object]:
        """What else it says in JSON; empty for most."""
        return {}


class UsageError(SqlindexError):
    """A request that cannot be carried out as asked."""

    code = "usage"
    exit_code = 2


class UnknownSourceError(UsageError):
    """No source of that name is registered."""

    code = "unknown_source"


class UnknownDocumentError(UsageError):
    """The generation holds no such document or chunk."""

    code = "unknown_document"
    exit_code = 3


class UnknownQuestionError(UsageError):
    """The index has no golden question of that id."""

    code = "unknown_question"
    exit_code = 3


class UnknownModelError(UsageError):
    """No model of that name is known."""

    code = "unknown_model"


class DuplicateError(UsageError):
    """A name, an extension or an id is taken already."""

    code = "duplicate"


class FilterError(UsageError):
    """A filter has an unknown or malformed value."""

    code = "filter"


class UnknownGenerationError(UsageError):
    """No generation of that number, tag or date was ever published here."""

    code = "unknown_generation"
    exit_code = 3


class LexicalHistoryError(UsageError):
    """The words of a generation that is not the head; they are kept for the head only."""

    code = "lexical_history"


class StaleCursorError(SqlindexError):
    """The generation of a cursor is no longer served; a search without it starts again."""

    code = "stale_cursor"


class LockedError(SqlindexError):
    """Another writer holds the index; searches go on."""

    code = "locked"
    retryable = True
    exit_code = 4


class HeadMovedError(SqlindexError):
    """The head is not the one this build was made on; nothing was published."""

    code = "head_moved"
    retryable = True


class BuildChangedError(SqlindexError):
    """An unfinished build was begun with other sources or settings; it is left as it is."""

    code = "build_changed"
    exit_code = 5


class StaleBuildError(SqlindexError):
    """What a gate keeps back can no longer be published as it was measured; it waits on."""

    code = "stale_build"


@dataclass(frozen=True, slots=True)
class MissedCondition:
    """A condition of a gate that a generation missed.

    Attributes:
        measure: its canonical name.
        comparison: `>=` or `>`.
        bound: that its mean over the questions was to reach.
        value: the mean that was measured.
        before: the mean of the present head; None where that cannot be searched so, or is what
            was measured.
    """

    measure: str
    comparison: str
    bound: float
    value: float
    before: float | None = None

    def __str__(self) -> str:
        was = "" if self.before is None else f" (now {self.before:.4f})"
        return f"{self.measure} {self.value:.4f}{was}, wanted {self.comparison} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class FallenQuestion:
    """A question that a refused generation answers worse than the head, or too badly like the head.

    Attributes:
        id, text: of the question.
        measure: of a condition that was missed.
        before: its value in the present head; None where that cannot be searched so, or is what
            was measured.
        after: in the generation that was refused.
    """

    id: str
    text: str
    measure: str
    before: float | None
    after: float


class GateError(SqlindexError):
    """A generation was measured by the golden questions and missed a condition of its gate.

    Attributes:
        missed: the conditions, in the order of the gate.
        fell: questions that the head answers better, the largest fall first. Where the head cannot
            be searched in the gate's mode (its vectors are of another embedder): all that are below
            the bound, the lowest first.
        below: of conditions that the head misses too, the other questions below the bound, the
            lowest first.
        absent: (question id, source, document id) of expected documents that neither generation
            holds, by question, source and id.
        changes: how many documents the generation adds, changes, …, and texts that were embedded.
        is_held: whether the generation is new and stays staged; False if it is the head, and there
            was nothing to publish.
    """

    code = "gate"
    exit_code = 7

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        missed: Sequence[MissedCondition] = (),
        fell: Sequence[FallenQuestion] = (),
        below: Sequence[FallenQuestion] = (),
        absent: Sequence[tuple[str, str, str]] = (),
        changes: Mapping[str, int] | None = None,
        is_held: bool = True,
    ) -> None:
        super().__init__(message, hint=hint)
        self.missed = tuple(missed)
        self.fell = tuple(fell)
        self.below = tuple(below)
        self.absent = tuple(absent)
        self.changes = dict(changes or {})
        self.is_held = is_held

    @property
    def details(self) -> Mapping[str, object]:
        """All attributes, as JSON has them."""
        return {
            "missed": [asdict(condition) for condition in self.missed],
            "fell": [asdict(question) for question in self.fell],
            "below": [asdict(question) for question in self.below],
            "absent": [
                {"question": id_, "source": source, "document_id": document_id}
                for id_, source, document_id in self.absent
            ],
            "changes": self.changes,
            "is_held": self.is_held,
        }


class GenerationGoneError(SqlindexError):
    """The generation was published once and has been collected since."""

    code = "generation_gone"


class CancelledError(SqlindexError):
    """The caller cancelled; the last published generation is unchanged."""

    code = "cancelled"
    retryable = True
    exit_code = 130


class WorkerDiedError(SqlindexError):
    """Worker processes cannot be started, or end before their work is done.

    What was stored stays: the next call goes on behind it.
    """

    code = "worker_died"
    retryable = True


class SourceError(SqlindexError):
    """A source cannot be listed; the last published generation is unchanged."""

    code = "source"
    retryable = True


class DocumentRefusedError(SqlindexError):
    """A strict refresh met a document that cannot be indexed; nothing was published."""

    code = "document_refused"


class EmbedderError(SqlindexError):
    """The embedder failed; the last published generation is unchanged.

    Attributes:
        row: which text of an embedder's call it is about, counted from 0; None for all of them.
    """

    code = "embedder"

    def __init__(self, message: str, *, hint: str = "", row: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.row = row


class EmbedderRequiredError(EmbedderError):
    """The request needs an embedder and none is given."""

    code = "embedder_required"
    exit_code = 2


class EmbedderMismatchError(EmbedderError):
    """The embedder is not the one that made the stored vectors."""

    code = "embedder_mismatch"


class ModelNotInstalledError(EmbedderError):
    """The model's files are not staged on this machine."""

    code = "model_not_installed"


class ModelFilesError(EmbedderError):
    """Model files are missing, damaged or not the pinned ones."""

    code = "model_files"


class EmbedderUnavailableError(EmbedderError):
    """An embedding service cannot be reached, or does not answer in time; nothing stands in for it."""

    code = "embedder_unavailable"
    retryable = True


class EmbedderRefusedError(EmbedderError):
    """An embedding service refuses the request, or the index's service is not allowed here."""

    code = "embedder_refused"


class EmbedderReplyError(EmbedderError):
    """An embedding service answers with something that is no reply to the request."""

    code = "embedder_reply"


class ApiKeyError(EmbedderError):
    """The key of an embedding service is missing, unusable, or in a file that others can read."""

    code = "api_key"


class InputTooLongError(EmbedderError):
    """A text is over the embedder's limit and the embedder's policy is to fail."""

    code = "input_too_long"


class BadVectorError(EmbedderError):
    """A vector is zero, not finite, or of the wrong width."""

    code = "bad_vector"


class DeadlineError(SqlindexError):
    """Reading the index took longer than allowed."""

    code = "deadline"
    retryable = True


class UnsafeFileError(SqlindexError):
    """The index or a file beside it is a link, or another user's; nothing was opened."""

    code = "unsafe_file"


class SharedFileSystemError(SqlindexError):
    """The index lies on a file system that other machines use as well; nothing was opened."""

    code = "shared_file_system"


class CorruptIndexError(SqlindexError):
    """The file contradicts itself; the message names the row."""

    code = "corrupt"
    exit_code = 6


class ForeignSchemaError(CorruptIndexError):
    """The file's tables, indexes, triggers or views are not those that this program makes."""

    code = "foreign_schema"


class NotAnIndexError(SqlindexError):
    """The file is not an index of this program; it is left as it is."""

    code = "not_an_index"
    exit_code = 8


class NoIndexError(NotAnIndexError):
    """There is no file of that name."""

    code = "no_index"


class NewerSchemaError(NotAnIndexError):
    """The index was made by a newer version; it is left as it is."""

    code = "newer_schema"


class RebuildRequiredError(SqlindexError):
    """A stored layer was made by another version of what makes it; a refresh rebuilds it."""

    code = "rebuild_required"


class StorageError(SqlindexError):
    """The disk is full, read-only or failing; the last published generation is unchanged."""

    code = "storage"
    retryable = True


class OptionalDependencyError(SqlindexError):
    """A package of an optional extra is missing."""

    code = "optional_dependency"
