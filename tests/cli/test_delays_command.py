"""``slotreeve delays``: what it shows of a report."""

from __future__ import annotations

import pytest
from slotreeve_cli import delays as command
from slotreeve_client.delays import (
    DelaysReport,
    HolderReport,
    LaggingReport,
    StageReport,
    WindowReport,
    stage_reports,
)
from slotreeve_protocol.delay_messages import DelayPage, StageDelays

REPORT = DelaysReport(
    burning=["session-1 pushes changes late."],
    delay_ms=500.0,
    share=0.999,
    windows=[WindowReport("session-1", 300.0, 100, 2, 20.0), WindowReport("session-1", 3_600.0, 900, 2, 2.22)],
    stages=[StageReport("push_age", 100, 0.5, 250.0, 812.5, "session-1")],
    lagging=[LaggingReport(f"c-{n}", "10.0.0.9:1", "session-1", "a.\x1b[2JService", 3.5, "slow") for n in range(21)],
    service=[
        HolderReport("data-1", True, 7, True, 2, 0, None, None),
        HolderReport("session-1", False, 6, False, 3, 1, (1.5, 2.25), (10.0, 20.0)),
    ],
    silent={},
)


def test_people_see_the_objective_its_windows_in_a_row_who_lags_and_the_versions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command._show(REPORT, "a.Service")
    shown = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[0] == "Wanted: 99.9 % of the pushes within 500 ms."
    assert lines[1] == "session-1 pushes changes late."
    assert "server pushed 5 min late burn 5 min burn 1 h" in lines
    assert "session-1 100 2 20 2.22" in lines
    assert "push_age 100 0.5 250 812 session-1" in lines
    assert "1.5+2.25" in shown
    assert "and 1 more: -o json has all" in lines
    assert "\x1b" not in shown


def test_of_a_cluster_in_which_nobody_tells_there_is_little_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    command._show(DelaysReport([], None, None, [], [], [], [], {"session-1": "gone"}), "")
    shown = capsys.readouterr().out
    assert "Wanted" not in shown
    assert "no server tells of delays" in shown
    assert "nobody lags" in shown


def test_stages_of_several_servers_are_added_up_if_their_ranges_are_the_same() -> None:
    def page(*stages: StageDelays) -> DelayPage:
        return DelayPage(stages)

    two, three = (0.1, 1.0), (0.1, 0.5, 1.0)
    found = stage_reports(
        {
            "a": page(
                StageDelays("push_age_seconds", two, (99, 1, 0), 0.4), StageDelays("new_seconds", two, (1, 0, 0), 0.1)
            ),
            "b": page(StageDelays("push_age_seconds", two, (100, 0, 0), 0.05)),
            "c": page(StageDelays("push_age_seconds", three, (0, 0, 0, 0), 0.0)),
        }
    )
    assert found == [
        StageReport("push_age", 0, None, None, None, ""),
        StageReport("push_age", 200, 100.0, 100.0, 400.0, "a"),
        StageReport("new", 1, 100.0, 100.0, 100.0, "a"),
    ]
