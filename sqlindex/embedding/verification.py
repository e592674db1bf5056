"""Verifies a staged model: its files by their hashes, then what it computes by known vectors."""

from __future__ import annotations

from sqlindex.embedding.canaries import Canaries, canaries_of, check_canaries
from sqlindex.embedding.local import LocalEmbedder
from sqlindex.embedding.staged import StagedModel, verify_files


def verify_model(staged: StagedModel, *, canaries: Canaries | None = None) -> None:
    """Hash every file again and embed a few texts whose vectors are known.

    Args:
        canaries: default those that come with this program; a model without any is only hashed.

    Raises:
        ModelFilesError: a file is missing or differs, the graph names a file outside, or a vector is
            not the known one.
        EmbedderError: the model cannot be run.
        OptionalDependencyError: a package of the extra is missing.
    """
    verify_files(staged)
    canaries = canaries or canaries_of(staged.model)
    if canaries is None:
        return
    embedder = LocalEmbedder(staged)
    try:
        check_canaries(staged.model, embedder, canaries)
    finally:
        embedder.close()
