"""The report is one file that needs nothing else, and shows what it was given."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from slotreeve_spark.report import svg
from slotreeve_spark.report.page import Page
from slotreeve_spark.report.terminal import fitted, side_by_side


def test_a_page_needs_nothing_from_elsewhere_and_escapes_what_it_is_given() -> None:
    page = Page("<title> & more")
    page.heading("a < b")
    page.table([{"name": "<script>", "verdict": "best", "figure": 1234, "mean": 0.123456, "none": None}])
    page.figure("plot", svg.bars([svg.Bar("<x>", 1.0, 0.5, 1.5)], "ms"))
    text = page.as_html()
    assert "<script>" not in text
    assert "src=" not in text
    assert "http" not in text
    assert "1,234" in text
    assert "0.123" in text
    assert '<tr class="best">' in text


@pytest.mark.parametrize("points", [[(0.0, 0.0), (1.0, 5.0)], [(3.0, 2.0)], [(5.0, 0.0), (5.0, 0.0)]])
def test_plots_are_well_formed_and_stay_inside(points: list[tuple[float, float]]) -> None:
    for steps in (False, True):
        root = ElementTree.fromstring(svg.lines([svg.Series("a & b", points)], "x", "y", steps))
        assert root.get("viewBox") == f"0 0 {svg.WIDTH} {svg.HEIGHT}"


def test_nothing_is_plotted_where_there_is_nothing() -> None:
    assert svg.lines([], "x", "y") == ""
    assert svg.bars([], "x") == ""


@pytest.mark.parametrize("mean", [0.0, 3.0, -3.0])
def test_bars_are_well_formed_whatever_their_sign(mean: float) -> None:
    root = ElementTree.fromstring(svg.bars([svg.Bar("a", mean, mean - 1, mean + 1)], "x"))
    (bar,) = [each for each in root if each.tag == "rect"]
    assert (float(bar.get("width", "-1")) > 0) == (mean != 0)
    assert 180 <= float(bar.get("x", "-1")) <= svg.WIDTH


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
    assert svg.number(value) == text


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
