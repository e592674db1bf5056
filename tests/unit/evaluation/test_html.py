"""The HTML report says what the report says, and is made of its own parts alone."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from sqlindex.evaluation.html import render_html
from sqlindex.evaluation.report import EvalReport
from tests.unit.evaluation.sample_report import MEASURES, sample_report

pytestmark = pytest.mark.req("A-32")

TAGS = frozenset(
    re.findall(
        r"\w+",
        """
html head meta title style body main h1 h2 h3 section p dl dt dd bdi div table thead tbody tr th td small
figure svg desc text g rect path circle details summary script
""",
    )
)


class _Reader(HTMLParser):
    """Collects tags, attributes, the rows of tables and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.rows: list[list[str]] = []
        self.text: list[str] = []
        self._is_in_cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._is_in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._is_in_cell = False

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self._is_in_cell:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def report() -> EvalReport:
    return sample_report()


@pytest.fixture(scope="module")
def page(report: EvalReport) -> str:
    return render_html(report)


@pytest.fixture(scope="module")
def read(page: str) -> _Reader:
    return _Reader(page)


def test_only_its_own_tags_are_on_the_page(read: _Reader) -> None:
    assert read.tags <= TAGS
    names = {name for name, _ in read.attributes}
    assert not {name for name in names if name.startswith("on")} | names & {"src", "href", "style"}


def test_the_policy_allows_exactly_the_style_and_the_script_of_the_page(page: str) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = b64encode(sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_every_run_stands_with_its_means_and_bounds(report: EvalReport, read: _Reader) -> None:
    for run in report.runs:
        row = next(row for row in read.rows if row[0] == run.name)
        assert row[1].startswith(f"{run.mean['nDCG@10']:.3f}")
        assert f"{run.bounds['nDCG@10'].low:.3f} … {run.bounds['nDCG@10'].high:.3f}" in row[1]
        assert row[len(MEASURES)] == "–"  # a measure that no query defines is not 0


def test_comparisons_tell_difference_bounds_and_p(report: EvalReport, read: _Reader) -> None:
    found = report.comparisons[2].differences[0]
    row = [found.measure, f"{found.difference.mean:+.3f}", f"{found.p:.4f}"]
    bounds = f" {found.difference.low:+.3f} … {found.difference.high:+.3f}"
    assert [row[0], row[1] + bounds, row[2]] in [line[:3] for line in read.rows]


def test_every_query_has_its_row_with_value_and_rank(report: EvalReport, read: _Reader) -> None:
    last = read.rows[-len(report.queries) :]
    assert [row[0] for row in last] == [query.id for query in report.queries]
    query_id = report.queries[12].id
    value = report.runs[1].by_query[query_id]["nDCG@10"]
    rank = report.runs[1].first_relevant[query_id]
    assert last[12][4] == f"{value:.3f} {'not found' if rank is None else f'rank {rank}'}"
    assert last[-1][3:] == ["–"] * 3


def test_the_greatest_losses_come_first(report: EvalReport, read: _Reader) -> None:
    worst = report.comparisons[0].deltas[0]
    losses = [row for row in read.rows if row[:1] == [worst.query_id]]
    assert any(row[1] == f"{worst.difference:+.3f}" for row in losses)
    assert "Greatest losses" in read.text


def test_hashes_versions_and_settings_are_told(read: _Reader) -> None:
    text = " ".join(read.text)
    for expected in (
        "a" * 64, "b" * 64, "c" * 64, "python 3.11.7", "max_chunk_chars = 1200", "generation 3",
        "1 documents refused", "4 texts cut", "3.2 s; 70 texts embedded, 2 chunks reused",
    ):  # fmt: skip
        assert expected in text


def test_no_character_is_on_the_page_that_html_forbids(page: str) -> None:
    page.encode()
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", page)


def variants(report: EvalReport) -> Iterator[EvalReport]:
    bare = tuple(
        replace(
            run, classes=(), no_answer=(), top_cosine={}, cosines={}, repeated=(), latency=None,
            mode=None, configuration=None,
        )
        for run in report.runs
    )  # fmt: skip
    saved = replace(
        report, runs=bare, indexes=(), corpus_sha256=None, depth=None, unknown_judged=None,
        query_embedding=None, comparisons=(),
    )  # fmt: skip
    yield saved
    yield replace(saved, runs=bare[:1])
    yield sample_report(1)
    nothing = replace(
        bare[0], mean=dict.fromkeys(MEASURES), bounds={}, by_query={}, first_relevant={}
    )
    yield replace(saved, runs=(nothing,), queries=(), answerable=0, no_answer=0)


def test_saved_runs_single_runs_and_no_queries_at_all_make_a_page(report: EvalReport) -> None:
    for variant in variants(report):
        read = _Reader(render_html(variant))
        assert read.tags <= TAGS
        assert ("Times" in read.text) == any(run.latency for run in variant.runs)
        assert ("Comparisons" in read.text) == bool(variant.comparisons)
        assert ("Every query" in read.text) == bool(variant.queries)
