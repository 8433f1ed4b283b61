"""The balancer ``even``: every server within one slot of its fair share, with the fewest moves.

A step does what can be done at once, in this order:

1. copies that stand in a zone too often move to another zone;
2. leaders: a server that leads too many slots hands them to followers that lead too few, each in one move; the
   demoted leader stays as a follower, so nothing is copied;
3. followers: a server that holds too many slots gives followed ones to servers that hold too few, first of all slots
   whose leaders are to change, so that the newcomer can be promoted at the next step.

Only where none of this is left to do but a server is still off its share: leaders go over a third server's slots, or
a copy is made for the sake of a promotion; followed slots go over a third server.

Who is to have the larger part of a share that is no whole number is decided by who has it already: a table that is
even stays as it is, and a server that left and came back takes its share and disturbs nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotreeve import Draft, Limits, Plan, Server, SlotTable

from slotreeve_balancer.even_followers import FollowerMoves
from slotreeve_balancer.even_leaders import LeaderMoves
from slotreeve_balancer.options import EvenBalancerOptions
from slotreeve_balancer.shares import Quotas, Targets
from slotreeve_balancer.zones import Zones


class EvenBalancer:
    """See the module."""

    def __init__(self, options: EvenBalancerOptions) -> None:
        self._options = options

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """As the port says."""
        draft = Draft(table, servers)
        copies = min(limits.replicas, len(servers))
        zones = Zones(servers, copies)
        targets = Targets.of(draft, servers, copies, zones)
        even = self._is_even(targets.leaders, {name: draft.leads(name) for name in draft.servers})
        even = even and self._is_even(targets.followers, targets.to_follow)
        leader_moves = LeaderMoves(draft, zones, targets.leaders, self._options.moves_per_server)
        follower_moves = FollowerMoves(draft, zones, targets, leader_moves)
        follower_moves.separate_zones()
        if even:
            return draft.plan()
        leader_moves.hand_to_followers()
        follower_moves.give_to_needy()
        if not draft.moves:
            leader_moves.hand_over_a_third()
        if not draft.moves:
            follower_moves.give_over_a_third()
        if not draft.moves:
            leader_moves.prepare_promotions()
        return draft.plan()

    def _is_even(self, quotas: Quotas, have: Mapping[str, int]) -> bool:
        slack = self._options.tolerance
        return all(quotas.low[name] - slack <= count <= quotas.high[name] + slack for name, count in have.items())
