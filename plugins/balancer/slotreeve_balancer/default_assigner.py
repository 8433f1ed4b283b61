"""The assigner ``default`` (original: ``DefaultSlotAssigner``, ``MigrateSlotGroup``).

First every slot without a leader gets one: a follower of the slot that leads less than the high-water mark, else the
server that leads the fewest slots. Then every slot that lacks followers gets the servers that follow the fewest slots.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slotreeve import Draft, Limits, Plan, Server, SlotTable

from slotreeve_balancer.options import DefaultAssignerOptions
from slotreeve_balancer.water_marks import ceil_average, high_water_mark


class DefaultAssigner:
    """The assigner ``default``. Its results equal the original's wherever that does not depend on hash order."""

    def __init__(self, options: DefaultAssignerOptions) -> None:
        self._threshold = options.threshold_percent

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """See :meth:`slotreeve.ports.Assigner.assign`."""
        draft = Draft(table, servers)
        leaderless = [slot for slot in draft.slots if draft.leader(slot) is None]
        lacking = {slot: lack for slot in draft.slots if (lack := limits.replicas - 1 - len(draft.followers(slot))) > 0}
        high = high_water_mark(ceil_average(len(table.slots), len(servers)), self._threshold)
        for slot in sorted(_walk(leaderless), key=lambda slot: len(draft.followers(slot)) or len(table.slots)):
            if _assign_leader(draft, slot, high):
                lacking[slot] = lacking.get(slot, 0) + 1
        for slot in sorted(_walk(lacking), key=lambda slot: -lacking[slot]):
            for _ in range(lacking[slot]):
                _assign_follower(draft, slot)
        return draft.plan()


def _walk(slots: Collection[int]) -> list[int]:
    """The slots in the iteration order of Java's hash sets, by which the original breaks ties: ascending by their
    lowest bits, as many bits as a set of that size uses."""
    capacity = 16
    while len(slots) * 4 > capacity * 3:
        capacity *= 2
    return sorted(slots, key=lambda slot: slot % capacity)


def _assign_leader(draft: Draft, slot: int, high: int) -> bool:
    """Give the slot a leader. True if the leader was a follower of the slot."""
    departed = draft.departed_leader(slot)
    why = f"{departed} left" if departed else "the slot had no leader"
    followers = draft.followers(slot)
    if followers:
        best = min(followers, key=lambda name: (draft.leads(name), draft.follows(name), name))
        if draft.leads(best) < high:
            draft.lead(slot, best, f"{why}; {best} followed it")
            return True
    least = next(draft.least_leaders())
    was_follower = least in followers
    draft.lead(slot, least, f"{why}; {least} led the fewest slots")
    return was_follower


def _assign_follower(draft: Draft, slot: int) -> None:
    """Add the server that follows the fewest slots and does not hold this one; none if every server holds it."""
    for name in draft.least_followers():
        if not draft.holds(name, slot):
            draft.follow(slot, name, f"the slot lacked a follower; {name} followed the fewest slots")
            return
