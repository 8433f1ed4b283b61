"""The assigner ``even``: followers are promoted, the rest goes to whoever is furthest below its fair share.

Giving each slot's copies to the servers that still lack most ends even whenever that is possible at all (as in the
proof of the theorem of Gale and Ryser), so that nothing is left for the balancer after a first assignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from slotreeve import Draft, Limits, Plan, Server, SlotTable

from slotreeve_balancer.lacks import Lacks
from slotreeve_balancer.shares import Targets
from slotreeve_balancer.zones import Zones


class EvenAssigner:
    """See the module. Zones are respected before shares, and completeness before both."""

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """As the port says."""
        draft = Draft(table, servers)
        copies = min(limits.replicas, len(servers))
        zones = Zones(servers, copies)
        _assign_leaders(draft, Targets.of(draft, servers, copies, zones).leaders.wanted)
        _assign_followers(draft, copies - 1, zones, Targets.of(draft, servers, copies, zones).followers.wanted)
        return draft.plan()


def _assign_leaders(draft: Draft, wanted: Mapping[str, int]) -> None:
    leaderless = [slot for slot in draft.slots if draft.leader(slot) is None]
    # Slots with the least choice first; those that nobody follows can go to anybody, so they come last.
    followed = sorted((s for s in leaderless if draft.followers(s)), key=lambda slot: len(draft.followers(slot)))
    for slot in followed:
        heir = min(draft.followers(slot), key=lambda name: (draft.leads(name) - wanted[name], name))
        draft.lead(slot, heir, f"{draft.departed_leader(slot) or 'its leader'} left; {heir} followed it")

    # In proportion, so that the slots of a heavy server do not lie together: it could then follow none of them.
    def lack(name: str) -> float:
        return 1 - draft.leads(name) / wanted[name] if wanted[name] else -float(draft.leads(name))

    lacks = Lacks((name, lack(name)) for name in draft.servers)
    for slot in leaderless:
        if draft.leader(slot) is None and (taker := lacks.take(lambda name: True)) is not None:
            draft.lead(slot, taker, f"nobody held it; {taker} is to lead {wanted[taker]}, led {draft.leads(taker)}")
            lacks.put_back(taker, lack(taker))


def _assign_followers(draft: Draft, needed: int, zones: Zones, wanted: Mapping[str, int]) -> None:
    lacks = Lacks((name, wanted[name] - draft.follows(name)) for name in draft.servers)
    # From the last slot back: leaders are given out from the first on, and in the same order the last slots would find
    # nobody lacking but their own leaders.
    for slot in reversed(draft.slots):
        while len(draft.followers(slot)) < needed:
            holders = [draft.leader(slot), *draft.followers(slot)]
            target = lacks.take(partial(_fits, holders, zones)) or lacks.take(partial(_fits, holders, None))
            if target is None:
                break
            reason = f"a copy was lacking; {target} is to follow {wanted[target]}, followed {draft.follows(target)}"
            draft.follow(slot, target, reason)
            lacks.put_back(target, wanted[target] - draft.follows(target))


def _fits(holders: Sequence[str | None], zones: Zones | None, name: str) -> bool:
    return name not in holders and (zones is None or zones.has_room(name, holders))
