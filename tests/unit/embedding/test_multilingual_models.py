"""The multilingual models as they are installed."""

from __future__ import annotations

import pytest

from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import find_staged
from sqlindex.embedding.verification import verify_model

np = pytest.importorskip("numpy", reason="vectors need the extra minilm")


@pytest.mark.model
@pytest.mark.parametrize("name", ["e5-small", "use"])
def test_it_gives_its_known_vectors_and_finds_across_languages(name: str) -> None:
    staged = find_staged(name)
    if staged is None:
        pytest.skip(f"it is not installed: sqlindex model install {name}")
    verify_model(staged)
    embedder = LocalEmbedder(staged)
    documents = embedder.embed_documents(
        ["Idle connections are closed after thirty seconds.", "An apple cake needs six apples."]
    )
    for question in ("Wann werden ungenutzte Verbindungen geschlossen?", "空闲连接何时关闭？"):
        assert np.argmax(documents @ embedder.embed_query(question)) == 0
    embedder.close()
