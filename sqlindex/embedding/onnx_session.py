"""Opens an encoder in onnxruntime, without its telemetry."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlindex.errors import EmbedderError, OptionalDependencyError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_TELEMETRY_SWITCH = "ORT_DISABLE_TELEMETRY"
_INSTALL_HINT = "pip install 'sqlindex[minilm]'"


class OnnxEncoder:
    """A loaded graph that turns the token ids of one text into its vector.

    Safe to call from many threads: each call runs in its caller's thread alone. That is the
    fastest way to use several cores on texts of mixed length, and a vector is the same bits
    whatever runs beside it.
    """

    def __init__(self, encoder_path: Path) -> None:
        """Load the graph.

        Raises:
            OptionalDependencyError: onnxruntime is missing.
            EmbedderError: onnxruntime refuses the graph.
        """
        onnxruntime = _import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors only; they are raised as well
        # Texts differ in length, so memory kept from one run rarely fits the next.
        options.enable_cpu_mem_arena = False
        try:
            session = onnxruntime.InferenceSession(
                str(encoder_path), options, providers=["CPUExecutionProvider"]
            )
            (graph_input,), (graph_output,) = session.get_inputs(), session.get_outputs()
        except Exception as exc:  # its errors have no common base of their own
            raise EmbedderError(f"onnxruntime cannot load {encoder_path}: {exc}") from exc
        self._session = session
        self._input_name = graph_input.name
        self._output_names = [graph_output.name]

    def encode(self, token_ids: list[int]) -> npt.NDArray[np.float32]:
        """The vector of one text: float32 array of shape (dimensions,).

        Raises:
            EmbedderError: onnxruntime failed.
        """
        import numpy as np

        feed = {self._input_name: np.array(token_ids, np.int64)}
        try:
            (vector,) = self._session.run(self._output_names, feed)
        except Exception as exc:  # as above
            raise EmbedderError(f"onnxruntime failed: {exc}") from exc
        result: npt.NDArray[np.float32] = vector
        return result


def onnxruntime_release() -> str:
    """Major and minor version of the installed onnxruntime, read without importing it.

    Raises:
        OptionalDependencyError: it is not installed.
    """
    from importlib import metadata

    try:
        version = metadata.version("onnxruntime")
    except metadata.PackageNotFoundError as exc:
        raise _missing() from exc
    return ".".join(version.split(".")[:2])


def _import_onnxruntime() -> Any:
    """Import onnxruntime so that it stays silent.

    Since 1.29 its builds for Linux and macOS write a device id into the user's cache folder
    and send usage events some seconds after the import. The variable must be set before the
    first import; a host that imported it earlier gets the events switched off from here on. A
    host that wants them sets the variable to 0 itself.
    """
    silent = os.environ.setdefault(_TELEMETRY_SWITCH, "1") != "0"
    try:
        import onnxruntime
    except ImportError as exc:
        raise _missing() from exc
    if silent:
        onnxruntime.disable_telemetry_events()
    return onnxruntime


def _missing() -> OptionalDependencyError:
    return OptionalDependencyError(
        "this embedder needs the package onnxruntime", hint=_INSTALL_HINT
    )
