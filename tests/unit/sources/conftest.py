"""Real folders to list: made under names and rights that pytest's own folders do not have."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

NOBODY = 65_534


@pytest.fixture
def root() -> Iterator[Path]:
    """An empty folder in canonical spelling that every user may enter."""
    with made_folder(None) as folder:
        yield folder


@pytest.fixture
def root_in_memory() -> Iterator[Path]:
    """As `root`, for thousands of folders, which a disk takes long to remove again."""
    with made_folder("/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield folder


@contextmanager
def made_folder(parent: str | None) -> Iterator[Path]:
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="sqlindex-", dir=parent)))
    folder.chmod(0o755)
    yield folder
    # Not shutil.rmtree: it recurses, and some trees here are 2,000 levels deep.
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.fixture
def as_ordinary_user() -> Callable[[], AbstractContextManager[None]]:
    """A context in which permissions count: root, whom no mode stops, becomes nobody."""

    @contextmanager
    def context() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        groups = os.getgroups()
        os.setgroups([])
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)

    return context


@pytest.fixture
def git() -> str:
    """Path of the real git, the judge of what `.gitignore` files mean."""
    found = shutil.which("git")
    if found is None:
        pytest.skip("git is not installed")
    return found
