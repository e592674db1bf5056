"""What a service has told of itself, against the configuration: limits, revision, identity."""

from __future__ import annotations

from dataclasses import dataclass

from sqlindex.embedding.budgets import MAX_BATCH_TOKENS, Budget
from sqlindex.embedding.service_config import MAX_TOKENS, ServiceConfig
from sqlindex.embedding.service_replies import ModelEntry
from sqlindex.errors import EmbedderMismatchError, EmbedderRefusedError

ADAPTER_VERSION = 1
"""1: first. Texts as they are, without a prefix; lone surrogates become question marks."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A service as it was when it was first asked.

    Attributes:
        identity: document encoding.
        dimensions: of every vector.
        revision: that the service reports, or ''.
        budget: the smaller of configured and reported limits.
    """

    identity: str
    dimensions: int
    revision: str
    budget: Budget


def budget_of(config: ServiceConfig, entry: ModelEntry) -> Budget:
    """The limits to keep.

    Raises:
        EmbedderRefusedError: the configuration asks for more than the service takes, or the service
            cuts long texts itself and the configuration does not say so.
    """
    tokens = config.max_tokens
    # A text that alone is over the limit of a request can never be sent.
    told = [limit for limit in (entry.max_tokens, entry.max_batch_tokens) if limit is not None]
    if tokens is not None and told and tokens > min(told):
        raise EmbedderRefusedError(
            f"{config.title} takes {min(told):,} tokens of a text, configured are {tokens:,}",
            hint=f"configure at most {min(told)}",
        )
    if entry.truncates and config.over_long != "truncate":
        raise EmbedderRefusedError(
            f"{config.title} says that it cuts long texts, and the policy is {config.over_long}",
            hint="an estimate of tokens cannot rule that out: choose the policy truncate",
        )
    return Budget(
        max_inputs=min(config.max_inputs, entry.max_inputs or config.max_inputs),
        max_tokens=tokens or min([MAX_TOKENS, *told]),
        max_batch_tokens=min(MAX_BATCH_TOKENS, entry.max_batch_tokens or MAX_BATCH_TOKENS),
        bytes_per_token=config.bytes_per_token,
    )


def learned(config: ServiceConfig, budget: Budget, *, dimensions: int, revision: str) -> Learned:
    """What is known of a service now.

    Where neither the service nor the configuration names a revision, the address stands for it: two
    services may call different weights alike.

    Raises:
        EmbedderMismatchError: it reports another revision, or width, than is configured.
    """
    if config.revision and revision and revision != config.revision:
        raise EmbedderMismatchError(
            f"{config.title} is at revision {revision}, configured is {config.revision}",
            hint="configure the new revision; the next refresh embeds everything with it",
        )
    if config.dimensions is not None and dimensions != config.dimensions:
        raise EmbedderMismatchError(
            f"{config.title} gives vectors of width {dimensions}, configured is {config.dimensions}",
            hint="leave the width out, if the model cannot shorten its vectors",
        )
    cut = "not cut"
    if config.over_long == "truncate":
        cut = f"truncate {budget.max_tokens} at {config.bytes_per_token:g} bytes"
    parts = (
        f"service {config.model}@{revision or config.revision or config.url}",
        *([f"answers as {config.answers_as}"] if config.answers_as else []),
        f"{dimensions} wide",
        cut,
        "no prefix",
        f"adapter {ADAPTER_VERSION}",
    )
    return Learned("|".join(parts), dimensions, revision, budget)
