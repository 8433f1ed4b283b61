"""The report is one file that needs nothing else, and shows what it was given."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from slotreeve_spark.report import charts
from slotreeve_spark.report.numbers import number
from slotreeve_spark.report.page import Page
from slotreeve_spark.report.terminal import fitted, side_by_side

XLINK = 'xmlns:xlink="http://www.w3.org/1999/xlink'


def test_a_page_needs_nothing_from_elsewhere_and_escapes_what_it_is_given() -> None:
    page = Page("<title> & more")
    page.heading("a < b")
    page.table([{"name": "<script>", "verdict": "best", "figure": 1234, "mean": 0.123456, "none": None}])
    page.figure("plot", charts.bars([charts.Bar("<x>", 1.0, 0.5, 1.5)], "ms"))
    text = page.as_html()
    assert "<script>" not in text
    assert "src=" not in text
    assert set(re.findall(r"\S*http[^\"]*", text)) == {'xmlns="http://www.w3.org/2000/svg', XLINK}
    assert set(re.findall(r'href="(.)', text)) <= {"#"}
    assert "1,234" in text
    assert "0.123" in text
    assert '<tr class="best">' in text


@pytest.mark.parametrize("points", [[(0.0, 0.0), (1.0, 5.0)], [(3.0, 2.0)], [(5.0, 0.0), (5.0, 0.0)]])
@pytest.mark.parametrize("steps", [False, True])
def test_lines_are_well_formed_and_named(points: list[tuple[float, float]], steps: bool) -> None:
    svg = charts.lines([charts.Series("a & b", points)], "x", "y", steps)
    assert {"a & b", "x", "y"} <= texts_of(svg)
    assert charts.INK not in svg


def test_nothing_is_plotted_where_there_is_nothing() -> None:
    assert charts.lines([], "x", "y") == ""
    assert charts.lines([charts.Series("a", [])], "x", "y") == ""
    assert charts.bars([], "x") == ""


@pytest.mark.parametrize("mean", [0.0, 3.0, -3.0])
def test_bars_have_their_figures_whatever_their_sign(mean: float) -> None:
    texts = texts_of(charts.bars([charts.Bar("a", mean, mean - 1, mean + 1), charts.Bar("b", 0.0, 0.0, 0.0)], "x"))
    assert {"a", "b", number(mean)} <= texts
    assert not any("axis ends" in text for text in texts)


def test_a_bar_far_beyond_the_others_ends_with_the_axis_which_says_so() -> None:
    bars = [charts.Bar("a", 10, 9, 11), charts.Bar("b", 12, 10, 15), charts.Bar("c", 54_321, 50_000, 60_000)]
    texts = texts_of(charts.bars(bars, "moves"))
    assert "the axis ends before c (54,321)" in texts
    assert "54,321 \N{RIGHTWARDS ARROW}" in texts
    ticks = {text for text in texts if text.isdigit()}
    assert max(map(int, ticks)) < 20


def test_a_line_far_beyond_the_others_has_axes_of_its_own() -> None:
    near = [charts.Series(name, [(900.0, 1.0), (1_100.0, shift)]) for name, shift in (("a", 90.0), ("b", 95.0))]
    far = charts.Series("c", [(0.0, 250.0), (250_000.0, 1.0)])
    alone, together = charts.lines(near, "x", "y"), charts.lines([*near, far], "x", "y")
    own = "far beyond the others, on axes of its own"
    assert own not in texts_of(alone)
    assert {own, "a", "b", "c", "250,000"} <= texts_of(together)
    assert height_of(together) == pytest.approx(2 * height_of(alone))


def test_the_same_figures_give_the_same_plot() -> None:
    bars = [charts.Bar("a", 10, 9, 11), charts.Bar("b", 12, 10, 15)]
    assert charts.bars(bars, "moves") == charts.bars(bars, "moves")


def texts_of(svg: str) -> set[str]:
    return {
        "".join(each.itertext()).strip() for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")
    }


def height_of(svg: str) -> float:
    return float(ElementTree.fromstring(svg).attrib["height"].removesuffix("pt"))


def test_competitors_stand_side_by_side_with_the_best_named() -> None:
    figures = {"mean": 2.0, "low": 1.0, "high": 3.0, "setting": "small", "criterion": "leader_moves"}
    rows = [
        {**figures, "competitor": "b", "verdict": "within noise"},
        {**figures, "competitor": "a", "verdict": "best"},
    ]
    assert list(side_by_side(rows)) == [
        ("small", [{"criterion": "leader moves", "a": "2 (1 to 3)", "b": "2 (1 to 3)", "best": "a (noise: b)"}])
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.0123456, "0.0123"), (12345.6, "12,346"), (1.5e9, "1.5e+09"), (float("nan"), "-")]
)
def test_figures_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_what_does_not_count_is_said_beside_the_best() -> None:
    figures = {"mean": 2.0, "low": 2.0, "high": 2.0, "setting": "small", "criterion": "moves", "competitor": "idle"}
    assert list(side_by_side([{**figures, "verdict": "not counted"}])) == [
        ("small", [{"criterion": "moves", "idle": "2", "best": "- (not counted: idle)"}])
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("columns", [1, 4, 12])
def test_tables_are_no_wider_than_the_screen_and_break_no_word_of_a_header(width: int, columns: int) -> None:
    rows: list[dict[str, object]] = [
        {
            "criterion": "a",
            **{f"competitor_{n} + default": f"{n}.5 (1 to 3)" for n in range(columns)},
            "why": "x " * 90,
        },
        {"criterion": "b", **{f"competitor_{n} + default": None for n in range(columns)}, "why": "long" * 50},
    ]
    lines = fitted(rows, width)
    assert max(map(len, lines)) <= width
    words = {word for line in lines for word in line.split()}
    assert {"criterion", "why", *(f"competitor_{n}" for n in range(columns))} <= words
    assert fitted([], width) == []
