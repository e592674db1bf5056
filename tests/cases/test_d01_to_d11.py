"""Faults that users of such tools reported, as small cases with the right outcome: D01 to D11.

Every case also demands that each file of the folder is indexed or listed with a reason.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sqlindex import ChunkConfig, Index, IndexConfig
from sqlindex.errors import DuplicateError
from sqlindex.sources.paths import path_of
from sqlindex.testing import HashingEmbedder
from tests.faults import CommandResult, clean_environment, command_line

Cli = Callable[..., CommandResult]


@pytest.fixture
def cli() -> Cli:
    """Runs a command that permissions stop: root does so without the right to pass them."""

    def run(*arguments: str | Path) -> CommandResult:
        done = subprocess.run(
            [*without_privilege(), *command_line(*arguments)],
            capture_output=True,
            timeout=60,
            env=clean_environment(),
            check=False,
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def without_privilege() -> list[str]:
    """What to put before a command so that permissions count for root too."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("permissions do not stop root, and setpriv is not installed")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder whose sub-folders can be removed afterwards."""
    yield tmp_path
    for path in tmp_path.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


def write(folder: Path, **text_by_stem: str) -> None:
    for stem, text in text_by_stem.items():
        (folder / f"{stem}.md").write_text(text, encoding="utf-8")


def found(index: Index, query: str) -> set[str]:
    return {hit.document_id for hit in index.search(query, mode="lexical").hits}


def assert_all_told(index: Index, folder: Path) -> None:
    """Each file is indexed, or it or a folder above it is listed with a reason."""
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            continue
        (status,) = index.file_status(path)
        assert status.is_indexed or (status.refusal is not None and status.refusal.detail), path


@pytest.mark.req("A-11", "A-12")
def test_d01_repeated_lines_keep_exact_and_distinct_spans(tmp_path: Path, folder: Path) -> None:
    line = "pump pressure low\n"
    text = line * 40 + "valve K7 replaced\n" + line * 40
    (folder / "a.txt").write_text(text)
    chunks = ChunkConfig(target_chars=40, min_chars=0, overlap_lines=1)
    config = IndexConfig(chunks=chunks)
    with Index.open(tmp_path / "i.db", create=True, config=config) as index:
        index.add_source(folder)
        index.refresh()
        cut = index.chunks("a.txt")
        assert len(cut) > 30
        for chunk in cut:
            assert chunk.text == text[chunk.start_char : chunk.end_char]
        assert all(before.start_char < after.start_char for before, after in pairwise(cut))
        assert all(after.start_line == before.end_line for before, after in pairwise(cut))
        best = index.search("K7").hits[0]
        grep = subprocess.run(
            ["grep", "-n", "K7", folder / "a.txt"], capture_output=True, text=True, check=True
        )
        assert grep.stdout.startswith("41:")
        assert best.start_line <= 41 <= best.end_line
        assert best.text.split("\n")[41 - best.start_line] == "valve K7 replaced"
        assert_all_told(index, folder)


@pytest.mark.req("A-9", "A-10", "A-12")
def test_d02_crlf_and_lf_give_the_same_lines_and_exact_slices(index: Index, folder: Path) -> None:
    data = b"# Kopf\r\n\r\ntext eins\r\n## Zweites\n\nletzte Worte"
    (folder / "d.md").write_bytes(data)
    (folder / "e.md").write_bytes(data.replace(b"\r\n", b"\n"))
    index.add_source(folder)
    index.refresh()
    for name in ("d.md", "e.md"):
        on_disk = (folder / name).read_bytes().decode()
        document = index.get(name)
        assert document.headings == ((1, ("Kopf",)), (4, ("Kopf", "Zweites")))
        for chunk in index.chunks(name):
            assert on_disk[chunk.start_char : chunk.end_char] == chunk.text
            assert not chunk.text.endswith("\r")
        (hit,) = (h for h in index.search("letzte Worte").hits if h.document_id == name)
        assert hit.start_line <= 6 <= hit.end_line
        assert hit.text.split("\n")[6 - hit.start_line] == "letzte Worte"
        assert not any(heading.endswith("\r") for heading in hit.heading_path)
    assert_all_told(index, folder)


@pytest.mark.req("A-9")
def test_d03_headings_in_fences_are_none(index: Index, folder: Path) -> None:
    text = (
        "# Setup\n\n```bash\n# install first\npip install demo\n```\n\ntext\n\n"
        "## Run\n\n~~~\n# not a title\n~~~ruby\n~~~\n\nende\n"
    )
    (folder / "m1.md").write_text(text)
    index.add_source(folder)
    index.refresh()
    assert [path for _, path in index.get("m1.md").headings] == [("Setup",), ("Setup", "Run")]
    assert index.search("install first").hits[0].heading_path == ("Setup",)
    assert index.search("ende").hits[0].heading_path[-1] == "Run"
    assert_all_told(index, folder)


@pytest.mark.req("A-9", "A-11")
def test_d04_setext_headings_and_breaks_are_told_apart(
    index: Index, folder: Path, shell: Callable[[Path, str], list[str]]
) -> None:
    text = "Einleitung\n---\nerster Absatz\n\n---\n\nzweiter Absatz\n\nKapitel\n===\nText\n"
    (folder / "m4.md").write_text(text)
    index.add_source(folder)
    index.refresh()
    assert index.get("m4.md").headings == ((1, ("Einleitung",)), (9, ("Kapitel",)))
    levels = "SELECT heading_line, level FROM section WHERE heading_line > 0 ORDER BY ord"
    assert shell(index.path, levels) == ["1|2", "9|1"]
    assert index.search("zweiter Absatz").hits[0].heading_path == ("Einleitung",)
    covered = {
        line
        for chunk in index.chunks("m4.md")
        for line in range(chunk.start_line, chunk.end_line + 1)
    }
    blank = {number for number, line in enumerate(text.split("\n"), 1) if not line.strip()}
    assert set(range(1, 12)) - blank <= covered
    assert_all_told(index, folder)


@pytest.mark.req("A-2")
def test_d05_utf_16_counts_with_its_mark_only(index: Index, folder: Path) -> None:
    text = "Liste\r\nGröße 42\r\nEnde\r\n"
    (folder / "u16le.txt").write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
    (folder / "u16be.txt").write_bytes(b"\xfe\xff" + text.encode("utf-16-be"))
    (folder / "u16nobom.txt").write_bytes(text.encode("utf-16-le"))
    index.add_source(folder)
    index.refresh()
    hits = index.search("größe").hits
    assert {hit.document_id for hit in hits} == {"u16le.txt", "u16be.txt"}
    for hit in hits:
        assert hit.start_line <= 2 <= hit.end_line
        assert hit.text.split("\n")[2 - hit.start_line].startswith("Größe 42")
        assert "\ufeff" not in hit.text
        assert "\0" not in hit.text
    (refused,) = index.refused()
    assert refused.refusal.document_id == "u16nobom.txt"
    assert refused.refusal.reason.value in ("encoding", "nul")
    assert_all_told(index, folder)


@pytest.mark.req("A-2", "A-14")
def test_d06_an_undecodable_file_is_told_and_stops_no_other(index: Index, folder: Path) -> None:
    (folder / "gut1.txt").write_text("alpha")
    (folder / "alt.txt").write_bytes("Prüfgerät für Maße".encode("cp1252"))
    (folder / "gut2.txt").write_text("omega")
    index.add_source(folder)
    changes = index.refresh().changes
    assert found(index, "alpha") == {"gut1.txt"}
    assert found(index, "omega") == {"gut2.txt"}
    (refused,) = index.refused()
    assert (refused.refusal.document_id, refused.refusal.reason.value) == ("alt.txt", "encoding")
    assert refused.refusal.hint
    assert changes.count("added") + len(changes.refused) == 3
    for name in ("gut1.txt", "gut2.txt"):
        assert "\ufffd" not in index.get(name).text
    assert_all_told(index, folder)


@pytest.mark.req("A-14")
@pytest.mark.parametrize("how", ["unreadable", "renamed away"])
def test_d07_a_root_that_cannot_be_listed_deletes_nothing(place: Path, cli: Cli, how: str) -> None:
    root, db = place / "r", place / "i.db"
    root.mkdir()
    write(root, **{f"f{number}": f"gemeinsam nummer{number}" for number in range(20)})
    assert cli("init", root, "--db", db).code == 0
    assert cli("refresh", "--db", db).code == 0
    if how == "unreadable":
        root.chmod(0)
    else:
        root.rename(place / "weg")
    failed = cli("refresh", "--db", db)
    assert failed.code not in (0, 130)
    assert str(root) in failed.err
    assert "Traceback" not in failed.err
    status = cli("status", "--json", "--db", db).json
    assert (status["generation"], status["documents"]) == (1, 20)
    hits = cli("search", "gemeinsam", "-n", "100", "--json", "--db", db).json["hits"]
    assert len(hits) == 20


@pytest.mark.req("A-14")
def test_d07_files_below_an_unreadable_folder_are_kept(place: Path, cli: Cli) -> None:
    root, db = place / "r", place / "i.db"
    (root / "s").mkdir(parents=True)
    write(root, **{f"f{number}": f"gemeinsam nummer{number}" for number in range(12)})
    write(root / "s", **{f"g{number}": f"gemeinsam sonder{number}" for number in range(8)})
    assert cli("init", root, "--db", db).code == 0
    assert cli("refresh", "--db", db).code == 0
    write(root, f0="gemeinsam erneuert")
    (root / "s").chmod(0)
    refreshed = cli("refresh", "--json", "--db", db)
    assert refreshed.code == 5  # done in part
    told = refreshed.json
    assert (told["changed"], told["removed"]) == (1, 0)
    hits = cli("search", "gemeinsam", "-n", "100", "--json", "--db", db).json["hits"]
    assert len(hits) == 20
    assert [(r["document_id"], r["is_kept"]) for r in told["refused"]] == [("s/", True)]
    found_new = cli("search", "erneuert", "--json", "--db", db).json["hits"]
    assert [hit["document_id"] for hit in found_new] == ["f0.md"]
    # Each of the eight is told to be kept and unreachable.
    for number in range(8):
        status = cli("status", root / "s" / f"g{number}.md", "--json", "--db", db)
        (file,) = status.json["files"]
        (source,) = file["sources"]
        assert source["is_indexed"]
        assert source["refusal"]["reason"] == "unreadable"
    (root / "s").chmod(0o755)
    back = cli("refresh", "--json", "--db", db).json
    assert (back["changed"], back["added"], back["removed"]) == (0, 0, 0)
    assert back["refused"] == []


@pytest.mark.req("A-2", "A-14")
def test_d08_what_is_no_readable_file_is_told_and_nothing_waits(place: Path, cli: Cli) -> None:
    root, db = place / "r", place / "i.db"
    root.mkdir()
    write(root, gut="Anlage läuft", leer="", zu="geheim", weg="flüchtig")
    (root / "kaputt.md").symlink_to("fehlt.md")
    os.mkfifo(root / "rohr.md")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(root / "buchse.md"))
    (root / "ordner.md").mkdir()
    (root / "zu.md").chmod(0)
    assert cli("init", root, "--db", db).code == 0
    started = time.monotonic()
    # A hook on opening deletes weg.md between listing and reading.
    hook = (
        "import os, sys, sqlindex.sources.filesystem as f\n"
        "read = f.FolderSource.read\n"
        "def deleting(self, ref):\n"
        "    if ref.document_id == 'weg.md': os.unlink(os.path.join(self.root, 'weg.md'))\n"
        "    return read(self, ref)\n"
        "f.FolderSource.read = deleting\n"
        "from sqlindex.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    done = subprocess.run(
        [*without_privilege(), sys.executable, "-c", hook, "refresh", "--json", "--db", str(db)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    listener.close()
    assert time.monotonic() - started < 60
    assert done.returncode == 5, done.stderr  # zu.md could not be read
    told = json.loads(done.stdout)
    assert told["added"] == 2  # gut.md, and leer.md without chunks
    reasons = {refusal["document_id"]: refusal["reason"] for refusal in told["refused"]}
    assert reasons == {
        "kaputt.md": "symlink",
        "rohr.md": "not_a_file",
        "buchse.md": "not_a_file",
        "zu.md": "unreadable",
        "weg.md": "vanished",
    }
    hits = cli("search", "Anlage", "--json", "--db", db).json["hits"]
    assert [hit["document_id"] for hit in hits] == ["gut.md"]
    with Index.open(db) as index:
        assert all(refused.refusal.detail for refused in index.refused())
        (root / "weg.md").write_text("")  # as it was when it was listed
        assert_all_told(index, root)


@pytest.mark.req("A-5")
def test_d09_three_spellings_are_three_documents(place: Path, cli: Cli) -> None:
    root, db = place / "r", place / "i.db"
    root.mkdir()
    names = {
        "eins": "\u00dcbung.md".encode(),
        "zwei": "U\u0308bung.md".encode(),
        "drei": b"caf\xe9.md",
    }
    for word, name in names.items():
        path = os.path.join(os.fsencode(root), name)
        try:
            with open(path, "wb") as file:
                file.write(word.encode())
        except OSError:
            pytest.skip("this file system takes no such names")
        os.chmod(path, 0o644)
    if len(os.listdir(root)) < 3:
        pytest.skip("this file system takes two spellings for one name")
    assert cli("init", root, "--db", db).code == 0
    assert cli("refresh", "--db", db).code == 0
    ids = set()
    for word, name in names.items():
        done = cli("search", word, "--json", "--db", db)
        (hit,) = done.json["hits"]
        assert path_of(hit["path"]) == name
        ids.add(hit["document_id"])
    assert len(ids) == 3
    filtered = cli("search", "eins zwei drei", "--glob", "Übung*", "--json", "--db", db)
    assert len(filtered.json["hits"]) == 2
    again = cli("refresh", "--json", "--db", db).json
    assert (again["unchanged"], again["documents"]) == (3, [])


@pytest.mark.req("A-2", "A-14")
def test_d10_an_edit_within_the_same_instant_is_seen(index: Index, folder: Path) -> None:
    file = folder / "a.md"
    index.add_source(folder)
    words = [f"w{number:05}" for number in range(200)]
    file.write_text(f"wort {words[0]}")
    index.refresh()
    for old, new in pairwise(words):
        file.write_text(f"wort {new}")
        index.refresh()
        assert found(index, new) == {"a.md"}
        assert found(index, old) == set()


@pytest.mark.req("A-2", "A-14")
def test_d10_an_edit_with_a_restored_time_is_seen(index: Index, folder: Path) -> None:
    file = folder / "a.md"
    file.write_text("wort alpha")
    old = time.time_ns() - 10_000_000_000
    os.utime(file, ns=(old, old))
    index.add_source(folder)
    index.refresh()
    # Past the time in which a file counts as too young to be known by its stat.
    time.sleep(2.1)
    index.refresh()
    before = file.stat()
    file.write_text("wort omega")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert file.stat().st_size == before.st_size
    index.refresh()
    assert found(index, "omega") == {"a.md"}
    assert found(index, "alpha") == set()


@pytest.mark.req("A-5", "A-16")
def test_d11_a_moved_folder_keeps_its_documents_and_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "r" / "tief").mkdir(parents=True)
    write(old / "r", a="Pumpe", b="Ventil")
    write(old / "r" / "tief", c="Dichtung der Pumpe")
    monkeypatch.chdir(old)
    embedder = HashingEmbedder()
    with Index.open(old / "r.db", create=True, embedder=embedder) as index:
        index.add_source("r")
        assert index.refresh().embedded == 3
        before = [hit.path for hit in index.search("Pumpe").hits]
        assert set(before) == {"a.md", "b.md", "tief/c.md"}
    monkeypatch.chdir(tmp_path)
    old.rename(new)
    with Index.open(new / "r.db", embedder=embedder) as index:
        assert [hit.path for hit in index.search("Pumpe").hits] == before
        index.move_source("r", new / "r")
        report = index.refresh()
        assert (report.embedded, list(report.changes.documents)) == (0, [])
        assert report.changes.unchanged == 3
        assert not report.is_published
        assert [hit.path for hit in index.search("Pumpe").hits] == before
        assert (index.search("Ventil").hits[0].uri or "").endswith("/new/r/b.md")
        assert index.check() == []


@pytest.mark.req("A-5")
def test_d11_all_spellings_of_a_root_are_one_source(
    index: Index, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, a="Pumpe")
    link = tmp_path / "link"
    link.symlink_to(folder)
    monkeypatch.chdir(folder.parent)
    index.add_source(folder)
    for spelling in (link, f"./{folder.name}", f"{folder.name}/", f"{folder}/", f"{folder}/."):
        with pytest.raises(DuplicateError):
            index.add_source(spelling)
        # Parts are named by any spelling too.
        report = index.refresh(paths=[spelling])
        assert report.changes.unchanged + report.changes.count("added") == 1
    assert len(index.status().sources) == 1
    shutil.rmtree(folder)
    folder.mkdir()
    assert index.refresh(paths=[link]).changes.count("removed") == 1
