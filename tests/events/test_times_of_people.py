"""Times as people write them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from slotreeve.errors import ModelError
from slotreeve_events.times import parse_time, shown_time

NOW = datetime(2026, 11, 26, 14, 30, 15, 250_000, UTC)
FAR = "9999-12-31T23:59:59-12:00"
NOW_MS = int(NOW.timestamp() * 1000)


def at(text: str) -> datetime:
    return datetime.fromtimestamp(parse_time("--at", text, NOW_MS, UTC) / 1000, UTC)


@pytest.mark.parametrize(
    ("text", "before"),
    [("now", 0), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("1.5h ago", 5400), (" 3 S ", 3)],
)
def test_how_long_ago(text: str, before: float) -> None:
    assert at(text) == NOW - timedelta(seconds=before)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("14:30", datetime(2026, 11, 26, 14, 30, tzinfo=UTC)),
        ("14:30:15.25", NOW),
        ("9:05", datetime(2026, 11, 26, 9, 5, tzinfo=UTC)),
        ("9:05:07", datetime(2026, 11, 26, 9, 5, 7, tzinfo=UTC)),
        ("14:31", datetime(2026, 11, 25, 14, 31, tzinfo=UTC)),
    ],
)
def test_a_time_of_day_is_the_last_such_time(text: str, expected: datetime) -> None:
    assert at(text) == expected


def test_iso_times_with_and_without_a_zone() -> None:
    assert at("2026-11-26T14:00:00") == datetime(2026, 11, 26, 14, tzinfo=UTC)
    assert at("2026-11-26T14:00:00+02:00") == datetime(2026, 11, 26, 12, tzinfo=UTC)
    assert at("2026-11-26") == datetime(2026, 11, 26, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "25:00", "10", "10x", "-5m", "14:30:99", "2026-13-01", "1e9d", FAR],
)
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ModelError, match=r"--at .* is no time; expected how long ago, such as 90s"):
        at(text)


def test_a_moment_is_shown_to_the_millisecond_in_the_zone_of_the_reader() -> None:
    assert shown_time(NOW_MS, UTC) == "2026-11-26 14:30:15.250"
    assert shown_time(NOW_MS, timezone(timedelta(hours=2))) == "2026-11-26 16:30:15.250"


@pytest.mark.parametrize("text", ["1000000d", "9" * 400 + "d", "1960-01-01"])
def test_nothing_is_before_1970(text: str) -> None:
    assert at(text) == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("at_ms", [1 << 62, -(1 << 62)])
def test_a_moment_that_no_calendar_has_is_shown_as_a_number(at_ms: int) -> None:
    assert shown_time(at_ms, UTC) == f"{at_ms} ms"


def test_a_time_of_this_machine_is_read_as_it_was_shown_whatever_the_season_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        for now in (datetime(2026, 10, 25, 7, 0, tzinfo=UTC), datetime(2027, 1, 15, 12, 0, tzinfo=UTC)):
            now_ms = round(1000 * now.timestamp())
            for hours in (1, 12, 24 * 30, 24 * 200):
                moment_ms = now_ms - hours * 3_600_000
                assert parse_time("--at", shown_time(moment_ms), now_ms) == moment_ms
        winter_ms = round(1000 * datetime(2026, 10, 25, 7, 0, tzinfo=UTC).timestamp())
        summer = datetime(2026, 10, 24, 18, 0, tzinfo=UTC)  # 20:00 there
        assert parse_time("--at", "20:00", winter_ms) == round(1000 * summer.timestamp())
    finally:
        monkeypatch.undo()
        time.tzset()
