"""Bad input to the program: one error line, a hint, the documented exit code, and nothing lost."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from sqlindex import Index
from sqlindex.config import IndexConfig
from sqlindex.errors import CorruptIndexError, NotAnIndexError, SourceError, StorageError
from sqlindex.sources.memory import Document
from sqlindex.testing import HashingEmbedder
from tests.faults import assert_told, copy_index, observe, shell_lines, sqlindex

NOBODY = 65_534
HUGE = "9" * 40
FILES = {
    "pump.md": "# Pump\n\nThe pump runs at low pressure.\n",
    "valve.md": "# Valve\n\nA valve closes the pump.\n",
    "part/letter.md": "---\ntags: [old, post]\n---\n# Letter\n\nAn archive letter.\n",
}
QUERIES = ("pump", "valve", "letter")


@pytest.fixture
def db(tmp_path: Path, folder: Path) -> Path:
    """A lexical index of three files."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    path = tmp_path / "home" / "index.db"
    path.parent.mkdir()
    with Index.open(path, create=True) as index:
        index.add_source(folder)
        index.refresh()
    return path


@pytest.fixture
def open_tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder that other users can reach."""
    made = Path(tempfile.gettempdir()) / f"sqlindex-test-{os.getpid()}-{tmp_path.name}"
    made.mkdir(mode=0o755)
    try:
        yield made
    finally:
        subprocess.run(["umount", str(made)], capture_output=True, check=False)
        shutil.rmtree(made, ignore_errors=True)


def digest_of_all(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a folder by its name: also shows files that came or went."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


# Arguments


@pytest.mark.req("A-30")
def test_a_missing_index_is_named_with_what_to_do(tmp_path: Path) -> None:
    db = tmp_path / "none.db"
    for words in (["search", "x"], ["status"], ["refresh"], ["check"], ["get", "x"]):
        assert_told(sqlindex(*words, "--db", db), 8, str(db), "sqlindex init")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("A-26")
def test_an_unknown_model_is_a_usage_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    result = sqlindex("init", "--embedder", "nonsense", "--db", tmp_path / "index.db")
    assert_told(result, 2, "nonsense", "minilm")
    for verb in ("install", "verify"):
        assert_told(sqlindex("model", verb, "nonsense"), 2, "nonsense", "minilm")


@pytest.mark.req("A-26", "A-28")
def test_a_model_that_is_not_installed_is_named_and_lexical_search_works(
    db: Path, tmp_path: Path
) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path / "no models"), "XDG_DATA_HOME": str(tmp_path / "none")}
    assert sqlindex("init", "--embedder", "minilm", "--db", db, env=env).code == 0
    told = sqlindex("refresh", "--db", db, env=env)
    assert_told(told, 1, "minilm", "sqlindex model install minilm")
    found = sqlindex("search", "pump", "--mode", "lexical", "--db", db, env=env)
    assert (found.code, found.out.count("pump.md")) == (0, 1)


@pytest.mark.req("A-2")
@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_folder_that_is_none_is_refused_and_not_registered(kind: str, db: Path) -> None:
    path = db.parent / "nothing"
    if kind == "file":
        path.write_text("a file")
    result = sqlindex("source", "add", path, "--db", db)
    assert result.code in (1, 2)
    assert_told(result, result.code, str(path))
    assert len(sqlindex("source", "list", "--db", db, "--json").json["sources"]) == 1


@pytest.mark.req("A-2")
def test_names_taken_or_unknown_are_usage_errors(db: Path, folder: Path) -> None:
    assert_told(sqlindex("source", "add", folder, "--db", db), 2, "registered already")
    assert_told(sqlindex("source", "rm", "nobody", "--db", db), 2, "nobody", "documents")
    assert_told(sqlindex("refresh", "--source", "nobody", "--db", db), 2, "nobody", "documents")
    assert_told(sqlindex("search", "x", "--source", "nobody", "--db", db), 2, "nobody", "documents")
    assert_told(sqlindex("get", "nothing.md", "--db", db), 3, "nothing.md")
    for lines in ("4", "90-95"):
        assert_told(sqlindex("get", "pump.md", "--lines", lines, "--db", db), 3, "3 lines")
    assert_told(sqlindex("get", "0" * 32, "--db", db), 3, "0" * 32)
    assert_told(sqlindex("search", "x", "--after", "yesterday", "--db", db), 2, "yesterday")
    assert_told(sqlindex("search", "x", "--mode", "semantic", "--db", db), 2, "embedder")


BAD_ARGUMENTS = [
    ["search"],
    ["search", "pump", "-n", "0"],
    ["search", "pump", "-n", "101"],
    ["search", "pump", "-n", "many"],
    ["search", "pump", "--offset", "-1"],
    ["search", "pump", "--mode", "psychic"],
    ["search", "pump", "--meta", "no-equals-sign"],
    ["search", "pump", "--unknown"],
    ["get", "pump.md", "--lines", "0-2"],
    ["get", "pump.md", "--lines", "3-2"],
    ["get", "pump.md", "--lines", "x"],
    ["get", "pump.md", "--lines", "9" * 5_000],
    *(["gc", option, HUGE] for option in ("--keep", "--keep-days", "--vector-days")),
    ["refresh", "--wait", "-1"],
    ["refresh", "--wait", "nan"],
    ["frobnicate"],
]


@pytest.mark.req("A-22")
@pytest.mark.parametrize("words", BAD_ARGUMENTS, ids=lambda words: " ".join(words)[:40])
def test_bad_arguments_exit_with_2_and_one_message(words: list[str], db: Path) -> None:
    result = sqlindex(*words, env={"SQLINDEX_DB": str(db)})
    assert result.code == 2, result.err
    assert result.out == ""
    assert "Traceback" not in result.err
    assert "error" in result.err.lower()


@pytest.mark.req("A-20", "A-23")
@pytest.mark.parametrize(
    "words",
    [
        ["search", "pump", "--offset", HUGE],
        ["search", "pump", "--meta", f"size={HUGE}"],
        ["search", "pump", "--path", "\x01"],
        ["search", "x" * 100_000],
        ["search", "pump " * 20_000, "--path", "nowhere/"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_odd_but_allowed_arguments_find_nothing(words: list[str], db: Path) -> None:
    result = sqlindex(*words, env={"SQLINDEX_DB": str(db)})
    assert (result.code, result.out.strip()) == (0, ""), result.err


@pytest.mark.req("A-20", "A-23")
@pytest.mark.parametrize(
    "words",
    [
        ["search", b"\xff\xfe"],
        ["search", b"pump \xff"],
        ["search", b"pump", b"--path", b"caf\xe9/"],
        ["search", b"pump", b"--glob", b"caf\xe9*"],
        ["search", b"pump", b"--source", b"caf\xe9"],
        ["search", b"pump", b"--tag", b"caf\xe9"],
        ["search", b"pump", b"--ext", b"caf\xe9"],
        ["search", b"pump", b"--language", b"caf\xe9"],
        ["search", b"pump", b"--meta", b"caf\xe9=caf\xe9"],
        ["search", b"pump", b"--after", b"caf\xe9"],
        ["get", b"caf\xe9.md"],
        ["get", b"pump.md", b"--source", b"caf\xe9"],
        ["source", "rm", b"caf\xe9"],
        ["source", "add", b"caf\xe9"],
        ["refresh", "--source", b"caf\xe9"],
        ["model", "verify", b"caf\xe9"],
        ["init", "--embedder", b"caf\xe9"],
        ["status", "--db", b"caf\xe9.db"],
    ],
    ids=lambda words: repr(words)[:50],
)
@pytest.mark.parametrize("with_json", [False, True])
def test_arguments_that_are_no_utf8_never_end_in_a_traceback(
    words: list[str | bytes], with_json: bool, db: Path
) -> None:
    import json

    encoded = [os.fsencode(word) for word in words] + ([b"--json"] if with_json else [])
    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"sqlindex", *encoded],
        env={**os.environ, "SQLINDEX_DB": str(db), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode in (0, 1, 2, 3, 8)
    done.stderr.decode("utf-8")
    if with_json:
        json.loads(done.stdout.decode("utf-8"))


@pytest.mark.req("A-20")
@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_output_is_readable_in_every_locale(locale: str, encoding: str, tmp_path: Path) -> None:
    import json

    db = tmp_path / "index.db"
    with Index.open(db, create=True) as index:
        index.upsert(
            "host", [Document("größe \U0001f600.md", "# Größe › 漢字\n\n“pump” \U0001f600\n")]
        )
    env = {**os.environ, "LC_ALL": locale, "PYTHONIOENCODING": encoding, "SQLINDEX_DB": str(db)}
    for words in (["search", "pump"], ["search", "pump", "--json"], ["status", "--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "sqlindex", *words], env=env, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        if "--json" in words:
            answer = json.loads(done.stdout.decode("utf-8"))
            for hit in answer.get("hits", ()):
                assert hit["document_id"] == "größe \U0001f600.md"


# Files that are no index


def _newer(path: Path) -> None:
    version = int(shell_lines(path, "PRAGMA user_version")[0])
    shell_lines(
        path,
        f"PRAGMA user_version={version + 1}; CREATE TABLE later(x); PRAGMA wal_checkpoint(TRUNCATE)",
        writes=True,
    )


def _version(number: int) -> Callable[[Path], None]:
    def set_version(path: Path) -> None:
        shell_lines(
            path, f"PRAGMA user_version={number}; PRAGMA wal_checkpoint(TRUNCATE)", writes=True
        )

    return set_version


def _foreign(path: Path) -> None:
    path.unlink()
    shell_lines(path, "CREATE TABLE head(generation); INSERT INTO head VALUES(1)", writes=True)


def _text(path: Path) -> None:
    path.write_text("this is a plain text file\n" * 100)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


NO_INDEX = {
    "newer": _newer,
    "version 0": _version(0),
    "negative version": _version(-5),
    "foreign": _foreign,
    "text": _text,
    "empty": _empty,
    "cut": _cut,
    "folder": _folder,
    "fifo": _fifo,
}
COMMANDS: Sequence[Sequence[str]] = (
    ("search", "pump"),
    ("refresh",),
    ("check",),
    ("status",),
    ("get", "pump.md"),
    ("source", "list"),
    ("init",),
)


@pytest.mark.req("A-31")
@pytest.mark.parametrize("kind", NO_INDEX)
def test_d24_what_is_no_index_of_this_version_is_refused_and_left_as_it_is(
    kind: str, db: Path
) -> None:
    NO_INDEX[kind](db)
    for suffix in ("-wal", "-shm", "-lock"):
        db.with_name(db.name + suffix).unlink(missing_ok=True)
    is_file = db.is_file()
    before = digest_of_all(db.parent) if is_file else {}
    for words in COMMANDS:
        told = sqlindex(*words, "--db", db)
        assert_told(told, 8, str(db))
        as_json = sqlindex(*words, "--db", db, "--json")
        assert as_json.code == 8
        expected = "newer_schema" if kind == "newer" else "not_an_index"
        assert as_json.json["error"]["code"] == expected
        assert as_json.json["error"]["hint"]
    if is_file:
        assert digest_of_all(db.parent) == before
    assert [path.name for path in db.parent.iterdir()] == [db.name]


@pytest.mark.req("A-31")
def test_the_doctor_names_an_index_that_is_none(db: Path) -> None:
    _text(db)
    result = sqlindex("doctor", "--db", db)
    assert result.code == 1
    assert "Traceback" not in result.err
    assert re.search(r"fault index .*not an SQLite file", result.out)


# Locked


HOLDER = """
import sys, time
from pathlib import Path
from sqlindex.store.connection import IndexFile
with IndexFile.open(Path(sys.argv[1]), make=False, busy_timeout_ms=1000).writing("a long refresh"):
    print("holding", flush=True)
    time.sleep(60)
"""


@pytest.mark.req("A-15")
def test_d22_a_locked_index_exits_with_4_and_names_the_holder_while_searches_go_on(
    db: Path, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(db)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holding\n"
        name = f"process {holder.pid} (a long refresh"
        for words in (
            ["refresh"],
            ["refresh", "--wait", "0.2"],
            ["source", "add", str(other)],
            ["source", "rm", "documents"],
            ["init", str(other)],
            ["init", "--embedder", "none"],
        ):
            assert_told(sqlindex(*words, "--db", db), 4, name, "--wait")
        error = sqlindex("refresh", "--db", db, "--json").json["error"]
        assert (error["code"], error["retryable"]) == ("locked", True)
        assert sqlindex("search", "pump", "--db", db).code == 0
        assert sqlindex("check", "--db", db).code == 0
        assert sqlindex("refresh", "--plan", "--db", db).code == 0
        holder.kill()
    assert sqlindex("refresh", "--db", db).code == 0


# Sources that cannot be read


@pytest.mark.needs_root
@pytest.mark.req("A-14")
def test_an_unreadable_file_keeps_its_version_and_exits_with_5(
    open_tmp_path: Path,
) -> None:
    documents = open_tmp_path / "documents"
    documents.mkdir()
    for name in ("a.md", "b.md"):
        (documents / name).write_text(f"# {name}\n\nword{name[0]}\n")
    os.chown(open_tmp_path, NOBODY, NOBODY)
    db = open_tmp_path / "index.db"
    assert sqlindex("init", documents, "--db", db, user=NOBODY).code == 0
    assert sqlindex("refresh", "--db", db, user=NOBODY).code == 0
    (documents / "a.md").write_text("# a\n\nchanged\n")
    (documents / "a.md").chmod(0o000)
    partial = sqlindex("refresh", "--db", db, "--json", user=NOBODY)
    assert partial.code == 5
    (refused,) = partial.json["refused"]
    assert (refused["document_id"], refused["reason"], refused["is_kept"]) == (
        "a.md",
        "unreadable",
        True,
    )
    told = sqlindex("refresh", "--db", db, user=NOBODY)
    assert told.code == 5
    assert "a.md: unreadable" in told.err
    assert "worda" in sqlindex("search", "worda", "--db", db, user=NOBODY).out
    assert_told(sqlindex("refresh", "--strict", "--db", db, user=NOBODY), 1, "a.md", "unreadable")
    assert "worda" in sqlindex("search", "worda", "--db", db, user=NOBODY).out
    documents.chmod(0o000)
    assert_told(sqlindex("refresh", "--db", db, user=NOBODY), 1, str(documents))
    assert "wordb" in sqlindex("search", "wordb", "--db", db, user=NOBODY).out
    documents.chmod(0o755)
    (documents / "a.md").chmod(0o644)
    assert sqlindex("refresh", "--db", db, user=NOBODY).code == 0
    assert "changed" in sqlindex("search", "changed", "--db", db, user=NOBODY).out


@pytest.mark.req("A-2", "A-14")
def test_a_folder_that_is_gone_deletes_nothing(db: Path, folder: Path) -> None:
    before = observe(db, QUERIES)
    folder.rename(folder.with_name("moved"))
    assert_told(sqlindex("refresh", "--db", db), 1, str(folder))
    assert_told(sqlindex("refresh", "--plan", "--db", db), 1, str(folder))
    folder.symlink_to(folder.with_name("moved"))
    assert_told(sqlindex("refresh", "--db", db), 1, str(folder))
    assert observe(db, QUERIES) == before


@pytest.mark.req("A-2", "A-14")
def test_a_file_replaced_between_listing_and_reading_is_read_whole(
    db: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlindex.sources import filesystem, stable_read

    read = stable_read.read_stable

    def replaced_first(
        root: int, components: Sequence[bytes], *rest: object, **named: object
    ) -> object:
        if components[-1] == b"pump.md":
            new = folder / "pump.new"
            new.write_text("# Pump\n\nreplaced meanwhile\n")
            new.replace(folder / "pump.md")
        if components[-1] == b"valve.md":
            (folder / "valve.md").unlink()
        return read(root, components, *rest, **named)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(filesystem, "read_stable", replaced_first)
    with Index.open(db) as index:
        report = index.refresh(verify=True)
        assert [hit.path for hit in index.search("replaced").hits] == ["pump.md"]
        assert index.search("closes").hits == ()
        assert report.changes.count("changed") == 1
        assert index.check() == []


@pytest.mark.req("A-2", "A-14")
def test_a_root_replaced_during_the_refresh_publishes_nothing(
    db: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlindex.sources import filesystem

    before = observe(db, QUERIES)
    read = filesystem.FolderSource.read

    def moved_first(self: filesystem.FolderSource, ref: object) -> object:
        if folder.exists():
            folder.rename(folder.with_name("moved"))
            folder.mkdir()
        return read(self, ref)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(filesystem.FolderSource, "read", moved_first)
    with Index.open(db) as index, pytest.raises(SourceError):
        index.refresh(verify=True)
    assert observe(db, QUERIES) == before


# The disk


def _mount(folder: Path, kilobytes: int) -> None:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)], check=True
    )


@pytest.mark.needs_root
@pytest.mark.req("A-14", "A-30")
def test_a_full_disk_is_told_at_every_size_and_loses_nothing(
    open_tmp_path: Path, folder: Path
) -> None:
    for number in range(120):
        text = "\n".join(f"word{number} line {line} of some length" for line in range(60))
        (folder / f"file{number}.md").write_text(f"# File {number}\n\n{text}\n")
    codes = {}
    for kilobytes in (64, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 4_096, 12_000):
        _mount(open_tmp_path, kilobytes)
        try:
            codes[kilobytes] = _refresh_on_a_small_disk(open_tmp_path / "index.db", folder)
        finally:
            subprocess.run(["umount", str(open_tmp_path)], check=True)
    assert set(codes.values()) == {"no init", "no refresh", "ok"}, codes


def _refresh_on_a_small_disk(db: Path, folder: Path) -> str:
    init = sqlindex("init", folder, "--db", db)
    if init.code != 0:
        assert_told(init, 1)
        assert "no space" in init.err or "cannot create" in init.err or "disk" in init.err
        leftovers = [p.name for p in db.parent.iterdir() if not p.name.startswith("index.db")]
        assert leftovers == []
        return "no init"
    refresh = sqlindex("refresh", "--db", db)
    with Index.open(db) as index:
        generation = index.status().generation
        assert index.check() == []
        assert bool(index.search("word7").hits) == bool(generation)
    if refresh.code == 0:
        assert generation == 1
        return "ok"
    assert_told(refresh, 1, str(db))
    assert "no space" in refresh.err or "disk" in refresh.err
    assert generation == 0
    # Room again: the same command completes.
    subprocess.run(["mount", "-o", "remount,size=16m", str(db.parent)], check=True)
    assert sqlindex("refresh", "--db", db).code == 0
    assert sqlindex("check", "--db", db).code == 0
    return "no refresh"


@pytest.mark.needs_root
@pytest.mark.req("A-14", "A-30")
def test_a_disk_that_fills_up_later_keeps_the_published_generation(
    open_tmp_path: Path, folder: Path
) -> None:
    (folder / "one.md").write_text("# One\n\nfirst words\n")
    _mount(open_tmp_path, 1_024)
    db = open_tmp_path / "index.db"
    assert sqlindex("init", folder, "--db", db).code == 0
    assert sqlindex("refresh", "--db", db).code == 0
    before = observe(db, ("first",))
    for number in range(50):
        (folder / f"more{number}.md").write_text(f"# More {number}\n\n" + f"text{number} " * 3_000)
    assert_told(sqlindex("refresh", "--db", db), 1, "no space left", "free space")
    error = sqlindex("refresh", "--db", db, "--json").json["error"]
    assert (error["code"], error["retryable"]) == ("storage", True)
    assert observe(db, ("first",)) == before
    assert sqlindex("check", "--db", db).code == 0
    for path in folder.glob("more*.md"):
        path.unlink()
    assert sqlindex("refresh", "--db", db).code == 0


@pytest.mark.needs_root
@pytest.mark.req("A-30")
@pytest.mark.parametrize("with_sidecars", [True, False])
def test_a_read_only_folder_and_file_can_be_searched_and_not_written(
    with_sidecars: bool, open_tmp_path: Path, folder: Path
) -> None:
    db = open_tmp_path / "index.db"
    (folder / "one.md").write_text("# One\n\nfirst words\n")
    assert sqlindex("init", folder, "--db", db).code == 0
    assert sqlindex("refresh", "--db", db).code == 0
    for path in open_tmp_path.iterdir():
        path.chmod(0o444)
        if not with_sidecars and path != db:
            path.unlink()
    open_tmp_path.chmod(0o555)
    before = digest_of_all(open_tmp_path)
    for words in (["search", "first"], ["get", "one.md"], ["check"], ["status"]):
        assert sqlindex(*words, "--db", db, user=NOBODY).code == 0
    told = sqlindex("refresh", "--db", db, user=NOBODY)
    assert_told(told, 1, "write access")
    assert digest_of_all(open_tmp_path) == before
    # The owner's later writes are seen by the same other user.
    open_tmp_path.chmod(0o755)
    db.chmod(0o644)
    (folder / "one.md").write_text("# One\n\nsecond words\n")
    assert sqlindex("refresh", "--db", db).code == 0
    assert "second" in sqlindex("search", "second", "--db", db, user=NOBODY).out


@pytest.mark.needs_root
@pytest.mark.req("A-30")
def test_a_read_only_mount_can_be_searched(open_tmp_path: Path, folder: Path) -> None:
    (folder / "one.md").write_text("# One\n\nfirst words\n")
    _mount(open_tmp_path, 4_096)
    db = open_tmp_path / "index.db"
    assert sqlindex("init", folder, "--db", db).code == 0
    assert sqlindex("refresh", "--db", db).code == 0
    for keeps_sidecars in (True, False):
        if not keeps_sidecars:
            for suffix in ("-wal", "-shm", "-lock"):
                db.with_name(db.name + suffix).unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(open_tmp_path)], check=True)
        assert "first" in sqlindex("search", "first", "--db", db).out
        assert sqlindex("check", "--db", db).code == 0
        assert_told(sqlindex("refresh", "--db", db), 1, "write access")
        subprocess.run(["mount", "-o", "remount,rw", str(open_tmp_path)], check=True)


@pytest.mark.needs_root
@pytest.mark.req("A-30")
def test_another_user_cannot_open_an_index_that_is_private(
    open_tmp_path: Path, folder: Path
) -> None:
    db = open_tmp_path / "index.db"
    assert sqlindex("init", folder, "--db", db).code == 0
    for words in (["search", "x"], ["status"], ["refresh"]):
        assert_told(sqlindex(*words, "--db", db, user=NOBODY), 1, str(db))
    assert sqlindex("init", "--db", open_tmp_path / "new.db", user=NOBODY).code == 1


# Links


@pytest.mark.req("A-30")
def test_a_link_to_an_index_is_that_index(db: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(db)
    assert "pump.md" in sqlindex("search", "pump", "--db", link).out
    assert sqlindex("refresh", "--db", link).code == 0
    assert sqlindex("check", "--db", link).code == 0
    assert not list(tmp_path.glob("link.db-*"))
    link.unlink()
    link.symlink_to(tmp_path / "absent.db")
    assert_told(sqlindex("search", "pump", "--db", link), 8, "absent.db")
    link.unlink()
    link.symlink_to(link)
    assert_told(sqlindex("search", "pump", "--db", link), 1, "link.db")


# Damage


def _damaged(db: Path, sql: str) -> None:
    shell_lines(db, f"{sql}; PRAGMA wal_checkpoint(TRUNCATE);", writes=True)


FLIP_TEXT = (
    "UPDATE content_piece SET body = replace(body, 'pressure', 'pressurf') "
    "WHERE body LIKE '%pressure%'"
)
DAMAGE_IN_TEXT = {
    "changed": FLIP_TEXT,
    "no utf-8": "UPDATE content_piece SET body = CAST(x'ff00ff' AS TEXT) WHERE body LIKE '%pressure%'",
    "checksum": "UPDATE content_piece SET check8 = x'00' WHERE body LIKE '%pressure%'",
    "lost": "DELETE FROM content_piece WHERE body LIKE '%pressure%'",
}


@pytest.mark.req("A-29")
@pytest.mark.parametrize("kind", DAMAGE_IN_TEXT)
def test_a_damaged_text_is_named_and_the_other_documents_are_served(kind: str, db: Path) -> None:
    _damaged(db, DAMAGE_IN_TEXT[kind])
    assert_told(sqlindex("search", "pressure", "--db", db), 6, "sqlindex repair")
    assert_told(sqlindex("get", "pump.md", "--db", db), 6, "sqlindex repair")
    assert "letter.md" in sqlindex("search", "letter", "--db", db).out
    check = sqlindex("check", "--db", db, "--json")
    assert check.code == 6
    details = [finding["detail"] for finding in check.json["findings"]]
    assert any(re.search(r"content \d+: text piece", detail) for detail in details), details
    told = sqlindex("check", "--db", db)
    assert told.code == 6
    assert "Traceback" not in told.err
    error = sqlindex("search", "pressure", "--db", db, "--json").json["error"]
    assert error["code"] == "corrupt"
    before = digest_of_all(db.parent)
    assert sqlindex("refresh", "--db", db).code == 0
    assert "letter.md" in sqlindex("search", "letter", "--db", db).out
    assert digest_of_all(db.parent).keys() == before.keys()


DAMAGE_IN_ROWS = {
    "heading path": "UPDATE section SET heading_path = '[oops' WHERE heading_path LIKE '%Pump%'",
    "heading path of numbers": "UPDATE section SET heading_path = '7' WHERE heading_path LIKE '%Pump%'",
    "span": "UPDATE chunk SET end_char = end_char + 100000",
    "section": "DELETE FROM section WHERE heading_path LIKE '%Pump%'",
    "parse": "UPDATE parse SET chunks = chunks + 1",
    "parse tags": "UPDATE parse SET tags = 'oops'",
    "version": "DROP TRIGGER version_frozen; UPDATE document_version SET tags = 'oops'",
    "version metadata": "DROP TRIGGER version_frozen; UPDATE document_version SET metadata = '{'",
    "head": "UPDATE head SET generation = 77",
    "no head": "DELETE FROM head",
    "lexical table": "UPDATE chunk_fts_a_data SET block = zeroblob(length(block)) WHERE id > 10",
    "lexical rows": "UPDATE chunk_fts_a_data SET block = x'ffffffffffffffff' WHERE id > 10",
    "lexical structure": "UPDATE chunk_fts_a_data SET block = x'00' WHERE id = 10",
    "lexical totals": "UPDATE chunk_fts_a_data SET block = x'ff' WHERE id = 1",
    "lexical index": "DELETE FROM chunk_fts_a_docsize",
    "source options": "UPDATE source SET options = 'oops'",
    "refusals": "INSERT INTO refused_document VALUES(1, 'x', 'no such reason', '', '', 0)",
    "table": "DROP TABLE content_piece",
}


@pytest.mark.req("A-29")
@pytest.mark.parametrize("kind", DAMAGE_IN_ROWS)
def test_damaged_rows_never_end_in_a_traceback_and_check_finds_them(kind: str, db: Path) -> None:
    _damaged(db, DAMAGE_IN_ROWS[kind])
    check = sqlindex("check", "--db", db)
    assert "Traceback" not in check.err, check.err
    assert check.code == 6, (check.out, check.err)
    for words in (
        ["search", "pump pressure"],
        ["get", "pump.md"],
        ["status"],
        ["status", "--refused"],
        ["refresh"],
        ["refresh", "--verify"],
        ["source", "rm", "documents"],
    ):
        result = sqlindex(*words, "--db", db)
        assert "Traceback" not in result.err, (words, result.err)
        assert result.code in (0, 1, 3, 6), (words, result.code, result.err)


@pytest.mark.req("A-21", "A-29")
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE vector SET f32 = zeroblob(length(f32))",
        "UPDATE vector SET f32 = substr(f32, 5)",
        "UPDATE vector SET check8 = x'00'",
        "UPDATE vector SET norm = 9e999",
    ],
)
def test_a_damaged_vector_is_a_clear_error_and_lexical_search_works(
    sql: str, tmp_path: Path
) -> None:
    db = tmp_path / "index.db"
    documents = [Document(f"d{n}", f"pump number {n}") for n in range(5)]
    with Index.open(db, create=True, embedder=HashingEmbedder(16)) as index:
        index.upsert("host", documents)
    _damaged(db, f"{sql} WHERE vector_id = (SELECT min(vector_id) + 2 FROM vector)")
    with Index.open(db, embedder=HashingEmbedder(16)) as index:
        for mode in ("semantic", "hybrid"):
            with pytest.raises(CorruptIndexError, match="vector of text 3"):
                index.search("pump", mode=mode)
        assert len(index.search("pump", mode="lexical").hits) == 5
        assert any("vector" in finding.invariant for finding in index.check())


@pytest.mark.req("A-29")
def test_zeroed_and_cut_pages_never_crash_and_never_answer_wrongly(
    db: Path, tmp_path: Path
) -> None:
    good = observe(db, QUERIES)
    pages = db.stat().st_size // 4_096
    told = 0
    for page in range(pages):
        copy = copy_index(db, tmp_path / f"zeroed{page}")
        with copy.open("r+b") as file:
            file.seek(page * 4_096)
            file.write(bytes(4_096))
        told += _is_told_or_right(copy, good.found)
    for size in range(4_096, db.stat().st_size, 5 * 4_096):
        copy = copy_index(db, tmp_path / f"cut{size}")
        os.truncate(copy, size)
        told += _is_told_or_right(copy, good.found)
    assert told > pages // 2


def _is_told_or_right(db: Path, found: tuple[str, ...]) -> bool:
    """Whether opening, searching or checking tells of the damage; the answers must be right else."""
    from tests.faults import searched

    try:
        with Index.open(db) as index:
            is_right = searched(index, QUERIES, False) == found
            findings = index.check()
    except (CorruptIndexError, NotAnIndexError, StorageError):
        return True
    assert is_right or findings
    return bool(findings)


# A refresh beside a large change


@pytest.mark.req("A-14", "A-29")
def test_a_document_whose_stored_text_is_damaged_can_be_replaced(db: Path, folder: Path) -> None:
    _damaged(db, FLIP_TEXT)
    (folder / "pump.md").write_text("# Pump\n\nnew words\n")
    config = IndexConfig(staged_fts_chunks=1)
    with Index.open(db, config=config) as index:
        index.refresh()
        assert [hit.path for hit in index.search("new words").hits] == ["pump.md"]
