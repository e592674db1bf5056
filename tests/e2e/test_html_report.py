"""The HTML report in a browser: it loads nothing, runs nothing foreign, and fits a narrow window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlindex.evaluation.html import render_html
from tests.browser import CHROMIUM, Page, open_page
from tests.unit.evaluation.sample_report import HOSTILE, sample_report

pytestmark = [
    pytest.mark.req("A-32"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.timeout(120),
]

REPOSITORY = Path(__file__).resolve().parents[2]
ORDER = (
    "[...document.querySelectorAll('table.sortable tbody tr')].map(row => row.cells[0].innerText)"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_html(sample_report()), encoding="utf-8")
    return path


def test_the_page_loads_nothing_and_complains_of_nothing(page: Page, report: Path) -> None:
    page.open(report)
    assert page.requested == [report.as_uri()]
    assert page.complaints == []
    assert page.value("document.styleSheets[0].cssRules.length") > 20  # its own style was let in


def test_text_of_queries_stays_text(page: Page, report: Path) -> None:
    page.open(report)
    assert page.value("document.title") == "Evaluation of made-up <collection>"
    assert page.value("document.scripts.length") == 1
    assert page.value("document.images.length") == 0
    assert page.value("document.styleSheets.length") == 1
    assert HOSTILE[0] in page.value("document.body.innerText")


def test_the_policy_stops_what_would_get_onto_the_page(page: Page, report: Path) -> None:
    page.open(report)
    page.value(
        "document.body.insertAdjacentHTML('beforeend',"
        ' \'<img src="https://example.org/x.png" onerror="document.title = 1">\')'
    )
    page.value(
        "{ const added = document.createElement('script');"
        " added.text = 'document.title = 2'; document.body.append(added) }"
    )
    assert page.value("document.title") == "Evaluation of made-up <collection>"
    assert any("Content Security Policy" in complaint for complaint in page.complaints)
    # Chromium announces a request, then blocks it; none is answered.
    assert not any(
        event["method"] == "Network.responseReceived" and "example.org" in str(event)
        for event in page.events
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_reaches_over_the_edge(page: Page, report: Path, width: int, scheme: str) -> None:
    page.show(width=width, scheme=scheme)
    page.open(report)
    assert page.value("innerWidth") == width
    root = "document.documentElement"
    assert page.value(f"{root}.scrollWidth <= {root}.clientWidth")
    dark = page.value("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    assert dark == (scheme == "dark")


@pytest.mark.parametrize("width", [400, 1280])
def test_letters_of_charts_are_legible_and_do_not_overlap(
    page: Page, report: Path, width: int
) -> None:
    page.show(width=width)
    page.open(report)
    assert page.value("document.querySelectorAll('svg text').length") > 100
    assert page.value(_SMALLEST) >= 10
    assert page.value(_OVERLAPPING) == []


def test_nothing_overlaps_in_the_plots_of_the_benchmarks(page: Page) -> None:
    plots = sorted((REPOSITORY / "docs" / "reference" / "plots").glob("*.svg"))
    assert plots
    for plot in plots:
        page.open(plot)
        assert page.requested == [plot.as_uri()]
        assert page.complaints == []
        assert page.value(_OVERLAPPING) == [], plot.name


def test_the_table_of_queries_sorts_and_filters(page: Page, report: Path) -> None:
    page.open(report)
    before = page.value(ORDER)
    page.value("document.querySelector('table.sortable thead th:nth-child(4) button').click()")
    values = page.value(
        "[...document.querySelectorAll('table.sortable tbody tr')]"
        ".map(row => row.cells[3].dataset.order)"
    )
    known = [float(value) for value in values if value]
    assert known == sorted(known)
    assert values[len(known) :] == [""] * 6  # no-answer queries have no value and stay last
    assert sorted(page.value(ORDER)) == sorted(before) != page.value(ORDER)
    page.value(
        "{ const field = document.querySelector('input[type=search]'); field.value = 'KAPITÄN';"
        " field.dispatchEvent(new Event('input')) }"
    )
    visible = page.value(
        "[...document.querySelectorAll('table.sortable tbody tr')].filter(row => !row.hidden).length"
    )
    assert visible == 1
    assert page.value("document.querySelector('output').textContent") == f"1 of {len(before)} rows"


_SMALLEST = """
Math.min(...[...document.querySelectorAll('svg')].map(
  chart => chart.getBoundingClientRect().width / chart.viewBox.baseVal.width * 12))
"""

_OVERLAPPING = """
[...document.querySelectorAll('svg')].flatMap(chart => {
  const edge = chart.getBoundingClientRect();
  const boxes = [...chart.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  return boxes.flatMap(([text, box], at) => [
    ...(box.left < edge.left || box.right > edge.right + 0.5 || box.bottom > edge.bottom + 0.5
      ? [text + ' is cut'] : []),
    ...boxes.slice(at + 1)
      .filter(([, other]) => box.left < other.right && other.left < box.right
        && box.top + 2 < other.bottom && other.top + 2 < box.bottom)
      .map(([other]) => text + ' over ' + other)]);
})
"""
