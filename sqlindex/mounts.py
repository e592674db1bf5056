"""Which file system a path is on, from the kernel's table of mounts; only Linux has one to read.

What depends on it: on a network file system a stat comes from a cache that may be seconds or
minutes old, so an unchanged stat is no sign that the bytes are unchanged; and where another kernel
serves the same files, locks and shared memory do not reach the programs there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MOUNT_TABLE = "/proc/self/mountinfo"

_NETWORK_TYPES = frozenset(
    (
        "afs",
        "afpfs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "davfs2",
        "glusterfs",
        "gpfs",
        "kafs",
        "lustre",
        "mfs",
        "ncp",
        "ncpfs",
        "nfs",
        "nfs4",
        "orangefs",
        "panfs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
        "wekafs",
        # in user space: `fuse.` and the program's name
        "blobfuse",
        "blobfuse2",
        "ceph-fuse",
        "curlftpfs",
        "gcsfuse",
        "goofys",
        "google-drive-ocamlfuse",
        "gvfsd-fuse",
        "juicefs",
        "kio-fuse",
        "mount-s3",
        "mountpoint-s3",
        "rclone",
        "s3fs",
        "s3ql",
        "seaweedfs",
        "smbnetfs",
        "sshfs",
    )
)
_HOST_TYPES = frozenset(
    (
        "9p",
        "drvfs",
        "fakeowner",
        "fuse.grpcfuse",
        "fuse.vmhgfs-fuse",
        "prl_fs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
    )
)
"""Folders that a virtual machine's or container's host lends, and uses itself as well."""

_ESCAPED = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    """One line of the table.

    Attributes:
        mount_id, parent_id: the mount that it is mounted on.
        point: absolute path where it is mounted.
        type_name: of the file system, `fuse.sshfs` where a program in user space serves it.
    """

    mount_id: int
    parent_id: int
    point: bytes
    type_name: str


def read_mounts() -> tuple[Mount, ...]:
    """The mounts that this process sees; none where the system has no such table."""
    try:
        with open(MOUNT_TABLE, "rb") as table:
            return tuple(parse_mounts(table.read()))
    except OSError:
        return ()


def parse_mounts(table: bytes) -> Iterator[Mount]:
    """The lines of a mount table that are in its format, see proc_pid_mountinfo(5)."""
    for line in table.split(b"\n"):
        before, separator, after = line.partition(b" - ")
        fields, kinds = before.split(b" "), after.split(b" ")
        if separator and len(fields) >= 6 and fields[0].isdigit() and fields[1].isdigit():
            point = _ESCAPED.sub(lambda match: bytes((int(match[1], 8) & 0xFF,)), fields[4])
            yield Mount(int(fields[0]), int(fields[1]), point, kinds[0].decode("ascii", "replace"))


def filesystem_of(path: str, mounts: Iterable[Mount]) -> str | None:
    """The type of the file system that a path is on, or None if the table does not say.

    The path is followed from `/` from mount to mount, as the kernel does it: of several mounts at
    one point the last hides the others, and one further up hides those that were below its point.

    Args:
        path: absolute, without links.
        mounts: from `read_mounts`.
    """
    by_place = {(mount.parent_id, mount.point): mount for mount in mounts}
    ids = {mount.mount_id for mount in by_place.values()}
    # What this process starts from is mounted on something that it does not see, or on itself.
    above: set[int] = {parent for parent, _ in by_place if parent not in ids}
    above |= {mount.mount_id for mount in by_place.values() if mount.mount_id == mount.parent_id}
    current: Mount | None = None
    place = b""
    for name in os.fsencode(path).rstrip(b"/").split(b"/"):
        place = place.rstrip(b"/") + b"/" + name
        on_top = _mounted(by_place, above, place)
        while on_top is not None and on_top is not current:
            current, above = on_top, {on_top.mount_id}
            on_top = _mounted(by_place, above, place)
    return current.type_name if current else None


def _mounted(
    by_place: dict[tuple[int, bytes], Mount], parents: Iterable[int], place: bytes
) -> Mount | None:
    return next((by_place[p, place] for p in parents if (p, place) in by_place), None)


def mounts_below(root: str, mounts: Iterable[Mount]) -> Iterator[Mount]:
    """The mounts whose point is inside a folder, also those that another one hides."""
    prefix = os.fsencode(root).rstrip(b"/") + b"/"
    return (mount for mount in mounts if mount.point != b"/" and mount.point.startswith(prefix))


def is_network(type_name: str | None) -> bool:
    """Whether file systems of this type are served by other machines; no for an unknown one.

    Shares of a virtual machine's own host (`9p`, `virtiofs`) are not counted.
    """
    return type_name is not None and type_name.removeprefix("fuse.") in _NETWORK_TYPES


def is_shared_with_other_kernels(type_name: str | None) -> bool:
    """Whether programs under another kernel may have the same files open; no for an unknown type.

    Network file systems, and the folders that a virtual machine's host lends to it.
    """
    return is_network(type_name) or type_name in _HOST_TYPES
