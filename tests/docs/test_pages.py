"""Links in the documentation resolve, and its pages name nothing of one machine only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlindex.chunking.embedding_text import EMBEDDING_INPUT_VERSION
from sqlindex.store.header import SCHEMA_VERSION

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in (REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md"))
)

_FENCED = re.compile(r"^(`{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?)\s*$", re.MULTILINE)
_MACHINE_PATH = re.compile(r"(?<![\w.~…/])/(?:root|home|work|tmp|Users)\b")


def links(text: str) -> Iterator[str]:
    """Targets of the relative links of a page, code left out."""
    prose = _CODE.sub("", _FENCED.sub("", text))
    for found in _LINK.finditer(prose):
        if "://" not in found["target"]:
            yield found["target"]


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings get: lower case, punctuation gone, hyphens for spaces."""
    found = set()
    for heading in _HEADING.finditer(_FENCED.sub("", text)):
        kept = re.sub(r"[^\w\- ]", "", heading["text"].lower())
        found.add(kept.replace(" ", "-"))
    return found


def is_resolved(page: Path, target: str) -> bool:
    """Whether a relative link leads to a file or folder, and to a heading if it names one."""
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    if not anchor:
        return there.exists()
    return there.is_file() and anchor in anchors(there.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_resolve(page: str) -> None:
    file = REPOSITORY / page
    text = file.read_text(encoding="utf-8")
    assert [target for target in links(text) if not is_resolved(file, target)] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_no_path_of_one_machine(page: str) -> None:
    assert _MACHINE_PATH.findall((REPOSITORY / page).read_text(encoding="utf-8")) == []


def test_every_page_is_reachable_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [REPOSITORY / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        for target in links(page.read_text(encoding="utf-8")):
            waiting.append((page.parent / target.partition("#")[0]).resolve())
    unreached = {REPOSITORY / page for page in PAGES if page.startswith("docs/")} - seen
    assert sorted(path.name for path in unreached) == []


@pytest.mark.req("D-6")
def test_the_file_format_page_names_the_present_versions() -> None:
    page = (REPOSITORY / "docs" / "reference" / "file-format.md").read_text(encoding="utf-8")
    assert f"`sqlindex embedding input {EMBEDDING_INPUT_VERSION}`" in page
    assert f"number of the last migration applied, now {SCHEMA_VERSION};" in page


def test_links_and_anchors_are_found() -> None:
    page = "# One SQLite library\n\n[a](b.md#c) `[no](x)`\n\n```text\n[no](y)\n# no\n```\n[d](#e)"
    assert list(links(page)) == ["b.md#c", "#e"]
    assert anchors(page) == {"one-sqlite-library"}
