"""The progress of a replay."""

from __future__ import annotations

from slotreeve_client.replay import ClientReplay


def test_the_end_is_due_once_after_everything_was_sent() -> None:
    replay = ClientReplay(["a", "b"])
    assert not replay.end()
    replay.unsent.clear()
    assert [replay.end(), replay.end()] == [True, False]
    assert not replay.is_stored
    replay.unstored.clear()
    assert replay.is_stored


def test_an_empty_replay_ends_at_once() -> None:
    replay = ClientReplay([])
    assert not replay.is_stored
    assert replay.end()
    assert replay.is_stored


def test_a_postponed_record_puts_the_end_off_unless_it_was_sent_already() -> None:
    replay = ClientReplay(["a"])
    replay.unsent.clear()
    replay.postponed("a")
    replay.postponed("published later")
    assert replay.unsent == {"a"}
    assert not replay.end()
    replay.unsent.clear()
    assert replay.end()
    replay.postponed("a")
    assert replay.unsent == set()


def test_a_registration_that_was_refused_is_waited_for_no_longer() -> None:
    replay = ClientReplay(["a"])
    replay.dropped("a")
    assert replay.end()
    assert replay.is_stored
