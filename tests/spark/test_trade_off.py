"""The trade-off of balancers: who is on the front, which one is recommended, by how much."""

from __future__ import annotations

import pyarrow as pa
import pytest
from slotreeve.errors import ConfigError
from slotreeve_spark.compare.trade_off import EVEN_WEIGHTS, FIGURES, judged, parse_weights
from slotreeve_spark.verdicts import recommendations, verdict_lines

Figures = tuple[float, float, float]


def cells(*competitors: tuple[str, bool, Figures]) -> pa.Table:
    """Ten cells for each competitor; the moves differ a little from cell to cell, alike for all of them."""
    return pa.Table.from_pylist(
        [
            {"setting": "all", "competitor": name, "pair": f"trace/{seed}", "ends_well": ends_well}
            | dict(zip(FIGURES, (figures[0] + seed, *figures[1:]), strict=True))
            for name, ends_well, figures in competitors
            for seed in range(10)
        ]
    )


def judge(table: pa.Table, weights: dict[str, float] | None = None) -> dict[str, dict[str, object]]:
    return {row["competitor"]: row for row in judged(table, weights or EVEN_WEIGHTS, 0.1).to_pylist()}


IDLE = ("idle", False, (0.0, 1.0, 0.0))
GOOD = ("good", True, (100.0, 0.0, 0.0))
HASTY = ("hasty", True, (90.0, 0.05, 20.0))
WASTEFUL = ("wasteful", True, (150.0, 0.0, 0.0))


def test_a_balancer_that_does_nothing_is_on_the_front_and_never_recommended() -> None:
    found = judge(cells(IDLE, GOOD))
    assert (found["idle"]["front"], found["idle"]["verdict"], found["idle"]["score"]) == (True, "ends uneven", None)
    assert found["good"]["verdict"] == "recommended"


def test_one_that_is_worse_in_all_is_beaten_and_behind() -> None:
    found = judge(cells(GOOD, HASTY, WASTEFUL))
    assert (found["wasteful"]["front"], found["wasteful"]["beaten_by"]) == (False, "good")
    assert found["good"]["front"]
    assert found["hasty"]["front"]
    assert (found["wasteful"]["verdict"], found["wasteful"]["confidence"]) == ("behind", 1.0)


def test_weights_decide_between_those_on_the_front() -> None:
    table = cells(GOOD, HASTY)
    assert judge(table)["good"]["verdict"] == "recommended"
    assert judge(table, parse_weights("moves=1"))["hasty"]["verdict"] == "recommended"


def test_without_one_that_ends_even_there_is_no_recommendation() -> None:
    rows = judged(cells(IDLE), EVEN_WEIGHTS, 0.1).to_pylist()
    assert rows[0]["verdict"] == "ends uneven"
    assert recommendations(rows, EVEN_WEIGHTS) == ["all, recommended: none, as no competitor ends even in every cell"]


def test_a_recommendation_says_by_how_much_and_how_sure_it_is() -> None:
    (line,) = recommendations(judged(cells(GOOD, WASTEFUL), EVEN_WEIGHTS, 0.1).to_pylist(), EVEN_WEIGHTS)
    assert line == (
        "all, recommended: good with a score of 0.269; wasteful is next, 0.129 behind (95 % interval 0.129 to 0.129), "
        "in 100% of the resamples of 10 paired cells (all figures weigh the same)"
    )


def test_where_none_counts_none_is_the_best() -> None:
    rows: list[dict[str, object]] = [
        {"setting": "all", "criterion": "moves", "competitor": "idle", "verdict": "not counted", "mean": 0.0}
    ]
    assert verdict_lines(rows) == ["all, moves: no competitor ends even, so none is the best"]


@pytest.mark.parametrize("text", ["moves", "moves=x", "moves=-1", "speed=1", "moves=0", "moves=nan", ""])
def test_weights_that_are_none_are_a_clear_error(text: str) -> None:
    with pytest.raises(ConfigError, match="--weights"):
        parse_weights(text)
