"""Held slots: what may be done with each, what changes, which table they follow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.datum import content_digest, first_version
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.slot_messages import Access, SlotWrite
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots


def table(epoch: int, *rows: tuple[str | None, int, tuple[str, ...]]) -> SlotTable:
    return SlotTable(epoch, tuple(Slot(i, leader, term, followers) for i, (leader, term, followers) in enumerate(rows)))


def test_only_a_serving_leader_of_that_epoch_accepts() -> None:
    leader = HeldSlot(Slot(0, "data-1", 4, ()), leads=True)
    follower = HeldSlot(Slot(0, "data-2", 4, ("data-1",)), leads=False)
    assert follower.access(4) is Access.MOVED
    assert leader.access(3) is leader.access(5) is Access.MISMATCH
    assert leader.access(4) is Access.MIGRATING
    leader.serve()
    assert leader.access(4) is Access.ACCEPT


def test_a_server_holds_what_the_table_gives_it_and_drops_the_rest() -> None:
    slots = HeldSlots("data-1")
    led, followed = slots.apply(table(1, ("data-1", 1, ("data-2",)), ("data-2", 1, ("data-1",)), ("data-2", 1, ())))
    assert ([s.slot.id for s in led], [s.slot.id for s in followed]) == ([0], [1])
    assert [s.slot.id for s in slots.led()] == [0]
    assert [s.slot.id for s in slots.followed("data-2")] == [1]
    assert slots.leaders() == {"data-2"}
    slots.apply(table(2, ("data-2", 2, ()), ("data-2", 1, ()), ("data-1", 2, ())))
    assert list(slots.held) == [2]
    assert slots.get(0) is None


def test_a_slot_under_another_leader_epoch_starts_again_with_its_records_and_higher_versions() -> None:
    slots = HeldSlots("data-1")
    slots.apply(table(1, ("data-1", 1, ())))
    held = slots.held[0]
    held.serve()
    held.apply(SlotWrite(0, 1, [Publisher("r", "s", 1, 1, "p", "", (b"x",))], [], []), 0.0)
    led, _ = slots.apply(table(2, ("data-1", 2, ())))
    assert led == [slots.held[0]]
    assert not led[0].serving
    assert list(led[0].store.services) == ["s"]
    assert led[0].version >= first_version(2) > held.version


def test_a_slot_whose_row_changed_only_in_its_followers_goes_on() -> None:
    slots = HeldSlots("data-1")
    slots.apply(table(1, ("data-1", 1, ("data-2",))))
    held = slots.held[0]
    held.serve()
    assert slots.apply(table(2, ("data-1", 1, ("data-3",)))) == ([], [])
    assert slots.held[0] is held
    assert held.slot.followers == ("data-3",)
    assert slots.unsettled() == []


def test_a_leader_that_has_missed_a_table_goes_on_and_a_follower_asks_again() -> None:
    slots = HeldSlots("data-1")
    slots.apply(table(1, ("data-1", 1, ("data-2",)), ("data-2", 1, ("data-1",))))
    slots.held[0].serve()
    slots.held[1].synced = slots.held[1].is_streamed = True
    assert slots.apply(table(3, ("data-1", 1, ("data-2",)), ("data-2", 1, ("data-1",)))) == ([], [slots.held[1]])
    assert slots.held[0].access(1) is Access.ACCEPT
    assert slots.unsettled() == [1]
    assert (slots.held[0].since, slots.held[1].since) == (1, 3)


def test_nobody_leads_where_the_table_names_nobody() -> None:
    slots = HeldSlots("data-1")
    slots.apply(table(1, (None, 1, ("data-1",)), ("data-2", 1, ("data-1",))))
    assert slots.leaders() == {"data-2"}


RECORDS = st.builds(
    Publisher,
    st.sampled_from(["r1", "r2", "r3"]),
    st.sampled_from(["a", "b"]),
    st.integers(1, 4),
    st.integers(1, 2),
    st.sampled_from(["p1", "p2"]),
    st.just(""),
    st.one_of(st.none(), st.tuples(st.sampled_from([b"1", b"2"]))),
)
WRITES = st.builds(
    SlotWrite,
    st.just(0),
    st.just(1),
    st.lists(RECORDS, max_size=3),
    st.lists(RECORDS.map(Publisher.tombstone), max_size=2),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["r1", "r2", "r3"])), max_size=1),
)


def one_service_each(record: Publisher) -> Publisher:
    """A register id belongs to one service."""
    service = "a" if record.register_id != "r3" else "b"
    return Publisher(
        record.register_id, service, record.version, record.incarnation, record.session, record.zone, record.data
    )


@given(st.lists(WRITES, max_size=12))
def test_pending_changes_lead_from_the_announced_content_to_the_present_one(writes: list[SlotWrite]) -> None:
    """The dumb twin keeps a full copy of each service and compares whole contents."""
    slot = HeldSlot(Slot(0, "data-1", 1, ()), leads=True, version=first_version(1))
    for name in ("a", "b"):
        slot.track(name)
    slot.serve()
    copies: dict[str, dict[str, Publisher]] = {"a": {}, "b": {}}
    version = slot.version
    for raw in writes:
        write = SlotWrite(
            0,
            1,
            [one_service_each(r) for r in raw.records],
            [one_service_each(r) for r in raw.gone],
            [("b" if r == "r3" else "a", r) for _, r in raw.purged],
        )
        before = {name: {k: (r.data, r.zone) for k, r in copy.items()} for name, copy in copies.items()}
        touched = slot.apply(write, 0.0)
        assert slot.version >= version
        version = slot.version
        for name in copies:
            service = slot.hashed(name)
            for register_id, record in service.pending.items():
                if record is None:
                    copies[name].pop(register_id, None)
                else:
                    copies[name][register_id] = record
            service.pending = {}
            present = slot.store.services.get(name, {})
            seen = {k: (r.data, r.zone) for k, r in present.items()}
            assert {k: (r.data, r.zone) for k, r in copies[name].items()} == seen
            assert service.digest == content_digest(present.values())
            if seen != before[name]:
                assert name in touched
                assert service.version <= slot.version


def test_a_server_that_was_in_sync_when_it_begins_to_lead_was_a_member_and_a_learner_was_not() -> None:
    slots = HeldSlots("data-1")
    slots.apply(table(1, ("data-2", 1, ("data-1",)), ("data-2", 1, ()), ("data-2", 1, ())))
    learns, has_nothing = Slot(1, "data-2", 1, (), ("data-1",)), Slot(2, "data-2", 1, ())
    slots.apply(SlotTable(2, (Slot(0, "data-2", 1, ("data-1",)), learns, has_nothing)))
    assert sorted(slots.held) == [0, 1]
    slots.apply(table(3, *[("data-1", 3, ())] * 3), unclean=[1, 2])
    assert [slots.held[number].was_in_sync for number in range(3)] == [True, False, False]
    slots.apply(table(4, *[("data-1", 4, ())] * 3))
    assert all(slots.held[number].was_in_sync for number in range(3)), "it led them"


@pytest.mark.parametrize(
    ("unclean", "had_all"), [((), True), ((0,), False)], ids=["its leader lived", "nobody in sync lived"]
)
def test_a_learner_that_is_made_the_leader_by_one_that_lives_has_all_that_was_acknowledged(
    unclean: tuple[int, ...], had_all: bool
) -> None:
    slots = HeldSlots("data-1")
    slots.apply(SlotTable(1, (Slot(0, "data-2", 1, (), ("data-1",)),)))
    slots.apply(table(2, ("data-1", 2, ("data-2",))), unclean)
    assert slots.held[0].was_in_sync is had_all


def test_a_follower_that_has_missed_a_table_follows_anew_because_that_table_may_have_ended_its_stream() -> None:
    slots = HeldSlots("data-1")
    rows = ("data-2", 4, ("data-1",))
    slots.apply(table(1, rows))
    slots.held[0].caught_up(5.0)
    assert slots.apply(table(2, rows)) == ([], [])
    assert slots.held[0].synced
    assert not slots.has_missed_one
    assert slots.apply(table(4, rows)) == ([], [slots.held[0]])
    assert (slots.held[0].synced, slots.has_missed_one) == (False, True)


ROWS = st.lists(
    st.tuples(st.sampled_from(["data-1", "data-2"]), st.integers(1, 3), st.sampled_from([(), ("data-1",)])),
    min_size=4,
    max_size=4,
)
DEEDS = st.lists(
    st.one_of(
        ROWS,
        st.tuples(st.sampled_from(["serve", "sync"]), st.integers(0, 3)),
        st.sampled_from(["the leader is lost", "look", "look at one"]),
    ),
    max_size=30,
)


@given(DEEDS)
def test_the_open_slots_are_those_that_a_look_at_all_of_them_finds(deeds: list[Any]) -> None:
    slots = HeldSlots("data-1")
    for number, deed in enumerate(deeds):
        if isinstance(deed, list):
            rows = [(leader, epoch, tuple(f for f in followers if f != leader)) for leader, epoch, followers in deed]
            slots.apply(table(number + 1, *rows))
        elif deed == "the leader is lost":
            slots.leader_lost("data-2")
        elif isinstance(deed, tuple):
            slot = slots.get(deed[1])
            if slot is not None and slot.leads and deed[0] == "serve":
                slot.serve()
            elif slot is not None and not slot.leads and deed[0] == "sync":
                slot.caught_up(1.0)
        expected = [number for number, slot in sorted(slots.held.items()) if not slot.settled]
        if deed == "look at one":
            assert slots.are_settled is not bool(expected)
        elif deed == "look":
            assert slots.unsettled() == expected
    assert slots.unsettled() == [number for number, slot in sorted(slots.held.items()) if not slot.settled]


def test_each_change_of_a_service_that_nobody_watches_has_a_version_of_its_own() -> None:
    """A session server that comes back with the copy that it had must see that it is old."""
    slot, one = HeldSlot(Slot(0, "data-1", 1, ()), leads=True), Publisher("r", "s", 1, 1, "session-1@1", "", (b"x",))
    versions = [slot.version]
    for write in (
        SlotWrite(0, 1, [one], [], []),
        SlotWrite(0, 1, [Publisher("r", "s", 2, 1, "session-1@1", "", None)], [], []),
        SlotWrite(0, 1, [Publisher("r", "s", 3, 1, "session-1@1", "", (b"x",))], [], []),
        SlotWrite(0, 1, [], [Publisher("r", "s", 3, 1, "session-1@1", "", None)], []),
        SlotWrite(0, 1, [Publisher("r", "s", 4, 1, "session-1@1", "", (b"x",))], [], []),
        SlotWrite(0, 1, [], [], [("s", "r")]),
    ):
        slot.apply(write, 0.0)
        versions.append(slot.version)
    assert versions == sorted(set(versions))
