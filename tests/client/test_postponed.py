"""The records for which a session server had no room."""

from __future__ import annotations

from slotreeve_client.postponed import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Postponed
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
    postponed.has_room()
    assert postponed.next_pause() == FIRST_PAUSE_SECONDS
