"""D30: the key of a service is found nowhere, whatever the service does and however it was given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import clean_environment, command_line
from tests.unit.embedding.fault_server import (
    MODEL,
    Fault,
    echo,
    redirect,
    running_service,
    silent,
    status,
)

SECRET = "GEHEIM"
KEY = f"sk-test-{SECRET}-123"
PROGRAM = """
import logging, sys, traceback
from sqlindex import Index, ServiceConfig
logging.basicConfig(level=logging.DEBUG)
url, db = sys.argv[1:]
config = ServiceConfig(url, "tiny", key_env="D30_KEY", retries=1, read_timeout_s=0.5)
print(repr(config), config)
with Index.open(db, create=True) as index:
    index.set_embedder(config)
    try:
        index.refresh()
    except Exception:
        traceback.print_exc()
    print(index.status())
    print(repr(index))
"""


def _run(arguments: list[str], folder: Path) -> tuple[int, str]:
    environment = clean_environment()
    environment |= {"D30_KEY": KEY, "SQLINDEX_SERVICES": str(folder / "services")}
    done = subprocess.run(
        arguments,
        capture_output=True,
        timeout=60,
        env=environment,
        cwd=folder,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).decode()


def _assert_nowhere(said: str, folder: Path) -> None:
    assert SECRET not in said
    for path in folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


FAULTS: dict[str, Fault] = {
    "401": status(401, "wrong key"),
    "500 that echoes the headers": lambda handler, service, asked: handler.refuse(
        500, str(handler.headers)
    ),
    "400 that echoes the key": echo,
    "no answer": silent,
}


@pytest.mark.req("C-13")
@pytest.mark.parametrize("name", FAULTS)
def test_d30_the_key_is_nowhere(name: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("pump\n", encoding="utf-8")
    db = tmp_path / "i.db"
    said = ""
    with running_service(key=KEY) as service:
        service.faults[:] = [FAULTS[name]] * 50
        init: list[str | Path] = ["init", notes, "--db", db, "--embedder-url", service.url]
        init += ["--embedder-model", MODEL, "--embedder-key-env", "D30_KEY"]
        commands = [command_line(*init)]
        commands += [[sys.executable, "-c", PROGRAM, service.url, str(db)]]
        commands += [command_line("status", "--json", "--db", db)]
        commands += [command_line("doctor", "--db", db)]
        for command in commands:
            _, told = _run(command, tmp_path)
            said += told
        assert any(headers.get("Authorization") == f"Bearer {KEY}" for headers in service.headers)
    assert "EmbedderRefusedError" in said or "EmbedderUnavailableError" in said
    _assert_nowhere(said, tmp_path)


@pytest.mark.req("C-13")
def test_d30_a_redirect_gets_neither_key_nor_text(tmp_path: Path) -> None:
    db = tmp_path / "i.db"
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("pump\n", encoding="utf-8")
    with running_service() as target, running_service(key=KEY) as service:
        service.faults[:] = [redirect(f"{target.url}/embeddings")] * 50
        init: list[str | Path] = ["init", notes, "--db", db, "--embedder-url", service.url]
        init += ["--embedder-model", MODEL, "--embedder-key-env", "D30_KEY"]
        assert _run(command_line(*init), tmp_path)[0] == 0
        code, said = _run(command_line("refresh", "--db", db), tmp_path)
        assert code == 1
        assert "leads elsewhere" in said
        assert target.headers == []
    _assert_nowhere(said, tmp_path)


@pytest.mark.req("C-13")
@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{SECRET}@host/v1",
        f"https://host/v1?key={SECRET}",
        f"https://host/{SECRET}#v1",
    ],
)
def test_d30_a_key_in_the_address_is_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    init: list[str | Path] = [
        "init",
        "--db",
        tmp_path / "i.db",
        "--embedder-url",
        url,
        "--embedder-model",
        MODEL,
    ]
    code, said = _run(command_line(*init), tmp_path)
    assert code == 2
    program = "from sqlindex import ServiceConfig\nimport os\nServiceConfig(os.environ['URL'], 'm')"
    environment = {**clean_environment(), "URL": url}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, env=environment, check=False
    )
    assert done.returncode != 0
    _assert_nowhere(said + (done.stdout + done.stderr).decode(), tmp_path)
    assert os.listdir(tmp_path) == []
