"""Lost registrations of slots that move to another data server, or away and back."""

from __future__ import annotations

import pytest
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_servers.data import held_back
from slotreeve_servers.data.held_back import LostRecord
from slotreeve_servers.data.slots import HeldSlots

from tests.servers.held_back_scene import GONE, Scene, record


def test_registrations_of_a_slot_that_has_moved_are_forgotten() -> None:
    scene = Scene(clients=3)
    scene.session_dies(10.0)
    scene.slots.apply(SlotTable(2, (Slot(0, "data-2", 2, ()),)))
    assert scene.look(99.0) == []
    assert len(scene.held) == 0


def test_registrations_of_a_slot_that_has_moved_are_forgotten_at_once_also_of_a_client_that_is_claimed() -> None:
    scene = Scene(clients=3)
    scene.session_dies(10.0)
    scene.claim(1, 10.5)
    scene.slots.apply(SlotTable(2, (Slot(0, "data-2", 2, ()),)))
    scene.held.table_changed()
    assert scene.look(10.6) == []
    assert (len(scene.held), scene.held.clients) == (0, 0)


def test_what_a_slot_held_before_it_moved_does_not_replace_what_it_holds_since_it_is_back() -> None:
    scene = Scene(clients=1)
    former = LostRecord(scene.slot, scene.records[0], leaves_tombstone=False, gone=GONE)
    scene.slots.apply(SlotTable(2, (Slot(0, "data-2", 2, ()),)))
    scene.slots.apply(SlotTable(3, (Slot(0, "data-1", 3, ()),)))
    scene.put(*scene.records)
    scene.session_dies(10.0)
    assert scene.held.hold([former], 10.0) == 0
    scene.held.table_changed()
    assert scene.released(13.0) == {"client0"}


def test_forgetting_slots_that_have_moved_pauses_and_keeps_what_is_held_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_back, "LOOKED_AT_ONCE", 2)
    slots = HeldSlots("data-1")
    scene = Scene(clients=4, slots=slots)
    slots.apply(SlotTable(2, (Slot(0, "data-1", 1, ()), Slot(1, "data-1", 2, ()))))
    scene.session_dies(10.0)
    others = [record(client, 1) for client in range(2, 6)]
    for one in others:
        slots.held[1].store.put(one, 0.0)
    moved = [LostRecord(slots.held[1], one, leaves_tombstone=False, gone=GONE) for one in others]
    scene.held.hold(moved, 10.0)
    slots.apply(SlotTable(3, (Slot(0, "data-1", 1, ()), Slot(1, "data-2", 3, ()))))
    scene.held.table_changed()
    assert list(scene.held.look(slots.registrations, 10.5)) == [[]] * 4
    assert (len(scene.held), scene.held.clients) == (4, 4)
    assert scene.released(13.0) == {f"client{client}" for client in range(4)}
