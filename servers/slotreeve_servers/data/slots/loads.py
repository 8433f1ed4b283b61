"""The loads of the slots that a data server leads: what each holds, how much is written to it, and which of that the
meta leader does not know yet. Pure.

What a heartbeat costs does not grow with the slots or records. A slot is looked at only after writes, and at most every
:data:`WINDOW_SECONDS`; a store counts as it changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from slotreeve.model.loads import NEAR_WRITES, NO_LOAD, SlotLoad
from slotreeve_protocol.meta_messages import MOST_LOADS

from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.membership import LedTerm
from slotreeve_servers.node.outbox import Outbox

WINDOW_SECONDS = 10.0
"""Least time over which the writes to a slot are counted before it is looked at."""
MEAN_SECONDS = 30.0
"""Time over which the rates of the windows are averaged: an older one has a third of the weight."""


class WriteWindow(NamedTuple):
    """The writes to a slot since some moment.

    Attributes:
        slot: the slot as this server has held it since it began to lead it.
        began: that moment, in seconds on the clock of this server. ``writes``: the slot's count of them then.
        rate: writes a second before that moment; None if it is not known, because this server did not lead the slot.
    """

    slot: HeldSlot
    began: float
    writes: int
    rate: float | None


class LedLoads:
    """Finds the loads that the meta leader must be told.

    Of a slot that this server has just begun to lead, it tells nothing before a window has passed: the load that the
    former leader told counts until then. Otherwise a slot of many writes would look idle each time it has moved.
    """

    def __init__(self, outbox: Outbox, slots: HeldSlots) -> None:
        self._outbox, self._slots = outbox, slots
        self._windows: dict[int, WriteWindow] = {}  # those that began first come first
        self._told: dict[int, SlotLoad] = {}
        self._due: dict[int, SlotLoad] = {}
        self._leader: LedTerm | None = None

    def led(self, slots: Iterable[HeldSlot]) -> None:
        """This server leads these slots from now on."""
        now = self._outbox.now()
        for slot in slots:
            number = slot.slot.id
            self._forget(number)
            self._windows[number] = WriteWindow(slot, now, slot.writes, None)

    def written(self, slot: HeldSlot) -> None:
        """Something is about to be stored in a led slot."""
        number = slot.slot.id
        if number not in self._windows:
            told = self._told.get(number, NO_LOAD)
            self._windows[number] = WriteWindow(slot, self._outbox.now(), slot.writes, told.writes_per_second)

    def next_part(self, leader: LedTerm) -> dict[int, SlotLoad]:
        """What the next heartbeat to the meta leader tells. Each one is told everything, in each term again."""
        if leader != self._leader:
            self._leader = leader
            self._due = {**self._told, **self._due}
        self._look()
        part: dict[int, SlotLoad] = {}
        for number in list(islice(self._due, MOST_LOADS)):
            load = self._due.pop(number)
            if self._leads(number):
                part[number] = self._told[number] = load
            else:
                self._forget(number)
        return part

    def not_taken(self, part: Mapping[int, SlotLoad]) -> None:
        """The heartbeat with this part was not granted: it is told again, unless something newer is due."""
        for number, load in part.items():
            if self._told.get(number) is load:
                self._due.setdefault(number, load)

    def _look(self) -> None:
        """Find out what changed in the slots whose window is over. The window of one to which nothing was written for
        long does not begin anew. As many are looked at as can be told, the others with the next heartbeats."""
        now = self._outbox.now()
        over: list[int] = []
        for number, window in self._windows.items():
            if window.began > now - WINDOW_SECONDS or len(over) == MOST_LOADS:
                break
            over.append(number)
        for number in over:
            window = self._windows.pop(number)
            load = _load_of(window, now)
            if load.writes_per_second:
                self._windows[number] = WriteWindow(window.slot, now, window.slot.writes, load.writes_per_second)
            told = self._told.get(number)
            if told is None or not load.is_near(told):
                self._due[number] = load

    def _leads(self, number: int) -> bool:
        slot = self._slots.get(number)
        return slot is not None and slot.leads

    def _forget(self, number: int) -> None:
        self._windows.pop(number, None)
        self._told.pop(number, None)
        self._due.pop(number, None)


def _load_of(window: WriteWindow, now: float) -> SlotLoad:
    slot, seconds = window.slot, now - window.began
    rate = (slot.writes - window.writes) / seconds
    if window.rate is not None:
        rate = window.rate + (rate - window.rate) * -math.expm1(-seconds / MEAN_SECONDS)
    # A rate that is not noticeable is none, so that the slot need not be looked at for ever.
    return SlotLoad(slot.store.size, slot.store.payload, rate if rate > NEAR_WRITES / 2 else 0.0)
