"""The command line as people and scripts use it: data, messages, exit codes, signals, pipes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sqlindex import Index
from sqlindex.sources.memory import Document
from tests.faults import (
    assert_told,
    clean_environment,
    command_line,
    copy_index,
    observe,
    running,
    shell_lines,
    sqlindex,
)

FILES = {
    "pump.md": "---\ntags: [water, low]\ndate: 2026-01-10\n---\n# Pump\n\nThe pump runs at low pressure.\n",
    "guide/valve.md": "---\ntags: [water]\ndate: 2026-03-20\n---\n# Valve\n\nA valve closes the pump.\n",
    "guide/notes.txt": "first line\nthe pump again\nthird line\nlast line\n",
    "code/pump.py": "def pump() -> None:\n    return None\n",
    "picture.png": "not a text format",
}
ANSI = re.compile(r"\x1b")


@pytest.fixture
def db(tmp_path: Path, folder: Path) -> Path:
    """An index of a few files, made by the commands of the tutorial."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    path = tmp_path / "home" / "index.db"
    path.parent.mkdir()
    with Index.open(path, create=True) as index:
        index.add_source(folder)
        index.refresh()
    return path


def _json(*words: str | Path, db: Path, code: int = 0) -> dict[str, object]:
    result = sqlindex(*words, "--db", db, "--json")
    assert result.code == code, result.err
    assert result.out.count("\n") == 1
    assert result.json["schema"] == 1
    assert not ANSI.search(result.out + result.err)
    return result.json


@pytest.mark.req("A-13", "A-14", "A-16", "A-17")
def test_the_life_of_an_index_through_commands(tmp_path: Path, folder: Path) -> None:
    db = tmp_path / "index.db"
    other = tmp_path / "other"
    other.mkdir()
    for name in ("one.md", "two.md"):
        (folder / name).write_text(f"# {name}\n\nword {name[:3]}\n")
    (other / "three.md").write_text("# three\n\nword three\n")
    (other / ".hidden.md").write_text("word hidden\n")
    (other / "draft.md").write_text("word draft\n")

    made = _json("init", folder, db=db)
    assert (made["path"], made["embedder"], made["added_sources"]) == (str(db), None, ["documents"])
    assert db.stat().st_mode & 0o777 == 0o600
    added = _json(
        "source", "add", other, "--name", "more", "--hidden", "--exclude", "draft*", db=db
    )
    assert added["source"] == "more"
    plan = _json("refresh", "--plan", db=db)["plan"]
    assert isinstance(plan, dict)
    assert (plan["added"], plan["unchanged"], plan["removed"]) == (4, 0, 0)
    assert _json("status", db=db)["generation"] == 0
    refreshed = _json("refresh", db=db)
    assert (refreshed["generation"], refreshed["added"], refreshed["is_published"]) == (1, 4, True)
    assert {c["document_id"] for c in refreshed["documents"]} == {  # type: ignore[attr-defined]  # a list
        "one.md",
        "two.md",
        "three.md",
        ".hidden.md",
    }
    again = _json("refresh", "--verify", db=db)
    assert (again["generation"], again["is_published"], again["unchanged"]) == (1, False, 4)

    (folder / "one.md").rename(folder / "uno.md")
    (folder / "two.md").write_text("# two\n\nword changed\n")
    (other / "three.md").unlink()
    partly = _json("refresh", "--source", "documents", db=db)
    assert (partly["renamed"], partly["changed"], partly["removed"]) == (1, 1, 0)
    assert _json("refresh", "--strict", "--wait", "1", db=db)["removed"] == 1
    listed = _json("source", "list", db=db)["sources"]
    assert [(s["name"], s["documents"]) for s in listed] == [("documents", 2), ("more", 1)]  # type: ignore[attr-defined]  # a list
    removed = _json("source", "rm", "more", db=db)
    assert (removed["source"], removed["removed"], removed["generation"]) == ("more", 1, 4)
    status = _json("status", "--refused", db=db)
    assert (status["generation"], status["documents"], status["refused"]) == (4, 2, [])
    assert status["default_mode"] == "lexical"
    assert _json("check", db=db) == {"schema": 1, "is_ok": True, "findings": []}
    assert _json("check", "--quick", db=db)["is_ok"]
    diagnoses = _json("doctor", db=db)["diagnoses"]
    assert {"python", "sqlite", "lexical", "index"} <= {d["part"] for d in diagnoses}  # type: ignore[attr-defined]  # a list
    models = sqlindex("model", "list", "--json").json["models"]
    assert {"minilm", "minilm-int8"} <= {model["name"] for model in models}


@pytest.mark.req("A-14")
def test_people_get_messages_on_stderr_and_only_data_on_stdout(
    tmp_path: Path, folder: Path
) -> None:
    db = tmp_path / "index.db"
    (folder / "one.md").write_text("# One\n\nword\n")
    (folder / "odd.xyz").write_text("no known type")
    silent = [
        ["init", str(folder)],
        ["refresh"],
        ["refresh"],
        ["check"],
        ["source", "rm", "documents"],
        ["source", "add", str(folder)],
    ]
    for words in silent:
        result = sqlindex(*words, "--db", db)
        assert (result.code, result.out) == (0, ""), words
        assert result.err
        assert not ANSI.search(result.err)
        assert "\r" not in result.err
    told = sqlindex("refresh", "--plan", "--db", db)
    assert told.out == "added\tdocuments\tone.md\n"
    assert "1 unsupported" in told.err
    assert sqlindex("refresh", "--db", db).code == 0
    shown = sqlindex("status", "--refused", "--db", db)
    assert (shown.code, shown.err) == (0, "")
    assert "odd.xyz\tunsupported" in shown.out
    assert sqlindex("source", "list", "--db", db).out == f"documents\t{folder}\t1 document\n"


@pytest.mark.req("A-22")
def test_search_prints_hits_for_people_and_machines(db: Path, folder: Path) -> None:
    shown = sqlindex("search", "pump", "--db", db)
    assert re.search(r"^  1\. \S+:\d+-\d+  ", shown.out)
    assert "hits (lexical, generation 1)" in shown.err
    answer = _json("search", "pump", db=db)
    assert (answer["query"], answer["mode"], answer["fusion"]) == ("pump", "lexical", None)
    assert (answer["generation"], answer["head_moved"], answer["has_more"]) == (1, False, False)
    hits = answer["hits"]
    assert isinstance(hits, list)
    assert [hit["rank"] for hit in hits] == [*range(1, 1 + len(hits))]
    assert f"{len(hits)} hits" in shown.err
    for hit in hits:
        path = folder / hit["document_id"]
        assert hit["uri"] == path.as_uri()
        assert path.read_text()[hit["start_char"] : hit["end_char"]] == hit["text"]
        lines = path.read_text().split("\n")
        assert hit["text"].startswith(lines[hit["start_line"] - 1])
        assert hit["match_reasons"] == ["lexical"]
    lines_of_json = sqlindex("search", "pump", "--jsonl", "--db", db)
    assert [json.loads(line) for line in lines_of_json.out.splitlines()] == hits
    paths = sqlindex("search", "pump", "--files", "--db", db).out.splitlines()
    assert paths == list(dict.fromkeys(hit["path"] for hit in hits))
    assert len(paths) == 4
    full = sqlindex("search", "pump again", "--full", "-n", "1", "--db", db).out
    assert [line.strip() for line in full.splitlines()[1:5]] == FILES[
        "guide/notes.txt"
    ].splitlines()


@pytest.mark.req("A-20")
@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (["--path", "guide/"], {"guide/valve.md", "guide/notes.txt"}),
        (["--glob", "*.md"], {"pump.md", "guide/valve.md"}),
        (["--ext", "py"], {"code/pump.py"}),
        (["--ext", ".PY", "--ext", "txt"], {"code/pump.py", "guide/notes.txt"}),
        (["--language", "python"], {"code/pump.py"}),
        (["--tag", "low", "--tag", "water"], {"pump.md", "guide/valve.md"}),
        (["--all-tags", "low", "--all-tags", "water"], {"pump.md"}),
        (["--before", "2026-01-31", "--ext", "md"], {"pump.md"}),
        (["--after", "2026-02-01", "--before", "2026-03-20"], {"guide/valve.md"}),
        (["--source", "documents", "--path", "pump"], {"pump.md"}),
        (["--meta", "rank=1"], set()),
    ],
)
def test_filters_limit_what_is_found(words: list[str], paths: set[str], db: Path) -> None:
    result = sqlindex("search", "pump", "--files", *words, "--db", db)
    assert (result.code, set(result.out.splitlines())) == (0, paths)


@pytest.mark.req("A-20")
def test_metadata_filters_compare_with_their_type(tmp_path: Path) -> None:
    db = tmp_path / "index.db"
    fields: dict[str, dict[str, object]] = {
        "number": {"n": 3},
        "text": {"n": "three"},
        "flag": {"n": True},
        "nothing": {"n": None},
        "real": {"n": 2.5},
    }
    with Index.open(db, create=True) as index:
        index.upsert("host", [Document(i, "word", metadata=m) for i, m in fields.items()])
    for value, found in (("3", "number"), ("three", "text"), ("2.5", "real"), ("true", "flag")):
        result = sqlindex("search", "word", "--meta", f"n={value}", "--files", "--db", db)
        assert result.out.splitlines() == [found], value


@pytest.mark.req("A-22")
def test_pages_by_offset_equal_one_long_list(tmp_path: Path) -> None:
    db = tmp_path / "index.db"
    documents = [Document(f"d{n:02}", f"word {'other ' * (n % 7)}") for n in range(50)]
    with Index.open(db, create=True) as index:
        index.upsert("host", documents)
    long = _json("search", "word", "-n", "100", db=db)["hits"]
    assert isinstance(long, list)
    assert len(long) == 50
    paged: list[object] = []
    for offset in range(0, 60, 7):
        page = _json("search", "word", "--limit", "7", "--offset", str(offset), db=db)
        assert isinstance(page["hits"], list)
        assert page["has_more"] == (offset + 7 < 50)
        paged.extend(page["hits"])
    assert paged == long


@pytest.mark.req("A-22", "A-23")
def test_limits_are_checked_and_nothing_found_is_no_failure(db: Path) -> None:
    for limit in ("0", "101", "-3", "x"):
        assert sqlindex("search", "pump", "-n", limit, "--db", db).code == 2
    for limit in ("1", "100"):
        assert sqlindex("search", "pump", "-n", limit, "--db", db).code == 0
    for query in ("", "   ", "\t", "!!!", "--", "nowhereword"):
        result = sqlindex("search", "--db", db, "--", query)
        assert (result.code, result.out) == (0, ""), query
        assert "0 hits" in result.err
        told = sqlindex("search", "--fail-if-empty", "--db", db, "--", query)
        assert (told.code, told.out) == (3, "")
    assert _json("search", "", db=db)["hits"] == []
    assert sqlindex("search", "pump", "--fail-if-empty", "--db", db).code == 0


@pytest.mark.req("A-13", "A-22")
def test_get_prints_documents_lines_and_chunks_as_they_are(db: Path, folder: Path) -> None:
    raw = (folder / "guide/notes.txt").read_text()
    assert sqlindex("get", "guide/notes.txt", "--db", db).out == raw
    assert sqlindex("get", "guide/notes.txt", "--lines", "2-3", "--db", db).out == (
        "the pump again\nthird line\n"
    )
    assert sqlindex("get", "guide/notes.txt", "--lines", "4", "--db", db).out == "last line\n"
    assert_told(sqlindex("get", "guide/notes.txt", "--lines", "90-95", "--db", db), 3, "lines")
    document = _json("get", "guide/valve.md", "--source", "documents", db=db)
    assert document["text"] == FILES["guide/valve.md"]
    assert (document["tags"], document["date"]) == (["water"], "2026-03-20")
    hit = _json("search", "closes", db=db)["hits"][0]  # type: ignore[index]  # a list
    chunk = _json("get", hit["chunk_id"], db=db)
    assert (chunk["text"], chunk["start_line"]) == (hit["text"], hit["start_line"])
    assert_told(sqlindex("get", "pump.md", "--source", "x", "--db", db), 2, "'x'", "documents")
    on_disk = sqlindex("get", folder / "guide" / "notes.txt", "--db", db)
    assert on_disk.out == raw
    (folder / "new.bin").write_bytes(b"x")
    assert sqlindex("refresh", "--db", db).code == 0
    told = sqlindex("chunks", folder / "new.bin", "--db", db)
    assert_told(told, 3, "new.bin", "unsupported")


@pytest.mark.req("A-10")
@pytest.mark.req("A-13")
def test_links_prints_where_links_lead_and_who_links_here(db: Path, folder: Path) -> None:
    (folder / "links.md").write_text("# L\n\n[v](guide/valve.md#valve) <https://x.y>\n[[pump]]\n")
    assert sqlindex("refresh", "--db", db).code == 0
    assert sqlindex("links", "links.md", "--db", db).out == (
        "links.md:3: guide/valve.md#valve → guide/valve.md:5\n"
        "links.md:3: https://x.y → (outside)\n"
        "links.md:4: pump → pump.md\n"
    )
    assert sqlindex("links", "pump.md", "--back", "--db", db).out == "links.md:4: pump → pump.md\n"
    (link,) = sqlindex("links", "guide/valve.md", "--back", "--db", db, "--json").json["links"]
    assert link["leads_to"]["heading_line"] == 5
    assert link["label"] == "v"
    assert sqlindex("links", "nothing.md", "--db", db).code == 3


def test_get_gives_back_the_bytes_of_a_text_with_carriage_returns(db: Path, folder: Path) -> None:
    data = "# Größe\r\n\r\neins\rzwei \x1b[31m rot\r\n".encode()
    (folder / "cr.md").write_bytes(data)
    assert sqlindex("refresh", "--db", db).code == 0
    done = subprocess.run(command_line("get", "cr.md", "--db", db), capture_output=True, check=True)
    assert done.stdout == data


@pytest.mark.req("A-30")
def test_the_index_is_named_by_option_environment_or_folder(db: Path) -> None:
    env = {"SQLINDEX_DB": str(db)}
    assert sqlindex("status", "--json", env=env).json["path"] == str(db)
    assert_told(sqlindex("status", "--db", db.with_name("no.db"), env=env), 8, "no.db")
    plain = copy_index(db, db.parent / "plain")
    plain.rename(plain.with_name("sqlindex.db"))
    assert sqlindex("status", "--json", cwd=plain.parent).json["path"] == str(
        plain.with_name("sqlindex.db")
    )


@pytest.mark.req("A-22")
def test_control_characters_of_names_and_texts_are_made_visible(db: Path, folder: Path) -> None:
    names = ["esc\x1b[31mred.md", "line\nbreak.md", "bidi\u202etxt.md", "tab\tbed.md", "del\x7f.md"]
    for name in names:
        (folder / name).write_text("# Odd \x1b]0;title\x07\n\nzebra \x1b[2J \u202e word\n")
    (folder / os.fsdecode(b"caf\xe9.md")).write_text("# Byte\n\nzebra byte\n")
    for words in (
        ["refresh", "--plan"],
        ["refresh"],
        ["search", "zebra"],
        ["search", "zebra", "--full"],
        ["search", "zebra", "--files"],
        ["status", "--refused"],
        ["get", "nothing\x1b[31m.md"],
        ["source", "rm", "no\x1b[31m"],
    ):
        result = sqlindex(*words, "--db", db)
        for text in (result.out, result.err):
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e]", text), words
    answer = _json("search", "zebra", db=db)
    assert isinstance(answer["hits"], list)
    found = {hit["document_id"] for hit in answer["hits"]}
    assert found == {*names, "caf\\xe9.md"}
    for document_id in found:
        assert sqlindex("get", document_id, "--db", db).code == 0
    by_bytes = [*map(os.fsencode, command_line("get")), b"caf\xe9.md", b"--db", os.fsencode(db)]
    assert b"zebra byte" in subprocess.run(by_bytes, capture_output=True, check=True).stdout


@pytest.mark.req("A-14")
def test_help_and_version_name_every_command() -> None:
    shown = sqlindex("--help")
    assert shown.code == 0
    commands = re.findall(r"^  (\w+) {2,}", shown.out, re.MULTILINE)
    assert {"init", "source", "refresh", "search", "get", "status", "check"} <= set(commands)
    for command in commands:
        assert sqlindex(command, "--help").code == 0
    assert re.fullmatch(r"sqlindex, version \S+\n", sqlindex("--version").out)


# Pipes and terminals


@pytest.mark.req("A-22")
def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    db = tmp_path / "index.db"
    text = "word " * 2_000
    with Index.open(db, create=True) as index:
        index.upsert("host", [Document(f"d{n}", f"{n} {text}") for n in range(100)])
    for options in (["--full"], ["--jsonl"], ["--json"], ["--files"]):
        words = [*command_line("search", "word", "-n", "100", "--db", db), *options]
        with (
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
            subprocess.Popen(["head", "-c", "10"], stdin=process.stdout, stdout=subprocess.DEVNULL),
        ):
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            err = process.stderr.read().decode()
        assert "Traceback" not in err
        assert "Exception" not in err
        assert process.returncode == 0


@pytest.mark.req("A-22")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_an_error(db: Path) -> None:
    for words in (["search", "pump"], ["search", "pump", "--json"], ["get", "pump.md"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                command_line(*words, "--db", db), stdout=full, stderr=subprocess.PIPE, check=False
            )
        assert done.returncode == 1
        assert b"error: " in done.stderr
        assert b"Traceback" not in done.stderr
        assert b"Exception" not in done.stderr


def _in_terminal(*words: str | Path) -> tuple[int, str]:
    """Exit code and everything that a terminal showed."""
    shown = bytearray()

    process_id, terminal = pty.fork()
    if process_id == 0:
        environment = {**clean_environment(), "TERM": "xterm", "COLUMNS": "100"}
        os.execve(sys.executable, command_line(*words), environment)
    try:
        while True:
            try:
                data = os.read(terminal, 65_536)
            except OSError:
                break
            if not data:
                break
            shown.extend(data)
    finally:
        os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
    return code, shown.decode("utf-8", "replace")


@pytest.mark.req("A-14")
def test_a_terminal_shows_progress_and_a_pipe_does_not(db: Path, folder: Path) -> None:
    for number in range(400):
        (folder / f"more{number}.md").write_text(f"# More {number}\n\nword\n")
    copy = copy_index(db, db.parent / "copy")
    code, shown = _in_terminal("refresh", "--db", db)
    assert code == 0
    assert "reading" in shown
    assert ANSI.search(shown)
    assert "published generation 2" in shown
    piped = sqlindex("refresh", "--db", copy)
    assert not ANSI.search(piped.err)
    assert "reading" not in piped.err
    code, shown = _in_terminal("search", "pump", "--db", db)
    assert code == 0
    assert "\x1b[1m" in shown
    code, shown = _in_terminal("search", "pump", "--json", "--db", db)
    assert code == 0
    assert not ANSI.search(shown)


# Signals


SLOW = """
import sys, time
from sqlindex.indexing import prepare
inner = prepare.Workshop.prepare
def slow(self, *rest, **named):
    print("reading", flush=True)
    time.sleep(0.05)
    return inner(self, *rest, **named)
prepare.Workshop.prepare = slow
from sqlindex.cli.main import main
main(sys.argv[1:])
"""

HANGING = """
import signal, sys, time
from sqlindex.indexing import prepare
def hang(self, *rest, **named):
    print("hanging", flush=True)
    while True:
        time.sleep(60)
prepare.Workshop.prepare = hang
from sqlindex.cli.main import main
main(sys.argv[1:])
"""


@contextmanager
def _started(script: str, *words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """A refresh that has begun to read."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def _end(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[int, str, float]:
    """(exit code, stderr, seconds until the end)."""
    started = time.monotonic()
    code = process.wait(timeout_s)
    taken = time.monotonic() - started
    assert process.stderr is not None
    return code, process.stderr.read().decode(), taken


@pytest.mark.req("A-14")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_d26_a_signal_stops_a_refresh_within_two_seconds_and_the_next_completes(
    number: signal.Signals, code: int, db: Path, folder: Path
) -> None:
    before = observe(db, ("pump",))
    for position in range(150):
        (folder / f"more{position}.md").write_text(f"# More {position}\n\npump {position}\n")
    with _started(SLOW, "refresh", "--db", db) as process:
        time.sleep(0.2)
        process.send_signal(number)
        ended, err, taken = _end(process, 10)
    assert ended == code
    assert taken < 2
    assert err.splitlines() == ["error: interrupted: the last published generation is unchanged"]
    assert observe(db, ("pump",)) == before
    assert sqlindex("refresh", "--db", db).code == 0
    assert sqlindex("check", "--db", db).code == 0


@pytest.mark.req("A-14")
def test_an_interrupted_command_says_so_as_json_too(db: Path, folder: Path) -> None:
    for position in range(150):
        (folder / f"more{position}.md").write_text(f"pump {position}\n")
    with _started(SLOW, "refresh", "--db", db, "--json") as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stdout is not None
        last = process.stdout.read().decode().splitlines()[-1]
    error = json.loads(last)["error"]
    assert (error["code"], error["retryable"]) == ("cancelled", True)


@pytest.mark.req("A-14")
def test_d26_a_second_signal_ends_a_hanging_refresh_at_once(db: Path, folder: Path) -> None:
    before = observe(db, ("pump",))
    (folder / "more.md").write_text("pump\n")
    with _started(HANGING, "refresh", "--db", db) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        ended, err, taken = _end(process, 10)
    assert ended == 130
    assert taken < 0.5
    assert "Traceback" not in err
    assert observe(db, ("pump",)) == before
    assert sqlindex("refresh", "--db", db).code == 0
    assert sqlindex("check", "--db", db).code == 0


WAITED_FOR = """
import sys, time
from pathlib import Path
from sqlindex.store.connection import IndexFile
with IndexFile.open(Path(sys.argv[1]), make=False, busy_timeout_ms=1000).writing("a long refresh"):
    print("holding", flush=True)
    time.sleep(60)
"""


@pytest.mark.req("A-14", "A-15")
def test_waiting_for_another_writer_is_interrupted_within_two_seconds(db: Path) -> None:
    with (
        _started(WAITED_FOR, db),
        running("refresh", "--wait", "60", "--db", db) as waiting,
    ):
        time.sleep(1)
        assert waiting.poll() is None
        waiting.send_signal(signal.SIGINT)
        ended, err, taken = _end(waiting, 10)
    assert ended == 130
    assert taken < 2
    assert "Traceback" not in err


@pytest.mark.req("A-14")
def test_a_search_is_interrupted_without_a_traceback(db: Path) -> None:
    script = """
import sys, time
from sqlindex.search import searcher
def hang(self, *rest, **named):
    print("searching", flush=True)
    time.sleep(60)
searcher.Searcher.search = hang
from sqlindex.cli.main import main
main(sys.argv[1:])
"""
    with _started(script, "search", "pump", "--db", db) as process:
        process.send_signal(signal.SIGINT)
        ended, err, taken = _end(process, 10)
    assert (ended, err.strip()) == (130, "error: interrupted")
    assert taken < 2


@pytest.mark.req("A-14")
def test_a_file_that_cannot_be_read_ends_with_5_and_the_rest_is_published(
    db: Path, folder: Path
) -> None:
    # A file that changes at every attempt needs no other user.
    script = """
import sys
from sqlindex.model.documents import Refusal, RefusalReason
from sqlindex.sources import filesystem
inner = filesystem.FolderSource.read
def read(self, ref):
    if ref.document_id == "pump.md":
        return Refusal(ref.document_id, RefusalReason.CHANGED, "it changed", "refresh again")
    return inner(self, ref)
filesystem.FolderSource.read = read
from sqlindex.cli.main import main
main(sys.argv[1:])
"""
    (folder / "pump.md").write_text("# Pump\n\nnever still\n")
    (folder / "new.md").write_text("# New\n\nzebra\n")
    done = subprocess.run(
        [sys.executable, "-c", script, "refresh", "--db", str(db)],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(),
    )
    assert done.returncode == 5
    assert "pump.md: changed: it changed (the version indexed earlier is kept)" in done.stderr
    assert sqlindex("search", "zebra", "--files", "--db", db).out == "new.md\n"
    assert "pump.md" in sqlindex("search", "pressure", "--files", "--db", db).out
    status = _json("status", "--refused", db=db)
    assert isinstance(status["refused"], list)
    kept = {r["document_id"]: r["is_kept"] for r in status["refused"]}
    assert kept == {"pump.md": True, "picture.png": False}


@pytest.mark.req("A-30")
def test_the_shell_reads_what_the_program_wrote(db: Path) -> None:
    assert shell_lines(db, "SELECT generation, documents FROM v_head") == ["1|4"]
    assert shell_lines(db, "SELECT path FROM v_document ORDER BY path") == [
        "code/pump.py",
        "guide/notes.txt",
        "guide/valve.md",
        "pump.md",
    ]


def test_a_query_may_begin_with_a_dash_and_a_digit_and_needs_no_quotes(db: Path) -> None:
    for words in (("-204417",), ("pump", "-1"), ("--", "-x"), ("the", "pump", "again")):
        result = sqlindex("search", "--db", db, *words)
        assert result.code == 0, result.err
    mistyped = sqlindex("search", "--moed", "x", "--db", db)
    assert mistyped.code == 2
    assert "'--'" in mistyped.err


def test_hits_of_several_sources_name_their_source(db: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "pump.md").write_text("a pump\n", encoding="utf-8")
    with Index.open(db) as index:
        index.add_source(other)
        index.refresh()
    listed = sqlindex("search", "pump", "--db", db, "--files").out.splitlines()
    assert {"documents: pump.md", "other: pump.md"} <= set(listed)
    assert sqlindex("search", "again", "--db", db, "--files").out == "guide/notes.txt\n"
    unclear = sqlindex("get", "pump.md", "--db", db)
    assert unclear.code == 3
    assert "--source" in unclear.err


def test_a_document_is_printed_exactly_in_a_pipe(db: Path, folder: Path) -> None:
    (folder / "open.txt").write_bytes(b"first\r\nno end")
    with Index.open(db) as index:
        index.refresh()
    command = [sys.executable, "-m", "sqlindex", "get", "open.txt", "--db", str(db)]
    printed = subprocess.run(command, capture_output=True, check=True, env=clean_environment())
    assert printed.stdout == b"first\r\nno end"


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_reason_to_fail(db: Path, redirection: str) -> None:
    for words in ("search pump", "status", "get pump.md", "refresh"):
        line = f"{sys.executable} -m sqlindex {words} --db {db} {redirection}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
