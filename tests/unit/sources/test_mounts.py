"""Mounts: which file system a path is on, and what a listing makes of one that comes or goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sqlindex.errors import SourceError
from sqlindex.mounts import (
    filesystem_of,
    is_network,
    mounts_below,
    parse_mounts,
    read_mounts,
)
from sqlindex.sources.filesystem import FolderSource

TABLE = rb"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:20 / /proc rw - proc proc rw
30 21 0:30 / /home rw shared:2 master:7 - nfs4 server:/home rw,vers=4.2
31 30 0:31 / /home/a\040b\134 rw - tmpfs tmpfs rw
32 21 0:32 / /mnt rw - autofs systemd-1 rw
33 32 0:33 / /mnt rw - fuse.sshfs user@host: rw
40 21 0:40 / /data/x rw - cifs //server/x rw
41 21 0:41 / /data rw - xfs /dev/sdb rw
42 21 0:42 / /homework rw - btrfs /dev/sdc rw
not a line of the table
"""

Listing = tuple[dict[str, str | None], list[str], bool, str | None]


@pytest.mark.req("A-2")
@pytest.mark.parametrize(
    ("path", "type_name"),
    [
        ("/", "ext4"),
        ("/etc", "ext4"),
        ("/home", "nfs4"),
        ("/home/x/y", "nfs4"),
        ("/homework/x", "btrfs"),
        ("/homes", "ext4"),
        ("/home/a b\\/c", "tmpfs"),
        ("/home/a b", "nfs4"),
        ("/mnt", "fuse.sshfs"),  # stacked: the last one hides the first
        ("/data", "xfs"),
        ("/data/x", "xfs"),  # mounted first, hidden since by what was mounted above it
    ],
)
def test_a_path_is_on_the_file_system_that_the_kernel_leads_to(path: str, type_name: str) -> None:
    assert filesystem_of(path, parse_mounts(TABLE)) == type_name


@pytest.mark.req("A-2")
def test_a_table_that_does_not_show_the_root_still_tells_what_is_mounted_below() -> None:
    table = b"50 7 0:30 / /srv rw - nfs server:/srv rw\n51 50 0:9 / /srv/t rw - tmpfs t rw\n"
    mounts = tuple(parse_mounts(table))
    assert [filesystem_of(path, mounts) for path in ("/", "/srv/a", "/srv/t")] == [
        None,
        "nfs",
        "tmpfs",
    ]
    assert filesystem_of("/", parse_mounts(b"1 1 0:1 / / rw - rootfs rootfs rw\n")) == "rootfs"
    assert filesystem_of("/a", ()) is None


@pytest.mark.req("A-2")
def test_network_file_systems_are_told_from_those_of_this_machine() -> None:
    network = [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "ncpfs",
        "ceph",
        "glusterfs",
        "lustre",
    ]
    network += ["fuse.sshfs", "fuse.rclone", "fuse.davfs", "fuse.glusterfs", "davfs", "beegfs"]
    assert [name for name in network if not is_network(name)] == []
    local = [
        "ext4",
        "btrfs",
        "xfs",
        "tmpfs",
        "overlay",
        "9p",
        "virtiofs",
        "fuseblk",
        "fuse.ntfs-3g",
    ]
    assert [name for name in (*local, "vfat", "fuse", None) if is_network(name)] == []


@pytest.mark.req("A-2")
def test_mounts_below_a_folder_are_those_inside_it() -> None:
    mounts = tuple(parse_mounts(TABLE))
    assert [mount.point for mount in mounts_below("/home", mounts)] == [b"/home/a b\\"]
    assert len(list(mounts_below("/", mounts))) == len(mounts) - 1


@pytest.mark.req("A-2")
@pytest.mark.parametrize(
    ("at", "type_name", "trusted", "trusted_on_one"),
    [
        ("", "nfs4", False, False),
        ("", "9p", True, True),
        ("/sub", "fuse.sshfs", False, True),
        ("/sub", "tmpfs", True, True),
        ("-other", "nfs4", True, True),
    ],
)
def test_a_stat_from_a_network_file_system_is_not_trusted(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: str,
    type_name: str,
    trusted: bool,
    trusted_on_one: bool,
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        f"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:9 / {root}{at} rw - {type_name} x rw\n"
    )
    monkeypatch.setattr("sqlindex.mounts.MOUNT_TABLE", str(table))
    source = FolderSource("s", str(root))
    assert source.filesystem == ("ext4" if at else type_name)
    assert source.trusts_stat is trusted
    assert FolderSource("s", str(root), one_file_system=True).trusts_stat is trusted_on_one


@pytest.mark.req("A-2")
def test_a_system_without_a_table_of_mounts_is_trusted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlindex.mounts.MOUNT_TABLE", str(root / "fehlt"))
    assert read_mounts() == ()
    source = FolderSource("s", str(root))
    assert source.filesystem is None
    assert source.trusts_stat


# Real mounts, in a mount namespace of their own.

LIST = """
import json, sys
from sqlindex.errors import SourceError
from sqlindex.sources.filesystem import FolderSource

root, options, part = json.loads(sys.argv[1])
source = FolderSource("s", root, **options)
try:
    found = source.list() if part is None else source.list_under(part)
    listed = {f.document_id: getattr(f, "reason", None) for f in found}
except SourceError as error:
    print(json.dumps(["error", str(error), error.hint]))
else:
    print(json.dumps([listed, source.mount_points, source.trusts_stat, source.filesystem]))
"""
ListMounted = Callable[..., Listing]


@pytest.fixture
def list_mounted(root: Path) -> ListMounted:
    """Runs shell commands in the root, then lists it: entries, mount points, trust, type."""

    def run(
        commands: Sequence[str], *, below: str = "", part: str | None = None, **options: object
    ) -> Listing:
        unshare = shutil.which("unshare")
        if unshare is None:
            pytest.skip("unshare is not installed")
        script = " && ".join([*commands, 'exec "$0" -c "$1" "$2"'])
        argument = json.dumps([str(root / below), options, part])
        done = subprocess.run(
            [unshare, "-m", "sh", "-c", script, sys.executable, LIST, argument],
            cwd=root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        if "unshare failed" in done.stderr or "permission denied" in done.stderr.lower():
            pytest.skip("no mount namespaces here")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        if answer[0] == "error":
            raise SourceError(answer[1], hint=answer[2])
        return tuple(answer)

    return run


@pytest.mark.req("A-2")
@pytest.mark.needs_root
def test_a_listing_names_the_mount_points_it_met(root: Path, list_mounted: ListMounted) -> None:
    commands = ["mkdir -p a/m b", "mount -t tmpfs none a/m", "touch a/m/x.md b/y.md"]
    entries, mounts, trusted, _ = list_mounted(commands)
    assert entries == {"a/m/x.md": None, "b/y.md": None}
    assert mounts == ["a/m"]
    assert trusted


@pytest.mark.req("A-2")
@pytest.mark.needs_root
def test_a_listing_of_a_part_remembers_the_mount_points_it_met(
    root: Path, list_mounted: ListMounted
) -> None:
    (root / "a" / "m").mkdir(parents=True)
    commands = ["mount -t tmpfs none a/m", "echo x > a/m/x.md"]
    listed, mount_points, *_ = list_mounted(commands, part="a/m", known_mounts=["b"])
    assert list(listed) == ["a/m/x.md"]
    assert mount_points == ["a/m", "b"]


@pytest.mark.req("A-2")
@pytest.mark.needs_root
def test_a_root_that_is_a_mount_point_is_one(root: Path, list_mounted: ListMounted) -> None:
    entries, mounts, _, filesystem = list_mounted(
        ["mkdir r", "mount -t tmpfs none r", "touch r/x.md"], below="r", known_mounts=[""]
    )
    assert (entries, mounts, filesystem) == ({"x.md": None}, [""], "tmpfs")


@pytest.mark.req("A-2", "A-14")
@pytest.mark.parametrize("part", [None, "a.md", "sub/a.md"])
def test_a_root_that_is_no_longer_mounted_is_an_error(root: Path, part: str | None) -> None:
    source = FolderSource("s", str(root), known_mounts=[""])
    with pytest.raises(SourceError, match="nothing is mounted there now") as error:
        list(source.list() if part is None else source.list_under(part))
    assert str(root) in str(error.value)
    assert "mount it" in error.value.hint


@pytest.mark.req("A-2", "A-14")
def test_an_empty_root_that_was_no_mount_point_lists_nothing(root: Path) -> None:
    source = FolderSource("s", str(root))
    assert list(source.list()) == []
    assert source.mount_points == ()


@pytest.mark.req("A-2", "A-14")
@pytest.mark.parametrize("part", [None, "a/m", "a/m/x.md", "a/m/deep/x.md"])
def test_a_sub_folder_that_is_no_longer_mounted_keeps_what_is_below_it(
    root: Path, part: str | None
) -> None:
    (root / "a/m").mkdir(parents=True)
    source = FolderSource("s", str(root), known_mounts=["a/m", "a/m/n", "a/gone"])
    (refusal,) = source.list() if part is None else source.list_under(part)
    assert refusal.document_id == "a/m/"
    assert getattr(refusal, "reason", None) == "unreadable"
    assert "nothing is mounted here now" in getattr(refusal, "detail", "")
    if part is None:
        # Known on: the next listing must not take the empty folder for one that was emptied.
        assert source.mount_points == ("a/m", "a/m/n")


@pytest.mark.req("A-2")
def test_a_known_mount_point_that_holds_files_now_is_a_folder_like_any_other(root: Path) -> None:
    (root / "m").mkdir()
    (root / "m/x.md").touch()
    source = FolderSource("s", str(root), known_mounts=["m", ""])
    assert [found.document_id for found in source.list()] == ["m/x.md"]
    assert source.mount_points == ()


@pytest.mark.req("A-2")
@pytest.mark.needs_root
def test_a_mounted_file_system_may_be_empty(root: Path, list_mounted: ListMounted) -> None:
    entries, mounts, _, _ = list_mounted(["mkdir m", "mount -t tmpfs none m"], known_mounts=["m"])
    assert (entries, mounts) == ({}, ["m"])


@pytest.mark.req("A-2")
@pytest.mark.needs_root
@pytest.mark.parametrize("part", [None, "m", "m/deep/x.md"])
def test_a_source_may_stay_on_one_file_system(
    root: Path, list_mounted: ListMounted, part: str | None
) -> None:
    entries, mounts, _, _ = list_mounted(
        ["mkdir m", "mount -t tmpfs none m", "mkdir m/deep", "touch m/deep/x.md"],
        part=part,
        one_file_system=True,
    )
    assert (entries, mounts) == ({"m/": "other_filesystem"}, [])


@pytest.mark.req("A-2")
@pytest.mark.needs_root
@pytest.mark.parametrize("part", [None, "a/b/loop", "a/b/loop/b/c.md"])
def test_a_bind_mount_of_a_folder_above_is_not_entered_again(
    root: Path, list_mounted: ListMounted, part: str | None
) -> None:
    commands = ["mkdir -p a/b/loop", "touch a/b/c.md", "mount --bind a a/b/loop"]
    entries, mounts, _, _ = list_mounted(commands, part=part)
    expected = {"a/b/loop/": "loop"}
    assert entries == (expected if part else {"a/b/c.md": None} | expected)
    assert mounts == []


@pytest.mark.req("A-2")
@pytest.mark.needs_root
def test_a_root_bound_into_itself_is_not_entered_again(
    root: Path, list_mounted: ListMounted
) -> None:
    entries, _, _, _ = list_mounted(["mkdir a", "touch a/x.md b.md", "mount --bind . a"])
    assert entries == {"b.md": None, "a/": "loop"}


@pytest.mark.req("A-2")
@pytest.mark.needs_root
def test_a_folder_bound_to_a_second_place_is_listed_in_both(
    root: Path, list_mounted: ListMounted
) -> None:
    entries, _, _, _ = list_mounted(["mkdir a b", "touch a/x.md", "mount --bind a b"])
    assert entries == {"a/x.md": None, "b/x.md": None}
