"""What an evaluation writes is no file that it reads, and a failed write leaves the old file."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from sqlindex.errors import StorageError, UsageError
from sqlindex.evaluation.configurations import DEFAULT_CONFIGURATION, parse_configuration
from sqlindex.evaluation.outputs import index_files, require_apart, saved_files, write_text

pytestmark = pytest.mark.req("A-32")


def test_an_output_is_no_input_under_any_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    os.link(tmp_path / "a", tmp_path / "hard")
    (tmp_path / "soft").symlink_to("a")
    for name in ("a", "hard", "soft", "../" + tmp_path.name + "/a"):
        with pytest.raises(UsageError, match=r"--html would write over .* the file of --qrels"):
            require_apart([("--html", tmp_path / name)], [("the file of --qrels", tmp_path / "a")])
    require_apart([("--html", tmp_path / "b")], [("the file of --qrels", tmp_path / "a")])


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    (tmp_path / "soft").symlink_to("new")
    with pytest.raises(UsageError, match="--html and --markdown would both write"):
        require_apart([("--html", tmp_path / "soft"), ("--markdown", tmp_path / "new")], [])


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-lock"])
def test_files_beside_an_index_are_those_of_where_it_is(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "link.db").symlink_to("i.db")
    with pytest.raises(UsageError, match="index"):
        require_apart([("--html", tmp_path / f"i.db{suffix}")], index_files(tmp_path / "link.db"))


def test_saved_files_are_named_as_their_runs(tmp_path: Path) -> None:
    small = parse_configuration("small=min_chars=10")
    plain = saved_files(tmp_path, [DEFAULT_CONFIGURATION], ["lexical"], "chunk")
    assert plain == [tmp_path, tmp_path / "qrels.txt", tmp_path / "lexical.run"]
    named = saved_files(tmp_path, [small], ["lexical"], "chunk")
    assert named == [tmp_path, tmp_path / "small-qrels.txt", tmp_path / "small-lexical.run"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "r.md").write_text("old")
    if os.path.exists("/dev/full"):
        (tmp_path / "full").symlink_to("/dev/full")
        with pytest.raises(StorageError, match="No space left"):
            write_text(tmp_path / "full", "new")
        (tmp_path / "full").unlink()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(StorageError, match="too large"):
            write_text(tmp_path / "r.md", "new" * 99_999)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("r.md", "old")]


def test_bytes_of_a_path_that_are_no_text_are_written_as_escapes(tmp_path: Path) -> None:
    write_text(tmp_path / "r.md", f"of {os.fsdecode(bytes([0xC3, 0xA9, 0xFF]))}\n")
    assert (tmp_path / "r.md").read_text(encoding="utf-8") == "of \u00e9\\udcff\n"


def test_a_written_file_keeps_its_link_and_its_mode(tmp_path: Path) -> None:
    (tmp_path / "r.md").write_text("old")
    (tmp_path / "r.md").chmod(0o640)
    (tmp_path / "link").symlink_to("r.md")
    write_text(tmp_path / "link", "new\n")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "r.md").read_bytes() == b"new\n"
    assert (tmp_path / "r.md").stat().st_mode & 0o777 == 0o640
