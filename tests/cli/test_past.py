"""The commands that tell of the past, with servers that only tell what a test gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
import pytest
from slotreeve_cli import past
from slotreeve_cli.options import Output
from slotreeve_client import history
from slotreeve_client.history import Past, Span
from slotreeve_events import schema
from slotreeve_events.schema import HistoryNote
from slotreeve_protocol.history_messages import HistoryEvent


def told(at_ms: int, reason: str, place: int = 1) -> HistoryEvent:
    note = HistoryNote(schema.VERSION, f"x@1/{at_ms}", at_ms, "x", "alarm", reason=reason)
    return HistoryEvent(place, msgspec.json.encode(note))


def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rounds: list[Past], *, follow: bool = False
) -> tuple[list[str], str]:
    """The lines that ``events -n 10`` prints of these answers, one after the other; and what it says beside them."""
    answers = iter(rounds)

    async def past_events(*_: object, after: Mapping[str, int] | None = None) -> Past:
        answer = next(answers, None)
        if answer is None:
            raise asyncio.CancelledError
        return answer

    monkeypatch.setattr(history, "past_events", past_events)
    monkeypatch.setattr(past, "FOLLOW_SECONDS", 0)
    try:
        asyncio.run(past._events(["127.0.0.1:1"], "c", Span(), (), 10, follow, Output.TABLE))
    except asyncio.CancelledError:
        assert follow
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_one_who_follows_is_told_all_that_came_at_once_of_several_servers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    burst = Past(events=[(f"data-{n % 3}", told(n, f"event {n};", n)) for n in range(30)])
    lines, _ = printed(monkeypatch, capsys, [Past(), burst, Past()], follow=True)
    assert [line.rpartition("event ")[2] for line in lines] == [f"{n};" for n in range(30)]


def test_that_there_are_more_events_than_are_shown_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    several = Past(events=[("data-1", told(n, "x")) for n in range(11)])
    lines, said = printed(monkeypatch, capsys, [several])
    assert (len(lines), "-n 20 shows more" in said) == (10, True)
    _, said = printed(monkeypatch, capsys, [Past(events=several.events[:10])])
    assert said == ""


def test_no_text_of_others_looks_like_another_event(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "x\n2026-01-01 00:00:00.000  all is well\u2028\x1b[2J\x9b2J\r\t"
    lines, _ = printed(monkeypatch, capsys, [Past(events=[("data-1", told(1, text))])])
    (line,) = lines
    assert line.isprintable(), line
