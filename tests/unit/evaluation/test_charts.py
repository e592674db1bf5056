"""Charts are well-formed for any text, and draw what they are given."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlindex.evaluation.canvas import WIDTH, standalone
from sqlindex.evaluation.charts import (
    Bar,
    Group,
    Spread,
    bar_chart,
    spread_chart,
    waterfall,
)
from sqlindex.evaluation.lettering import fitting, text_width, wrapped
from tests.unit.evaluation.sample_report import HOSTILE

pytestmark = pytest.mark.req("A-32")

texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30))
numbers = st.floats(-1e6, 1e6)


def shown(value: float) -> str:
    return f"{value:.2f}"


def drawn(chart: str) -> ElementTree.Element:
    """The chart as XML; also as a file of its own."""
    assert ElementTree.fromstring(standalone(chart)).tag == "{http://www.w3.org/2000/svg}svg"
    return ElementTree.fromstring(chart)


def words(svg: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in svg.iter("text")]


def rects(svg: ElementTree.Element) -> list[tuple[float, float]]:
    """(left edge, width) of each bar."""
    return [(float(rect.attrib["x"]), float(rect.attrib["width"])) for rect in svg.iter("rect")]


def of_bars(*bars: Bar, top: float | None = None) -> ElementTree.Element:
    return drawn(bar_chart("c", "Title", "Told", [Group("", bars)], shown=shown, top=top))


def test_bars_are_as_long_as_their_values() -> None:
    found = rects(of_bars(Bar(label="a", value=0.25), Bar(label="b", value=0.75), top=1.0))
    assert found[1][1] == pytest.approx(3 * found[0][1], abs=0.2)
    assert found[0][0] == found[1][0]


def test_a_negative_bar_ends_where_a_positive_one_begins() -> None:
    (left, width), (start, length) = rects(
        of_bars(Bar(label="fell", value=-2.0), Bar(label="rose", value=2.0))
    )
    assert left + width == pytest.approx(start, abs=0.2)
    assert width == pytest.approx(length, abs=0.2)


def test_an_undefined_value_is_a_dash_without_a_bar() -> None:
    svg = of_bars(Bar(label="known", value=1.0), Bar(label="unknown", value=None))
    assert len(rects(svg)) == 1
    assert words(svg)[words(svg).index("unknown") + 1] == "–"


def test_a_bar_tells_its_bounds() -> None:
    svg = of_bars(Bar(label="a", value=0.5, low=0.25, high=0.625))
    assert "a: 0.50, bounds 0.25 to 0.62" in [title.text for title in svg.iter("title")]
    (whisker,) = (p.attrib["d"] for p in svg.iter("path") if p.attrib["class"] == "whisker")
    (left, width) = rects(svg)[0]
    ends = [float(x) for x in re.findall(r"[MH]([\d.]+)", whisker)]
    assert (ends[0] - left) / width == pytest.approx(0.5, abs=0.01)
    assert (ends[1] - left) / width == pytest.approx(1.25, abs=0.01)


def test_one_label_has_one_colour_in_every_group() -> None:
    groups = [
        Group("x", (Bar(label="a", value=1), Bar(label="b", value=1))),
        Group("y", (Bar(label="b", value=1), Bar(label="a", value=1))),
    ]
    svg = drawn(bar_chart("c", "Title", "Told", groups, shown=shown))
    assert [rect.attrib["class"] for rect in svg.iter("rect")] == ["c0", "c1", "c1", "c0"]


def test_values_below_the_axis_keep_apart() -> None:
    zero = of_bars(Bar(label="a", value=0.0))
    assert words(zero)[1:] == ["0", "a", "0.00"]
    huge = bar_chart(
        "c",
        "T",
        "T",
        [Group("", (Bar(label="x" * 99, value=2e9),))],
        shown=lambda v: f"{v:,.4f} answers/s",
    )
    texts = list(drawn(huge).iter("text"))
    assert [text.attrib["class"] for text in texts] == ["name", "soft middle", "", "value"]
    assert (texts[2].text or "").endswith("x…")
    assert rects(drawn(huge))[0][1] >= 80


def test_a_waterfall_counts_and_sorts_the_differences() -> None:
    svg = drawn(waterfall("w", "Title", "Told", [-0.5, 1.0, 0.0, 0.5, 0.0], shown=shown))
    assert "2 better · 2 equal · 1 worse" in words(svg)
    rose, fell = (p.attrib["d"] for p in svg.iter("path") if p.attrib["class"] != "grid")
    zero = re.findall(r"M[\d.]+ ([\d.]+)", rose)[0]
    heights = [float(zero) - float(y) for y in re.findall(r"V([\d.]+)", rose)]
    assert heights == pytest.approx([60.0, 30.0, 0.0, 0.0, 0.0, 0.0])
    depths = [float(y) - float(zero) for y in re.findall(r"V([\d.]+)", fell)]
    assert depths == pytest.approx([0.0, 0.0, 0.0, 0.0, 30.0, 0.0])


def test_a_spread_marks_its_ends_and_its_median() -> None:
    svg = drawn(spread_chart("s", "Title", "Told", [Spread("a", (0.1, 0.2, 0.7))], shown=shown))
    assert len(list(svg.iter("circle"))) == 3
    assert "a: lowest 0.10, median 0.20, highest 0.70" in [
        title.text for title in svg.iter("title")
    ]
    assert "0.20" in words(svg)


def test_a_chart_is_named_and_described() -> None:
    svg = drawn(bar_chart("quality", "Title", "What it tells", [], shown=shown))
    assert svg.attrib["role"] == "img"
    assert svg.attrib["aria-labelledby"] == "quality-title quality-desc"
    told = {part.attrib["id"]: part.text for part in svg if "id" in part.attrib}
    assert told == {"quality-title": "Title", "quality-desc": "What it tells"}


@given(
    title=texts,
    groups=st.lists(
        st.builds(
            Group,
            texts,
            st.lists(
                st.builds(Bar, label=texts, value=st.none() | numbers, low=numbers, high=numbers),
                max_size=3,
            ).map(tuple),
        ),
        max_size=3,
    ),
)
def test_any_text_and_number_makes_a_well_formed_chart(title: str, groups: list[Group]) -> None:
    svg = drawn(bar_chart("c", title, title, groups, shown=shown))
    assert {element.tag for element in svg.iter()} <= {
        "svg", "title", "desc", "text", "g", "rect", "path"
    }  # fmt: skip
    for at in [float(element.attrib["x"]) for element in svg.iter("text")]:
        assert 0 <= at <= WIDTH


@given(differences=st.lists(numbers, max_size=20), labels=st.lists(texts, max_size=3))
def test_waterfalls_and_spreads_are_well_formed_too(
    differences: list[float], labels: list[str]
) -> None:
    drawn(waterfall("w", "Title", "Told", differences, shown=shown))
    spreads = [Spread(label, tuple(differences) or (0.0,)) for label in labels]
    drawn(spread_chart("s", "Title", "Told", spreads, shown=shown))


@given(text=texts, width=st.floats(30, 400))
def test_fitting_text_fits(text: str, width: float) -> None:
    cut = fitting(text, width)
    assert text_width(cut) <= width + 1e-6
    whole = " ".join(text.split())
    assert cut == whole or (cut.endswith("…") and whole.startswith(cut[:-1]))
    assert all(text_width(line) <= width + 1e-6 for line in wrapped(text, width))
