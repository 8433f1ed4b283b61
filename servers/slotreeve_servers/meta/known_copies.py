"""What a meta leader knows of the copies of slots. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from slotreeve.model.slots import Slot


@dataclass(frozen=True)
class KnownCopies:
    """Which copies the data servers have reported.

    Attributes:
        unsettled: by each server that has reported under the present table, the slots of which it lacks something.
        recent: by server, the slots that it held completely until a moment ago, when it lost the leader.
    """

    unsettled: Mapping[str, Set[int]]
    recent: Mapping[str, Set[int]]

    def settled(self, server: str, slot: int) -> bool:
        """Whether the server has reported that it holds the slot completely."""
        return server in self.unsettled and slot not in self.unsettled[server]

    def recently_settled(self, server: str, slot: int) -> bool:
        """Whether the server has reported that it held the slot completely until it lost the leader."""
        return slot in self.recent.get(server, ())

    def lack(self, server: str, slot: int) -> int:
        """How far a copy is from a complete one: 0, 1 for one that was complete a moment ago, else 2. Under a new table
        nobody has reported yet: those count that had the slot under the one before."""
        return 0 if self.settled(server, slot) else 1 if self.recently_settled(server, slot) else 2

    def ready_heirs(self, slot: Slot, live: Set[str]) -> tuple[str, ...]:
        """The living followers of a slot in sync; where there is none, those that were until a moment ago."""
        followers = [name for name in slot.followers if name in live]
        ready = tuple(name for name in followers if self.settled(name, slot.id))
        return ready or tuple(name for name in followers if self.recently_settled(name, slot.id))
