"""The embedder of local models: sentence vectors on the CPU, from staged files, offline."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlindex.embedding.onnx_session import OnnxEncoder, onnxruntime_release
from sqlindex.embedding.recipes import recipe_of
from sqlindex.embedding.staged import StagedModel
from sqlindex.errors import BadVectorError, EmbedderError, ModelFilesError, OptionalDependencyError
from sqlindex.ports import OverLongPolicy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ADAPTER_VERSION = 1
"""1: first. One text a run, cut to the token limit with the closing token kept."""

NORM_TOLERANCE = 1e-3
_MAX_DEFAULT_THREADS = 8


class LocalEmbedder:
    """Embeds texts with a staged model; implements `Embedder`, `QueryEncoding` and `TokenLimited`.

    Making one costs nothing: the model is loaded by the first text, and a load that failed is
    tried again by the next. Texts run one by one without padding, so a vector is the same bits
    in any batch and with any number of threads. Safe to share between threads, not over a fork.
    """

    def __init__(self, staged: StagedModel, *, threads: int | None = None) -> None:
        """Take the files and the number of texts that run at the same time.

        Args:
            staged: see `staging.install_model` and `staged.find_staged`.
            threads: default the processors this process may use, at most 8. Shapes no vector.
        """
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self._staged = staged
        self._threads = threads or min(_usable_processors(), _MAX_DEFAULT_THREADS)
        self._process_id = os.getpid()
        self._state = threading.Condition()
        self._active_calls = 0
        self._is_closed = False
        self._load_lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self._query_slots = threading.BoundedSemaphore(self._threads)
        self._identity = ""

    def __reduce__(self) -> tuple[Callable[[], LocalEmbedder], tuple[()]]:
        """Pickled, it is its files and threads; the model is loaded anew where it is used."""
        return partial(LocalEmbedder, self._staged, threads=self._threads), ()

    @property
    def identity(self) -> str:
        """What shapes a document's vector: model, runtime, device, type, pooling, norm, limit,
        document prefix, versions.

        Raises:
            OptionalDependencyError: onnxruntime is missing.
        """
        if not self._identity:
            model = self._staged.model
            parts = (
                f"{model.repository}@{model.revision}",
                f"onnxruntime {onnxruntime_release()}",
                "cpu",
                model.dtype,
                recipe_of(model).pooling,
                "l2",
                f"truncate {model.token_limit}",
                f"prefix {model.document_prefix!r}" if model.document_prefix else "no prefix",
                f"graph {self._staged.graph_version}",
                f"adapter {ADAPTER_VERSION}",
            )
            self._identity = "|".join(parts)
        return self._identity

    @property
    def query_identity(self) -> str:
        """The identity, and the prefix of queries where it is another.

        Raises:
            OptionalDependencyError: onnxruntime is missing.
        """
        model = self._staged.model
        if model.query_prefix == model.document_prefix:
            return self.identity
        return f"{self.identity}|query prefix {model.query_prefix!r}"

    @property
    def dimensions(self) -> int:
        """Width of every vector."""
        return self._staged.model.dimensions

    @property
    def runs_locally(self) -> bool:
        """Always: no text leaves this process."""
        return True

    @property
    def token_limit(self) -> int:
        """Most tokens of one input that reach the model, special tokens included."""
        return self._staged.model.token_limit

    @property
    def over_long_policy(self) -> OverLongPolicy:
        """A longer input is cut; callers count with `count_tokens` and report it."""
        return "truncate"

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed document texts, several at a time.

        Returns:
            float32 array of shape (len(texts), dimensions), C-contiguous, finite, rows of norm
            1; row i belongs to `texts[i]`. The array is the caller's.

        Raises:
            OptionalDependencyError: a package of the extra is missing.
            ModelFilesError: the tokenizer's file is damaged.
            BadVectorError: the model gave a vector that is not finite or not of norm 1.
            EmbedderError: loading or running failed, or the embedder is closed.
        """
        return self.embed_counted(texts)[0]

    def embed_counted(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], list[int]]:
        """What `embed_documents` and `count_tokens` return, with each text tokenised once.

        Raises:
            As `embed_documents`.
        """
        if isinstance(texts, str):
            raise ValueError("texts must be a sequence of texts, not one text")
        with self._call():
            loaded = self._load()
            import numpy as np

            vectors = np.empty((len(texts), self.dimensions), np.float32)
            tokens = [0] * len(texts)
            prefix = self._staged.model.document_prefix

            def embed(row: int) -> None:
                vectors[row], tokens[row] = self._embed(loaded, prefix + texts[row])

            futures = [loaded.executor.submit(embed, row) for row in range(len(texts))]
            try:
                for future in futures:
                    future.result()
            finally:  # after a failure or an interrupt nothing of this call goes on
                for future in futures:
                    future.cancel()
                wait(futures)
            return vectors, tokens

    def for_worker(self) -> LocalEmbedder:
        """The same model for one of several processes: one text at a time."""
        return LocalEmbedder(self._staged, threads=1)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Embed a query, in the caller's thread: it does not queue behind documents.

        Returns:
            float32 array of shape (dimensions,), finite, of norm 1. The array is the caller's.

        Raises:
            As `embed_documents`.
        """
        with self._call():
            loaded = self._load()
            with self._query_slots:
                return self._embed(loaded, self._staged.model.query_prefix + text)[0].copy()

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as a document, without any limit, prefix and special tokens included."""
        if isinstance(texts, str):
            raise ValueError("texts must be a sequence of texts, not one text")
        with self._call():
            loaded = self._load()
            prefix = self._staged.model.document_prefix
            return [len(loaded.token_ids(prefix + text)) for text in texts]

    def close(self) -> None:
        """Wait for running calls and free the model; later calls fail. Closing twice is fine."""
        self._refuse_after_fork()
        with self._state:
            self._is_closed = True
            self._state.wait_for(lambda: self._active_calls == 0)
        with self._load_lock:
            if self._loaded is not None:
                self._loaded.executor.shutdown()
                self._loaded = None

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Count a running call, so that `close` can wait for it."""
        self._refuse_after_fork()
        with self._state:
            if self._is_closed:
                raise EmbedderError("the embedder is closed", hint="make a new one")
            self._active_calls += 1
        try:
            yield
        finally:
            with self._state:
                self._active_calls -= 1
                self._state.notify_all()

    def _refuse_after_fork(self) -> None:
        # A forked child has our locks in whatever state they were and none of our threads.
        if os.getpid() != self._process_id:
            raise EmbedderError(
                "the embedder was made in another process", hint="make one in the child process"
            )

    def _load(self) -> _Loaded:
        with self._load_lock:
            if self._loaded is None:
                self._loaded = _Loaded(self._staged, self._threads)
            return self._loaded

    def _embed(self, loaded: _Loaded, text: str) -> tuple[npt.NDArray[np.float32], int]:
        """The vector of a text, and how many tokens it has without any limit."""
        import numpy as np

        token_ids = loaded.token_ids(text)
        count = len(token_ids)
        if count > self.token_limit:
            token_ids = [*token_ids[: self.token_limit - 1], token_ids[-1]]
        vector = loaded.encoder.encode(token_ids)
        norm = float(np.linalg.norm(vector))
        # Written so that a norm of NaN fails too; a finite norm means finite components.
        if vector.shape != (self.dimensions,) or not abs(norm - 1) <= NORM_TOLERANCE:
            raise BadVectorError(
                f"model {self._staged.model.name} gave a vector of shape {vector.shape} "
                f"and norm {norm} for a text of {len(token_ids)} tokens"
            )
        return vector, count


class _Loaded:
    """What a loaded model consists of."""

    def __init__(self, staged: StagedModel, threads: int) -> None:
        self._tokenizer = _open_tokenizer(staged)
        self.encoder = OnnxEncoder(staged.encoder_path)
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix="sqlindex-embed")

    def token_ids(self, text: str) -> list[int]:
        """Ids of all tokens, opening and closing token included.

        Lone surrogates, which no encoding can hold, become question marks.
        """
        sound = text.encode("utf-8", "replace").decode("utf-8")
        ids: list[int] = self._tokenizer.encode(sound).ids
        return ids


def _open_tokenizer(staged: StagedModel) -> Any:
    """The tokenizer without the fixed padding and the short limit that its file asks for."""
    try:
        from tokenizers import Tokenizer
    except ImportError as exc:
        raise OptionalDependencyError(
            "this embedder needs the package tokenizers", hint="pip install 'sqlindex[minilm]'"
        ) from exc
    try:
        tokenizer = Tokenizer.from_file(str(staged.tokenizer_path))
    except Exception as exc:  # the package raises plain Exception
        raise ModelFilesError(
            f"{staged.tokenizer_path} cannot be loaded: {exc}",
            hint=f"sqlindex model install {staged.model.name}",
        ) from exc
    tokenizer.no_padding()
    tokenizer.no_truncation()  # cut in `_embed`, so that the same ids can be counted
    return tokenizer


def _usable_processors() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
