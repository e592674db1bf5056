"""`sqlindex serve-embeddings`: a local embeddings API over a staged model."""

from __future__ import annotations

import os
import sys
import time

import click

from sqlindex.cancellation import POLL_S
from sqlindex.cli.interrupts import cancelled_by_signals
from sqlindex.cli.output import print_json, print_message
from sqlindex.errors import UsageError


@click.command("serve-embeddings")
@click.argument("model", default="minilm")
@click.option("--host", default="127.0.0.1", show_default=True, help="A loopback address.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8_088,
    show_default=True,
    help="0 takes a free one, which is told.",
)
@click.option(
    "--key-env",
    metavar="NAME",
    help="Requests must bring the key that this environment variable holds.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Texts at a time; default the processors, at most 8.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Tell the address as one JSON object on stdout."
)
def command(
    model: str, host: str, port: int, key_env: str | None, threads: int | None, as_json: bool
) -> int:
    """Serve MODEL to programs that speak the embeddings API of OpenAI.

    `/v1/models`, `/v1/embeddings` and `/health`, on this machine alone. The model must be installed;
    nothing is downloaded. An input over the model's limit is answered with 422, never cut. Ctrl-C or
    SIGTERM lets requests under way end, and the exit code is 0 then.
    """
    from sqlindex.embedding.local import LocalEmbedder
    from sqlindex.embedding.staged import require_staged
    from sqlindex.serving.embedding_server import EmbeddingServer

    embedder = LocalEmbedder(require_staged(model), threads=threads)
    try:
        embedder.embed_query("ready")  # so that what is wrong with the model is told now
        server = EmbeddingServer(embedder, model, host=host, port=port, key=_key(key_env))
        with cancelled_by_signals() as cancel, server:
            if as_json:
                print_json({"url": server.url, "model": model, "pid": os.getpid()})
                sys.stdout.flush()
            print_message(f"serving {model} at {server.url}; Ctrl-C stops")
            while not cancel.is_cancelled:
                time.sleep(POLL_S)
        print_message("stopped")
    finally:
        embedder.close()
    return 0


def _key(name: str | None) -> str | None:
    if name is None:
        return None
    key = os.environ.get(name)
    if not key:
        raise UsageError(
            f"the environment variable {name} is not set", hint="it holds the key of the service"
        )
    return key
