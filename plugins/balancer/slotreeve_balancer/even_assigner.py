"""The assigner ``even``: it promotes followers, and fills other places with the servers furthest below their fair
share.

Giving the copies of each slot to the servers that lack the most slots leads to an even table whenever there is one (as
in the proof of the theorem of Gale and Ryser), so that a first assignment leaves nothing for the balancer to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from slotreeve import Draft, Limits, Plan, Server, SlotTable

from slotreeve_balancer.lacks import Lacks
from slotreeve_balancer.shares import Targets
from slotreeve_balancer.zones import Zones


class EvenAssigner:
    """The assigner ``even``. Complete slots come before zones, and zones before fair shares."""

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """See :meth:`slotreeve.ports.Assigner.assign`."""
        draft = Draft(table, servers)
        copies = min(limits.replicas, len(servers))
        zones = Zones(servers, copies)
        _assign_leaders(draft, Targets.of(draft, servers, copies, zones).leaders.wanted)
        _assign_followers(draft, copies - 1, zones, Targets.of(draft, servers, copies, zones).followers.wanted)
        return draft.plan()


def _assign_leaders(draft: Draft, wanted: Mapping[str, int]) -> None:
    leaderless = [slot for slot in draft.slots if draft.leader(slot) is None]
    # Slots with the fewest followers first. A slot without followers can go to any server, so these come last.
    followed = sorted((s for s in leaderless if draft.followers(s)), key=lambda slot: len(draft.followers(slot)))
    for slot in followed:
        heir = min(draft.followers(slot), key=lambda name: (draft.leads(name) - wanted[name], name))
        draft.lead(slot, heir, f"{draft.departed_leader(slot) or 'its leader'} left; {heir} followed it")

    # In proportion, so that a server of large weight does not lead many slots in a row.
    def lack(name: str) -> float:
        return 1 - draft.leads(name) / wanted[name] if wanted[name] else -float(draft.leads(name))

    lacks = Lacks((name, lack(name)) for name in draft.servers)
    for slot in leaderless:
        if draft.leader(slot) is None and (taker := lacks.take(lambda name: True)) is not None:
            draft.lead(
                slot, taker, f"no server held the slot; {taker} led {draft.leads(taker)}, its share is {wanted[taker]}"
            )
            lacks.put_back(taker, lack(taker))


def _assign_followers(draft: Draft, needed: int, zones: Zones, wanted: Mapping[str, int]) -> None:
    lacks = Lacks((name, wanted[name] - draft.follows(name)) for name in draft.servers)
    # From the last slot to the first, because leaders are given out from the first on. In the same order the last slots
    # would find that only their own leaders lack slots.
    for slot in reversed(draft.slots):
        while len(draft.followers(slot)) < needed:
            holders = [draft.leader(slot), *draft.followers(slot)]
            target = lacks.take(partial(_fits, holders, zones)) or lacks.take(partial(_fits, holders, None))
            if target is None:
                break
            reason = (
                f"the slot lacked a follower; {target} followed {draft.follows(target)}, its share is {wanted[target]}"
            )
            draft.follow(slot, target, reason)
            lacks.put_back(target, wanted[target] - draft.follows(target))


def _fits(holders: Sequence[str | None], zones: Zones | None, name: str) -> bool:
    return name not in holders and (zones is None or zones.has_room(name, holders))
