"""Effects around a disk that works: what may overtake, what is written together, and what never changes places."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve_election_fle.disk_order import DiskOrder
from slotreeve_election_fle.effects import AppendToLog, Effect, SaveEpochs, Send
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.messages import AtWork, PeerPing, PeerPong, ProposeAck

HEARTBEATS = (PeerPing, PeerPong, AtWork)


def append(number: int) -> AppendToLog:
    return AppendToLog([Entry(number, "k", b"v", number)])


def made(words: str) -> list[Effect]:
    """A machine's effects: ``a`` appends the next entry, ``s`` acknowledges it, ``e`` saves an epoch, ``h`` pings."""
    effects: list[Effect] = []
    for number, word in enumerate(words):
        match word:
            case "a":
                effects.append(append(number))
            case "e":
                effects.append(SaveEpochs(number, number))
            case "h":
                effects.append(Send(1, PeerPing(1, number)))
            case _:
                effects.append(Send(1, ProposeAck(1, number)))
    return effects


def test_heartbeats_overtake_a_disk_that_works_and_nothing_else_does() -> None:
    order, heartbeats = DiskOrder(), [Send(1, PeerPing(1, 1)), Send(2, PeerPong(1, 2)), Send(2, AtWork(3))]
    order.add([Send(1, ProposeAck(1, 1)), *heartbeats])
    assert [order.take(is_pending=True) for _ in range(4)] == [*heartbeats, None]
    assert order.take(is_pending=False) == Send(1, ProposeAck(1, 1))


def test_appends_that_wait_share_one_sync() -> None:
    order = DiskOrder()
    order.add(made("asasaesa"))
    first = order.take(is_pending=False)
    assert isinstance(first, AppendToLog)
    assert [entry.zxid for entry in first.entries] == [0, 2, 4]
    rest = [order.take(is_pending=False) for _ in range(6)]
    assert rest == [*made("asasaesa")[1:4:2], *made("asasaesa")[5:], None]


@given(st.text("asseh", max_size=30), st.lists(st.booleans()))
def test_whatever_is_sent_rests_on_a_disk_that_holds_what_was_asked_before(words: str, pauses: list[bool]) -> None:
    order, effects = DiskOrder(), made(words)
    taken: list[Effect] = []
    for effect, pause in zip(effects, [*pauses, *[False] * len(effects)], strict=False):
        order.add([effect])
        if pause and (next_one := order.take(is_pending=False)) is not None:
            taken.append(next_one)
    while (next_one := order.take(is_pending=False)) is not None:
        taken.append(next_one)
    is_beat = [isinstance(e, Send) and isinstance(e.message, HEARTBEATS) for e in taken]
    kept = [e for e, beat in zip(taken, is_beat, strict=True) if not beat]
    asked = [e for e in effects if not (isinstance(e, Send) and isinstance(e.message, HEARTBEATS))]
    assert [e for e in kept if not isinstance(e, AppendToLog)] == [e for e in asked if not isinstance(e, AppendToLog)]
    for place, effect in enumerate(kept):
        if isinstance(effect, AppendToLog):
            continue
        before = [x for e in asked[: asked.index(effect)] if isinstance(e, AppendToLog) for x in e.entries]
        durable = [x for e in kept[:place] if isinstance(e, AppendToLog) for x in e.entries]
        assert durable[: len(before)] == before
        if isinstance(effect, SaveEpochs):
            assert durable == before  # another write is never overtaken
    assert [x for e in kept if isinstance(e, AppendToLog) for x in e.entries] == [
        x for e in asked if isinstance(e, AppendToLog) for x in e.entries
    ]


def test_nothing_is_left_after_the_machine_was_stopped() -> None:
    order = DiskOrder()
    order.add(made("ahs"))
    order.clear()
    assert order.take(is_pending=False) is None
