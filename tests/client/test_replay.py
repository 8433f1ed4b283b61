"""The progress of a replay."""

from __future__ import annotations

from slotreeve_client.replay import ClientReplay


def test_the_end_is_due_once_after_everything_is_stored() -> None:
    replay = ClientReplay(["a", "b"])
    assert not replay.end()
    assert [replay.stored("a"), replay.stored("a"), replay.stored("later"), replay.stored("b")] == [
        False,
        False,
        False,
        True,
    ]
    assert replay.is_stored
    assert [replay.end(), replay.end()] == [True, False]


def test_an_empty_replay_ends_at_once() -> None:
    replay = ClientReplay([])
    assert replay.is_stored
    assert replay.end()
