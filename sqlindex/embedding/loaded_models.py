"""Embedders over models that a host has loaded with another library, which is not imported here."""

from __future__ import annotations

import math
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlindex.errors import BadVectorError, EmbedderError, UsageError
from sqlindex.ports import OverLongPolicy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ADAPTER_VERSION = 1
"""1: first. One text a run by default; rows of norm 1; lone surrogates become question marks."""

_CACHED = re.compile(r"/models--(?P<name>[^/]+)/snapshots/(?P<commit>[0-9a-f]{40})(?:/|$)")


class _LoadedModelEmbedder(ABC):
    """What the embedders of this module share: one call of the model at a time, checked vectors."""

    def __init__(
        self,
        model: Any,  # of a package that this one does not depend on
        options: dict[str, Any],
        *,
        title: str,
        parts: Iterable[str],
        prompts: tuple[str, str],
        told_dimensions: object,
        token_limit: int | None,
    ) -> None:
        """Take the model and what it says of itself.

        Args:
            options: keyword arguments that make this embedder anew from the model.
            title: of the model in messages.
            parts: of the identity, before width, limit and prompt.
            prompts: put before documents and before queries.
            told_dimensions: width of a vector; if it is no number, a text is embedded to see it.
            token_limit: None if the model tells none.
        """
        batch_size = options["batch_size"]
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self._model = model
        self._options = options
        self._title = title
        self._batch_size: int = batch_size
        self._document_prompt, self._query_prompt = prompts
        self._lock = threading.Lock()
        if isinstance(told_dimensions, int) and told_dimensions > 0:
            self._dimensions = told_dimensions
        else:
            self._dimensions = len(self._made(["dimensions"], is_query=False)[0])
        if token_limit is not None:  # not properties: without a limit it must not have them
            self.token_limit = token_limit
            self.over_long_policy: OverLongPolicy = "truncate"
            self.count_tokens = self._count_tokens
        self._identity = "|".join(
            (
                *parts,
                f"{self._dimensions} wide",
                "l2",
                "no limit told" if token_limit is None else f"truncate {token_limit}",
                f"prompt {self._document_prompt!r}" if self._document_prompt else "no prompt",
                f"adapter {ADAPTER_VERSION}",
            )
        )

    def __reduce__(self) -> tuple[Callable[[], _LoadedModelEmbedder], tuple[()]]:
        """Pickled, it is its model and options; it fails where the model cannot be pickled."""
        return partial(type(self), self._model, **self._options), ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._title})"

    @property
    def identity(self) -> str:
        """What shapes a document's vector: model and revision, package, type, width, limit, prompt."""
        return self._identity

    @property
    def query_identity(self) -> str:
        """The identity, and the prompt of queries where it is another."""
        if self._query_prompt == self._document_prompt:
            return self._identity
        return f"{self._identity}|query prompt {self._query_prompt!r}"

    @property
    def dimensions(self) -> int:
        """Width of every vector."""
        return self._dimensions

    @property
    def runs_locally(self) -> bool:
        """Always: the model was loaded by this process."""
        return True

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed document texts.

        Returns:
            float32 array of shape (len(texts), dimensions), C-contiguous, finite, rows of norm 1;
            row i belongs to `texts[i]`. The array is the caller's.

        Raises:
            BadVectorError: the model gave something else than one finite vector for each text.
            EmbedderError: the model failed.
        """
        if isinstance(texts, str):
            raise ValueError("texts must be a sequence of texts, not one text")
        return self._embedded(texts, is_query=False)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Embed a query: float32 array of shape (dimensions,), finite, of norm 1.

        Raises:
            As `embed_documents`.
        """
        vector: npt.NDArray[np.float32] = self._embedded([text], is_query=True)[0]
        return vector

    @abstractmethod
    def _encode(self, texts: list[str], *, is_query: bool) -> Iterable[Any]:
        """The model's vectors of texts, without their prompt; called by one thread at a time."""

    @abstractmethod
    def _token_counts(self, texts: list[str]) -> Iterable[int]:
        """Tokens of each text without any limit; called by one thread at a time."""

    def _count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as a document, without any limit, prompt and special tokens included.

        Raises:
            EmbedderError: the tokenizer failed.
        """
        if isinstance(texts, str):
            raise ValueError("texts must be a sequence of texts, not one text")
        if not texts:
            return []
        prompted = [self._document_prompt + _sound(text) for text in texts]
        return self._called(lambda: list(self._token_counts(prompted)))

    def _embedded(self, texts: Sequence[str], *, is_query: bool) -> npt.NDArray[np.float32]:
        import numpy as np

        if not texts:
            return np.empty((0, self._dimensions), np.float32)
        made = self._made(texts, is_query=is_query)
        shapes = {np.shape(vector) for vector in made}
        if len(made) != len(texts) or shapes != {(self._dimensions,)}:
            raise BadVectorError(
                f"{self._title} gave {len(made)} vectors of shape {sorted(shapes)} for "
                f"{len(texts)} texts and a width of {self._dimensions}"
            )
        vectors = np.array(made, np.float32)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        for row, norm in enumerate(norms[:, 0]):
            if not 0 < norm < math.inf:  # written so that a norm of NaN fails too
                raise BadVectorError(f"{self._title} gave a vector of norm {norm}", row=row)
        vectors /= norms
        return vectors

    def _made(self, texts: Sequence[str], *, is_query: bool) -> list[Any]:
        sound = [_sound(text) for text in texts]
        return self._called(lambda: list(self._encode(sound, is_query=is_query)))

    def _called(self, call: Callable[[], list[Any]]) -> list[Any]:
        # Tokenizers change their own settings in a call, so two at once can fail or mix limits.
        with self._lock:
            try:
                return call()
            except Exception as exc:  # these packages' errors have no common base
                raise EmbedderError(f"{self._title} failed: {exc}") from exc


class SentenceTransformersEmbedder(_LoadedModelEmbedder):
    """Embeds with a loaded `SentenceTransformer`; implements `Embedder` and `QueryEncoding`.

    It has the members of `TokenLimited`, too, if the model tells a limit (`max_seq_length`) and has a
    tokenizer; a longer text is cut to it. The model is taken as it is now: change its limit, prompts
    or weights before. One call at a time reaches it, whatever threads ask.

    Texts run one by one, so that a vector is the same bits whatever else is embedded. Larger batches
    are faster on a GPU, seldom on a CPU, and change the last bits of a vector.
    """

    def __init__(
        self,
        model: Any,
        *,
        identity: str = "",
        revision: str = "",
        document_prompt: str | None = None,
        query_prompt: str | None = None,
        batch_size: int = 1,
    ) -> None:
        """Take the model.

        Args:
            identity: stands for the name and revision of the model, and must be another whenever its
                weights are. Needed for one that was loaded from a folder or trained here.
            revision: commit of the model on the hub, where the model does not know it.
            document_prompt: default the model's own for documents, else its default, else none.
            query_prompt: the same for queries. Shapes no stored vector.
            batch_size: texts that run together.

        Raises:
            UsageError: the model says too little, and neither `identity` nor `revision` is given.
        """
        options = {
            "identity": identity,
            "revision": revision,
            "document_prompt": document_prompt,
            "query_prompt": query_prompt,
            "batch_size": batch_size,
        }
        modules = _modules(model)
        config = getattr(getattr(next(iter(modules), None), "auto_model", None), "config", None)
        name, commit = _named(_text(getattr(config, "_name_or_path", "")))
        commit = _text(getattr(config, "_commit_hash", "")) or commit
        named = _model_identity("sentence-transformers", name, commit, identity, revision)
        super().__init__(
            model,
            options,
            title=name or identity,
            parts=(
                named,
                _release("sentence-transformers"),
                *_computed_with(model),
                *map(_module_title, modules),
            ),
            prompts=(
                _prompt(model, document_prompt, ("document", "passage", "corpus")),
                _prompt(model, query_prompt, ("query",)),
            ),
            told_dimensions=_answer(
                model, "get_embedding_dimension", "get_sentence_embedding_dimension"
            ),
            token_limit=_sequence_limit(model),
        )

    def _encode(self, texts: list[str], *, is_query: bool) -> Iterable[Any]:
        # Models with two towers choose one by the method; before release 5 there was one method.
        method = "encode_query" if is_query else "encode_document"
        encode = getattr(self._model, method, None) or self._model.encode
        made: Iterable[Any] = encode(
            texts,
            prompt=self._query_prompt if is_query else self._document_prompt,
            batch_size=self._batch_size,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return made

    def _token_counts(self, texts: list[str]) -> Iterable[int]:
        return map(len, self._model.tokenizer(texts, truncation=False, verbose=False)["input_ids"])


class FastEmbedEmbedder(_LoadedModelEmbedder):
    """Embeds with a loaded `TextEmbedding` of fastembed; implements `Embedder` and `QueryEncoding`.

    It has the members of `TokenLimited`, too, if the model's tokenizer is loaded (not with
    `lazy_load`) and cuts long texts. The model is taken as it is now. One call at a time reaches it,
    whatever threads ask.

    Texts run one by one, so that a vector is the same bits whatever else is embedded. Larger batches
    pad short texts, which costs time on a CPU, and change the last bits of a vector.
    """

    def __init__(
        self,
        model: Any,
        *,
        identity: str = "",
        revision: str = "",
        document_prompt: str = "",
        query_prompt: str = "",
        batch_size: int = 1,
    ) -> None:
        """Take the model.

        Args:
            identity: stands for the name and revision of the model, and must be another whenever its
                weights or pooling are. Fits one that has no name on the hub.
            revision: commit of the model on the hub, where its folder does not tell it, as with
                `specific_model_path`.
            document_prompt: put before every document's text, as some models ask for: fastembed
                adds none.
            query_prompt: put before every query's text. Shapes no stored vector.
            batch_size: texts that run together.

        Raises:
            UsageError: the model says too little, and neither `identity` nor `revision` is given.
        """
        options = {
            "identity": identity,
            "revision": revision,
            "document_prompt": document_prompt,
            "query_prompt": query_prompt,
            "batch_size": batch_size,
        }
        inner = getattr(model, "model", None)
        name = _text(getattr(model, "model_name", ""))
        _, commit = _named(str(getattr(inner, "_model_dir", "")))
        described = getattr(inner, "model_description", None)
        self._counter = _unlimited(getattr(inner, "tokenizer", None))
        cut = getattr(getattr(inner, "tokenizer", None), "truncation", None)
        super().__init__(
            model,
            options,
            title=name or identity,
            parts=(
                _model_identity("fastembed", name, commit, identity, revision),
                _release("fastembed"),
                *filter(None, [_text(getattr(described, "model_file", ""))]),
            ),
            prompts=(document_prompt, query_prompt),
            told_dimensions=getattr(model, "embedding_size", None),
            token_limit=cut["max_length"] if cut else None,
        )

    def _encode(self, texts: list[str], *, is_query: bool) -> Iterable[Any]:
        prompt = self._query_prompt if is_query else self._document_prompt
        prompted = [prompt + text for text in texts]
        made: Iterable[Any] = (
            self._model.query_embed(prompted)
            if is_query
            else self._model.passage_embed(prompted, batch_size=self._batch_size)
        )
        return made

    def _token_counts(self, texts: list[str]) -> Iterable[int]:
        return (len(self._counter.encode(text).ids) for text in texts)


def _model_identity(package: str, name: str, commit: str, identity: str, revision: str) -> str:
    """Which weights these are.

    Raises:
        UsageError: nothing says that.
    """
    if identity:
        return identity
    if not name:
        raise UsageError(
            f"the {package} object does not say which model it is",
            hint="give identity='…', a text that is another whenever the model's weights are",
        )
    if not (revision or commit):
        raise UsageError(
            f"the {package} object {name} does not say which revision it is",
            hint="give revision='…', the model's commit, or identity='…', a text that is another "
            "whenever the model's weights are",
        )
    return f"{name}@{revision or commit}"


def _release(package: str) -> str:
    """The package with major and minor version, read without importing it."""
    from importlib import metadata

    try:
        return f"{package} {'.'.join(metadata.version(package).split('.')[:2])}"
    except metadata.PackageNotFoundError:
        return package


def _named(path_or_name: str) -> tuple[str, str]:
    """(name on the hub, commit) of what a model was loaded from, each empty if it does not say that.

    A folder of the hub's cache, `…/models--OWNER--NAME/snapshots/COMMIT`, says both; another folder of
    this machine names nothing elsewhere.
    """
    if not (os.path.isabs(path_or_name) or os.path.isdir(path_or_name)):
        return path_or_name, ""
    cached = _CACHED.search(path_or_name.replace(os.sep, "/"))
    return (cached["name"].replace("--", "/"), cached["commit"]) if cached else ("", "")


def _modules(model: Any) -> list[Any]:
    """The modules of a model, in order; none if it is no sequence of them."""
    try:
        return list(model)
    except TypeError:
        return []


def _module_title(module: Any) -> str:
    """What a module does: those of one model can be put together in several ways."""
    mode = getattr(module, "pooling_mode", None) or _answer(module, "get_pooling_mode_str") or ""
    mode = mode if isinstance(mode, str) else " ".join(map(str, mode))
    return f"{type(module).__name__} {mode}".rstrip()


def _computed_with(model: Any) -> Iterable[str]:
    """Backend, device and type of a model, as far as it says them."""
    yield from filter(None, [_text(_answer(model, "get_backend"))])
    yield from filter(None, [str(getattr(model, "device", "")).partition(":")[0]])
    first = next(iter(_answer(model, "parameters") or ()), None)
    yield from filter(None, [str(getattr(first, "dtype", "")).removeprefix("torch.")])


def _prompt(model: Any, given: str | None, names: Sequence[str]) -> str:
    """The prompt that is given, else the model's first of these names, else its default one."""
    if given is not None:
        return given
    prompts = getattr(model, "prompts", None) or {}
    # An empty prompt of that name is a prompt: it keeps the default one away, as in the package.
    for name in (*names, getattr(model, "default_prompt_name", None)):
        if name in prompts:
            return _text(prompts[name])
    return ""


def _sequence_limit(model: Any) -> int | None:
    """`max_seq_length`, if it is a number and there is a tokenizer to count with."""
    limit = getattr(model, "max_seq_length", None)
    if not isinstance(limit, int) or not callable(getattr(model, "tokenizer", None)):
        return None
    return limit


def _unlimited(tokenizer: Any) -> Any:
    """A copy of a tokenizer that neither cuts nor pads; None of none."""
    if tokenizer is None:
        return None
    copy = type(tokenizer).from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def _answer(model: Any, *methods: str) -> Any:
    """What the first of these methods returns that the model has; None if it has none."""
    for name in methods:
        method = getattr(model, name, None)
        if callable(method):
            return method()
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _sound(text: str) -> str:
    """The text without lone surrogates, which no encoding can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
