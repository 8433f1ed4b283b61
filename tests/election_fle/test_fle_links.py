"""Links on which nothing arrives: which connection is made again, and when (docs/fle.md, section 3)."""

from __future__ import annotations

from slotreeve_election_fle.links import SILENT_BEATS, TwoWayLinks


def test_a_link_is_silent_after_so_many_beats_and_not_after_a_time_in_which_this_process_stood_still() -> None:
    links = TwoWayLinks(0)
    links.heard(1, 0.0)
    assert [links.beat_passed(1) for _ in range(SILENT_BEATS + 1)] == [*(SILENT_BEATS * [False]), True]
    links.heard(1, 1000.0)
    assert not links.beat_passed(1)


def test_beats_of_an_earlier_election_do_not_count_nor_do_those_of_a_former_connection() -> None:
    links = TwoWayLinks(0)
    for _ in range(SILENT_BEATS):
        links.beat_passed(1)
        links.beat_passed(2)
    links.left(2)
    assert not links.beat_passed(2)
    links.begin()
    assert not links.beat_passed(1)
