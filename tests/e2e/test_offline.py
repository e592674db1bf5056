"""Without any network, refresh and search work with the staged model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import socket, sys
from sqlindex import Document, Index
try:
    socket.create_connection(("127.0.0.1", 9), timeout=1)
except OSError as exc:
    assert exc.errno == 101, exc  # network is unreachable: not even loopback is up
with Index.open("i.db", create=True) as index:
    index.set_embedder("minilm")
    report = index.upsert("notes", [
        Document("cats", "The cat sleeps on the warm sofa."),
        Document("tax", "The tax return is due at the end of July."),
    ])
    assert report.embedded == 2, report
    for mode in ("lexical", "semantic", "hybrid"):
        hits = index.search("When must I file my taxes? tax", mode=mode).hits
        assert hits[0].document_id == "tax", (mode, hits)
    assert index.check() == []
print("offline ok")
"""


@pytest.mark.model
@pytest.mark.needs_root
@pytest.mark.req("A-28")
def test_refresh_and_search_work_without_a_network(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare is not installed (util-linux)")
    environment = {k: v for k, v in os.environ.items() if k != "CI"}
    answer = subprocess.run(
        [unshare, "-n", sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert (answer.returncode, answer.stdout) == (0, "offline ok\n"), answer.stderr
