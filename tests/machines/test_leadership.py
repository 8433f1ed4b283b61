"""The report of the leader, as all elections make it."""

from __future__ import annotations

import logging

import pytest
from slotreeve.ports import Leadership
from slotreeve_machines.leadership import LeadershipReport

LED = Leadership("meta-1", 3, True, 7.0, "elected")
FOLLOWED = Leadership("meta-2", 4, False, 0.0, "elected")


def test_every_change_is_reported_from_the_beginning_on() -> None:
    report, seen = LeadershipReport(), list[Leadership]()
    assert report.known.leader is None
    report.begin(seen.append)
    report.change(LED)
    report.change(FOLLOWED)
    assert seen == [LED, FOLLOWED]
    assert report.known == FOLLOWED


def test_the_present_lease_is_asked_for_only_while_this_node_leads() -> None:
    report = LeadershipReport()
    report.change(LED)
    assert report.current(9.5) == Leadership("meta-1", 3, True, 9.5, "elected")
    report.change(FOLLOWED)
    assert report.current(9.5) == FOLLOWED


def test_a_callback_that_raises_is_logged_and_the_report_stands(caplog: pytest.LogCaptureFixture) -> None:
    def changed(_leadership: Leadership) -> None:
        raise ValueError("not now")

    report = LeadershipReport()
    report.begin(changed)
    with caplog.at_level(logging.ERROR):
        report.change(LED)
    assert report.known == LED
    assert "the callback for a change of leader failed" in caplog.text
