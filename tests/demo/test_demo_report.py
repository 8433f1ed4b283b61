"""The report of a demonstration: which outcomes pass, and what it lists."""

from __future__ import annotations

from dataclasses import replace

import pytest
from slotreeve_demo.report import all_held, as_json, checks, differences, figures
from slotreeve_demo.stage import DemoOutcome, DemoPlan

PLAN = DemoPlan(publishers=4, subscribers=2, rate=200.0, seed=7)
GOOD = DemoOutcome(
    services=12_000,
    publishes=12_000,
    acknowledged_per_second=20_000.4,
    changes=900,
    latencies_ms=[1.0, 2.0, 3.0],
    failovers_ms={"meta leader": 40.2, "data server": 330.0, "session server": 29.0},
    moves={"data server": 170},
    compared=24_000,
    over_rest=500,
)
LOST = ("com.example.Foo", "r-1")


def test_an_outcome_without_differences_passes_every_check() -> None:
    assert all_held(GOOD)
    assert [check.what for check in checks(GOOD) if not check.held] == []
    assert differences(GOOD) == []


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (replace(GOOD, publishes=9_999), "9,999 publishes of 12,000 names acknowledged"),
        (replace(GOOD, failovers_ms={"meta leader": 40.2}), "1 kills survived: meta leader"),
        (replace(GOOD, compared=0), "0 missing of 0 views"),
        (replace(GOOD, missing=[LOST]), "1 missing of 24,000 views"),
        (replace(GOOD, stale=[LOST]), "1 stale"),
        (replace(GOOD, vanished=[LOST]), "1 vanished from a subscriber's view while published"),
        (replace(GOOD, over_rest=0), "0 of 0 registrations differ over REST"),
        (replace(GOOD, different_over_rest=[LOST]), "1 of 500 registrations differ over REST"),
        (replace(GOOD, latencies_ms=[]), "0 changes seen by subscribers during the kills"),
    ],
)
def test_an_outcome_fails_exactly_the_check_that_it_breaks(bad: DemoOutcome, what: str) -> None:
    assert not all_held(bad)
    assert [check.what for check in checks(bad) if not check.held] == [what]


def test_people_see_a_few_differences_and_programs_the_first_hundred() -> None:
    bad = replace(GOOD, missing=[("s", f"r-{n}") for n in range(200)], stale=[LOST], different_over_rest=[LOST])
    assert differences(bad) == [
        *(f"missing: s r-{n}" for n in range(5)),
        "stale: com.example.Foo r-1",
        "different over rest: com.example.Foo r-1",
    ]
    report = as_json(bad, PLAN, 12.34)
    assert len(report["missing"]) == 100  # type: ignore[arg-type]
    assert (report["held"], report["seed"], report["seconds"]) == (False, 7, 12.3)


def test_the_figures_name_each_kill_with_the_places_that_moved() -> None:
    assert dict(figures(GOOD, PLAN)) == {
        "published": "12,000 at 20,000 acknowledged a second",
        "publish -> callback, while servers die": ("p50 2.00 ms   p99 3.0 ms   max 3 ms   (3 at 200 changes a second)"),
        "meta leader killed": "back after 40 ms, 0 places in the slot table moved",
        "data server killed": "back after 330 ms, 170 places in the slot table moved",
        "session server killed": "back after 29 ms, 0 places in the slot table moved",
    }
