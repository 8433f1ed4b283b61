"""The records for which a session server had no room."""

from __future__ import annotations

import pytest
from slotreeve_client.postponed import FEWEST, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Postponed
from slotreeve_client.publication import Publication


def publication(register_id: str) -> Publication:
    return Publication(register_id, "a#@#i#@#g", "", (b"x",), lambda _publication: None)


def test_what_waits_is_taken_once_and_every_rejection_is_counted() -> None:
    postponed = Postponed()
    first, second = publication("1"), publication("2")
    for one in (first, second, first):
        postponed.add(one)
    assert postponed.take() == {"1": first, "2": second}
    assert (postponed.take(), postponed.rejections) == ({}, 3)


def test_the_pause_doubles_up_to_the_longest_until_there_is_room() -> None:
    postponed = Postponed()
    pauses = [postponed.next_pause() for _ in range(20)]
    assert pauses == [min(FIRST_PAUSE_SECONDS * 2**number, LONGEST_PAUSE_SECONDS) for number in range(20)]
    postponed.has_room(1)
    assert postponed.next_pause() == FIRST_PAUSE_SECONDS


@pytest.mark.parametrize("room", [1, 3, 50])
def test_a_session_server_that_takes_few_at_a_time_is_sent_a_bounded_number_for_each(room: int) -> None:
    postponed, sent = Postponed(), 0
    for number in range(1_000):
        postponed.add(publication(str(number)))
    while postponed.records:
        again = list(postponed.take().values())
        sent += len(again)
        postponed.has_room(min(room, len(again)))
        for one in again[room:]:
            postponed.add(one)
    assert sent <= 1_000 * max(2, FEWEST / room) + 2 * FEWEST


def test_very_many_are_soon_sent_where_there_is_room() -> None:
    postponed, rounds = Postponed(), 0
    for number in range(100_000):
        postponed.add(publication(str(number)))
    while postponed.records:
        postponed.has_room(len(postponed.take()))
        rounds += 1
    assert rounds <= 14


def test_those_that_wait_for_the_longest_are_sent_first() -> None:
    postponed = Postponed()
    for number in range(FEWEST + 1):
        postponed.add(publication(str(number)))
    assert list(postponed.take()) == [str(number) for number in range(FEWEST)]
    postponed.add(publication("0"))
    assert list(postponed.take()) == [str(FEWEST), "0"]
