"""The real model: its numbers, its sense of meaning, and its silence on the network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sqlindex.embedding
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import StagedModel, find_staged
from sqlindex.embedding.verification import verify_model
from tests.unit.embedding.bert_reference import REFERENCE_PATH, REFERENCE_TEXTS

pytestmark = pytest.mark.model

_IMPORT_ROOT = Path(sqlindex.embedding.__file__).parents[2]
_PARAGRAPHS = """
The write-ahead log lets readers go on while one writer appends; a checkpoint copies its pages back.
Heat capacity is the energy that raises the temperature of a body by one degree.
How do I declare an optional query parameter with a default value?
In 1969 the first message between two computers of the network ended after two letters.
A tenant may reduce the rent for as long as the flat has a defect that limits its use.
def read(path):\\n    with open(path, encoding="utf-8") as file:\\n        return file.read()
She sold the bakery, moved to the coast and learned to sail at the age of seventy.
Vaccines train the immune system to know a pathogen before it meets the real one.
"""
_EMBED_ONE_QUERY = """
import sys
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import require_staged
embedder = LocalEmbedder(require_staged("minilm"))
print(embedder.embed_query("no network here").tobytes().hex())
import time
time.sleep(float(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def staged() -> StagedModel:
    staged = find_staged("minilm")
    if staged is None:
        pytest.skip("minilm is not installed: sqlindex model install minilm")
    return staged


@pytest.fixture(scope="module")
def embedder(staged: StagedModel) -> LocalEmbedder:
    return LocalEmbedder(staged)


@pytest.mark.req("A-28")
def test_staged_files_are_whole_and_give_the_known_vectors(staged: StagedModel) -> None:
    verify_model(staged)


@pytest.mark.req("A-28")
def test_vectors_equal_those_computed_from_the_checkpoint_in_float64(
    embedder: LocalEmbedder,
) -> None:
    expected = np.array(json.loads(REFERENCE_PATH.read_text(encoding="utf-8")))
    vectors = embedder.embed_documents(REFERENCE_TEXTS)
    assert vectors.shape == expected.shape
    assert np.abs(vectors - expected).max() <= 1e-5


@pytest.mark.req("A-28")
def test_a_paraphrase_is_far_closer_than_an_unrelated_sentence(embedder: LocalEmbedder) -> None:
    sentence, paraphrase, unrelated = embedder.embed_documents(
        [
            "The server closes idle connections after thirty seconds.",
            "Connections that are not used for 30 seconds get shut by the server.",
            "My grandmother bakes an apple cake every Sunday.",
        ]
    )
    assert sentence @ paraphrase > 0.75
    assert abs(sentence @ unrelated) < 0.2


@pytest.mark.req("A-28")
def test_cutting_at_the_limit_equals_the_tokenizers_own_truncation(
    embedder: LocalEmbedder, staged: StagedModel
) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(staged.tokenizer_path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(embedder.token_limit)
    text = "Long texts are cut, and that is told. " * 200
    kept = tokenizer.encode(text)
    last_char = kept.offsets[-2][1]
    assert embedder.count_tokens([text])[0] > embedder.token_limit == len(kept.ids)
    cut = text[:last_char]
    assert embedder.embed_query(cut).tobytes() == embedder.embed_query(text).tobytes()


@pytest.mark.req("A-28")
def test_vectors_are_the_same_bits_alone_in_batches_and_in_threads(
    staged: StagedModel, embedder: LocalEmbedder
) -> None:
    texts = [" ".join(["chunk", str(n), *["of", "text"] * (n * 7 % 60)]) for n in range(24)]
    alone = np.stack([embedder.embed_query(text) for text in texts])
    for threads in (1, 4):
        vectors = LocalEmbedder(staged, threads=threads).embed_documents(texts)
        assert vectors.tobytes() == alone.tobytes()


@pytest.mark.req("A-28")
def test_the_8_bit_variant_is_near_and_as_independent_of_its_batch(
    embedder: LocalEmbedder,
) -> None:
    staged_int8 = find_staged("minilm-int8")
    if staged_int8 is None:
        pytest.skip("it is not installed: sqlindex model install minilm --dtype int8")
    texts = [line for line in _PARAGRAPHS.splitlines() if line]
    alone = LocalEmbedder(staged_int8, threads=1)
    vectors = np.stack([alone.embed_query(text) for text in texts])
    cosines = (vectors * embedder.embed_documents(texts)).sum(axis=1)
    assert cosines.mean() >= 0.995
    assert cosines.min() >= 0.99
    assert LocalEmbedder(staged_int8, threads=3).embed_documents(texts).tobytes() == (
        vectors.tobytes()
    )


def _environment(home: Path, staged: StagedModel) -> dict[str, str]:
    """No `CI` and the like: onnxruntime keeps its telemetry quiet under them by itself."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(_IMPORT_ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SQLINDEX_MODELS": str(staged.folder.parent),
    }


@pytest.mark.req("A-28")
def test_the_runtime_leaves_no_device_id_and_no_event_store_behind(
    staged: StagedModel, tmp_path: Path
) -> None:
    subprocess.run(
        [sys.executable, "-c", _EMBED_ONE_QUERY, "0"],
        env=_environment(tmp_path, staged),
        check=True,
        capture_output=True,
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("A-28")
@pytest.mark.needs_root
def test_it_works_without_any_network_and_tries_none(
    staged: StagedModel, embedder: LocalEmbedder, tmp_path: Path
) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare")
    command = [sys.executable, "-c", _EMBED_ONE_QUERY, "0"]
    trace = tmp_path / "trace"
    if shutil.which("strace"):
        # Telemetry of onnxruntime is sent some seconds after the import, so wait for it.
        command[-1] = "12"
        command = ["strace", "-f", "-e", "trace=%network", "-o", str(trace), *command]
    result = subprocess.run(
        ["unshare", "-n", *command],
        env=_environment(tmp_path / "home", staged),
        check=True,
        capture_output=True,
        text=True,
    )
    assert result.stdout.strip() == embedder.embed_query("no network here").tobytes().hex()
    if trace.exists():
        assert "socket(" not in trace.read_text()
