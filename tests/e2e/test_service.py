"""An embedding service from the command line: chosen, shown, asked, and its key nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import sqlindex
from tests.unit.embedding.fault_server import MODEL, running_service

KEY = "sk-e2e-0123456789"


@pytest.mark.req("C-13", "C-17")
def test_a_service_is_chosen_and_used_and_its_absence_is_told(tmp_path: Path) -> None:
    db, notes = tmp_path / "i.db", tmp_path / "notes"
    notes.mkdir()
    line = " ".join(f"word{number}" for number in range(400))
    (notes / "pump.txt").write_text(f"The pump runs.\n{line}\n")
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    key.chmod(0o600)
    environment = {"SQLINDEX_SERVICES": str(tmp_path / "services")}
    entry = {"embedding": {"max_input_tokens": 256}}
    with running_service(key=KEY, entry=entry) as service:
        arguments = ["--embedder-url", service.url, "--embedder-model", MODEL]
        arguments += ["--embedder-key-file", str(key), "--query-instruction", "Find: "]
        made = sqlindex("init", notes, *arguments, "--db", db, "--json", env=environment)
        assert made.json["embedder"] == f"service {MODEL} at {service.url}"
        assert not service.headers
        done = sqlindex("refresh", "--db", db, "--json", env=environment)
        assert done.code == 0, done.err
        assert len(service.texts) == done.json["embedded"] > 3  # its long line is in windows
        found = sqlindex("search", "pump", "--db", db, "--json", env=environment)
        assert found.json["mode"] == "hybrid"
        assert service.texts[-1] == "Find: pump"
        told = sqlindex("doctor", "--db", db, env=environment)
        assert f"{MODEL}@r1" in told.out
        status = sqlindex("status", "--db", db, env=environment)
    gone = sqlindex("refresh", "--verify", "--db", db, env=environment)
    assert gone.code == 1
    assert "lexical search needs no embedder" in gone.err
    sick = sqlindex("doctor", "--db", db, env=environment)
    assert sick.code == 1
    words = sqlindex("search", "pump", "--mode", "lexical", "--db", db, env=environment)
    assert words.code == 0
    for result in (made, done, found, told, status, gone, sick):
        assert KEY not in result.out + result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--embedder-url", "https://host/v1"],
        ["--embedder-model", "m"],
        ["--over-long", "fail"],
        ["--embedder-url", "http://host/v1", "--embedder-model", "m"],
        ["--embedder-url", "https://host/v1", "--embedder-model", "m", "--embedder", "minilm"],
        ["--embedder-url", "https://u:secret@host/v1", "--embedder-model", "m"],
    ],
)
def test_half_a_service_is_a_usage_error_and_makes_no_index(
    arguments: list[str], tmp_path: Path
) -> None:
    result = sqlindex("init", *arguments, "--db", tmp_path / "i.db")
    assert result.code == 2
    assert "secret" not in result.err
    assert not (tmp_path / "i.db").exists()
