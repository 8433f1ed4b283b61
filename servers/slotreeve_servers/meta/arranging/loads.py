"""The loads of the slots, as data servers tell them in their heartbeats: what assigners and balancers are given. Pure.

Loads change all the time, and each plan costs. So what plugins get changes at most every :data:`PAUSE_SECONDS`, and
only if a load has changed noticeably: a cluster of steady load plans nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from itertools import islice
from typing import NamedTuple

from slotreeve.model.loads import NO_LOAD, SlotLoad
from slotreeve.model.slots import SlotTable
from slotreeve_protocol.meta_messages import MOST_LOADS, Heartbeat

PAUSE_SECONDS = 30.0
"""Least time between two pictures of the loads, and before the first one of a new meta leader."""
MOST_REPORTED = 1_000
"""Most loads that are handed to observers at once. The others follow with the next ones."""


class Loads(NamedTuple):
    """A picture of the loads. ``version`` is another one with each picture; 0 while there is none."""

    version: int
    by_slot: Mapping[int, SlotLoad]


NO_LOADS = Loads(0, {})


class KnownLoads:
    """What this meta leader was told.

    Attributes:
        picture: what plugins are given.
    """

    def __init__(self) -> None:
        self.picture = NO_LOADS
        self._told: dict[int, SlotLoad] = {}
        self._is_news = False
        self._unreported: dict[int, None] = {}
        self._telling: set[str] = set()
        self._pictured_at = self._reported_at = 0.0

    def clear(self, now: float) -> None:
        """Forget all of them, as a new leader does: it is told all of them again."""
        self.picture = Loads(self.picture.version + 1, {})
        self._told.clear()
        self._is_news = False
        self._unreported.clear()
        self._telling.clear()
        self._pictured_at = self._reported_at = now

    def take(self, heartbeat: Heartbeat, table: SlotTable) -> None:
        """What a heartbeat tells. Only the leader of a slot knows its load."""
        name, slots = heartbeat.node.name, table.slots
        if len(heartbeat.loads) < MOST_LOADS:
            self._telling.discard(name)
        else:
            self._telling.add(name)
        for number, load in heartbeat.loads.items():
            if 0 <= number < len(slots) and slots[number].leader == name:
                self._told[number] = load
                self._unreported[number] = None
                self._is_news = self._is_news or not load.is_near(self.picture.by_slot.get(number, NO_LOAD))

    def forget(self, name: str) -> None:
        """A server has left. What it told of its slots counts until their next leaders tell of them."""
        self._telling.discard(name)

    def look(self, now: float) -> Loads:
        """The picture; a new one where it is due: some load differs noticeably, and no server has more to tell yet."""
        if self._is_news and not self._telling and now - self._pictured_at >= PAUSE_SECONDS:
            self.picture = Loads(self.picture.version + 1, dict(self._told))
            self._is_news, self._pictured_at = False, now
        return self.picture

    def busiest(self, most: int) -> dict[int, SlotLoad]:
        """The loads of the slots that take the most writes, ``most`` of them at most; among equals those with the most
        records. Slots without any load are left out."""
        told = (
            (load.writes_per_second, load.records, -number) for number, load in self._told.items() if load != NO_LOAD
        )
        return {-number: self._told[-number] for _, _, number in nlargest(most, told)}

    def to_report(self, now: float) -> dict[int, SlotLoad]:
        """The loads that observers do not have yet, once they are due; empty where none is."""
        if not self._unreported or now - self._reported_at < PAUSE_SECONDS:
            return {}
        self._reported_at = now
        numbers = list(islice(self._unreported, MOST_REPORTED))
        for number in numbers:
            del self._unreported[number]
        return {number: self._told[number] for number in numbers}
