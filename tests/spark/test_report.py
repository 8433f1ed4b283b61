"""The report is one file that needs nothing else, and shows what it was given."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import pytest
from slotreeve.errors import ConfigError
from slotreeve_spark.pipeline.warehouse import Warehouse
from slotreeve_spark.progress import JobProgress
from slotreeve_spark.report import charts
from slotreeve_spark.report.cells_page import ComparedCells, cells_page
from slotreeve_spark.report.numbers import number
from slotreeve_spark.report.page import Page
from slotreeve_spark.report.terminal import fitted, side_by_side
from slotreeve_spark.verdicts import headlines, verdict_lines

XLINK = 'xmlns:xlink="http://www.w3.org/1999/xlink'


def test_a_page_needs_nothing_from_elsewhere_and_escapes_what_it_is_given() -> None:
    page = Page("<title> & more")
    page.heading("a < b")
    page.table([{"name": "<script>", "verdict": "best", "figure": 1234, "mean": 0.123456, "none": None}])
    page.figures([("plot", charts.bars([charts.Bar("<x>", 1.0, 0.5, 1.5)], "ms"))])
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


# --- a competitor has one look ---------------------------------------------------------------------------------------


def test_a_competitor_has_one_colour_in_every_plot_whatever_its_rank() -> None:
    looks = charts.Palette(["c", "a", "b"])
    bars = [charts.Bar(name, mean, mean, mean) for name, mean in (("a", 3.0), ("b", 2.0), ("c", 1.0))]
    first, second = charts.bars(bars[:2], "x", looks), charts.bars(bars[:0:-1], "x", looks)
    line = charts.lines([charts.Series("b", [(0.0, 1.0), (1.0, 2.0)])], "x", "y", palette=looks)
    assert all(looks.colour("b") in plot for plot in (first, second, line))
    assert looks.colour("c") not in first
    assert looks.colour("a") not in second


def test_more_competitors_than_colours_differ_in_dash_and_marker() -> None:
    looks = charts.Palette(f"c{n:02}" for n in range(2 * len(charts.COLOURS)))
    assert len({(looks.colour(name), looks.dash(name)) for name in looks.names}) == len(looks.names)
    assert len({(looks.colour(name), looks.marker(name)) for name in looks.names}) == len(looks.names)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["even + namesake", "ring + namesake"], ["even", "ring"]),
        (["even + namesake", "even + spread"], ["even + namesake", "even + spread"]),
        (["fle", "lock"], ["fle", "lock"]),
    ],
)
def test_a_second_part_that_all_have_is_left_out_in_plots(names: list[str], shown: list[str]) -> None:
    looks = charts.Palette(names)
    assert [looks.label(name) for name in looks.names] == shown


def test_a_scatter_plot_names_its_points_and_is_logarithmic_only_if_one_is_far() -> None:
    near = [charts.Dot("a", 1.0, 10.0, front=True, chosen=True), charts.Dot("b", 2.0, 5.0, front=True)]
    far = [*near, charts.Dot("c", 9_000.0, 7.0, counts=False)]
    looks = charts.Palette(["a", "b", "c"])
    assert {"a", "b", "moves", "share"} <= texts_of(charts.scatter([("moves", "share", near)], looks))
    plot = charts.scatter([("moves", "share", far), ("moves", "nothing", [])], looks)
    assert {"a", "b", "(c)", "1,000"} <= texts_of(plot)
    assert "nothing" not in texts_of(plot)
    assert charts.scatter([("x", "y", [])], looks) == ""
    assert charts.scatter([("x", "y", [charts.Dot("a", 0.0, 0.0)])], looks)


# --- the whole page --------------------------------------------------------------------------------------------------


def a_row(competitor: str, mean: float, verdict: str, criterion: str = "moves") -> dict[str, object]:
    figures = {"mean": mean, "low": mean, "high": mean, "cells": 3}
    return {"setting": "all", "criterion": criterion, "competitor": competitor, "verdict": verdict, **figures}


def a_trade(competitor: str, verdict: str, moves: float, uneven: float) -> dict[str, object]:
    judged = {"score": 0.5, "cells": 3, "behind": 0.1, "behind_low": 0.1, "behind_high": 0.2, "confidence": 0.97}
    figures = {"moves": moves, "uneven_share": uneven, "unready_slot_seconds": 1.0, **judged}
    ends_well = verdict != "ends uneven"
    return {"setting": "all", "competitor": competitor, "verdict": verdict, "ends_well": ends_well, **figures}


def test_a_report_has_the_verdict_first_pictures_then_and_the_tables_folded() -> None:
    summary = [a_row("even", 1_250.0, "best"), a_row("idle", 506.0, "not counted")]
    trades = [a_trade("even", "recommended", 1_250.0, 0.01), a_trade("idle", "ends uneven", 506.0, 0.9)]
    said = headlines(summary, trades, {"moves": 1.0})
    found = ComparedCells("T", said, {"seeds": 3}, summary, {"moves": "places"}, ("Curves", []), trades)
    text = cells_page(found).as_html()
    alone = "the only one that ends even in every cell (all figures weigh the same)"
    assert said == [f"all: even is recommended, {alone}."]
    order = [
        text.index(part) for part in (said[0], "Trade-off", "<svg", "Criterion by criterion", "<table", "seeds: 3")
    ]
    assert order[0] == min(order)
    outside = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert "<table" not in outside
    assert "Curves" not in text
    assert "1.25e" not in text


def test_a_page_without_competitors_says_so() -> None:
    found = ComparedCells("T", headlines([], [], {}), {}, [], {}, ("Curves", []))
    assert "No competitor is left to be ranked." in cells_page(found).as_html()


def test_who_has_less_and_does_not_count_is_named_beside_the_best() -> None:
    rows = [a_row("idle", 506.0, "not counted"), a_row("even", 1_250.0, "best"), a_row("late", 2e3, "not counted")]
    assert verdict_lines(rows) == ["all, moves: even (1,250); not counted, as it ends uneven: idle (506)"]


def test_without_a_trade_off_the_headline_counts_the_criteria() -> None:
    rows = [
        a_row("a", 1, "best"),
        a_row("b", 1, "within noise"),
        a_row("a", 1, "best", "copies"),
        a_row("b", 2, "behind", "copies"),
    ]
    assert headlines(rows, [], {}) == ["all: of 2 criteria, the best or within noise of it is a by 2, b by 1."]


# --- while a job runs, and before ------------------------------------------------------------------------------------


def test_jobs_are_told_with_their_number() -> None:
    said = list[str]()
    progress = JobProgress(said.append)
    progress.begin(2)
    session = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: None))
    with progress.job("cells", session):  # type: ignore[arg-type]  # it is asked after ten seconds only
        pass
    with pytest.raises(ValueError, match="x"), progress.job("summary", session):  # type: ignore[arg-type]
        raise ValueError("x")
    assert [re.sub(r"[\d.]+ s", "0 s", line) for line in said] == [
        "1 of 2: cells ...",
        "1 of 2: cells: done in 0 s",
        "2 of 2: summary ...",
    ]


def test_a_missing_mart_is_known_before_a_session_is_started(tmp_path: Path) -> None:
    warehouse = Warehouse.existing(tmp_path)
    with pytest.raises(ConfigError, match="there is no mart slot_history; run `slotreeve spark marts` first"):
        warehouse.must_have_mart("slot_history")
    (tmp_path / "marts/slot_history").mkdir(parents=True)
    warehouse.must_have_mart("slot_history")
    Warehouse.existing("s3a://bucket/warehouse").must_have_mart("slot_history")
