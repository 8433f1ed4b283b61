"""The balancer ``even``: every server gets within one slot of its fair share, with the fewest moves.

A step makes all moves of these kinds that are possible at once, in this order:

1. zones: where a zone holds too many copies of a slot, one moves to another zone;
2. leaders: a server that leads too many slots hands some to followers that lead too few. The former leader stays a
   follower, so no data is copied;
3. followers: a server that holds too many slots hands followed slots to servers that hold too few. It prefers slots
   whose leader must change, because the new follower can be promoted in the next step.

If no such move is left and a server still is off its share, slots move by way of a third server, or a server gets a
copy of a slot in order to be promoted later.

With the option ``loads``, leaders of an even table then trade slots (:mod:`slotreeve_balancer.even_loads`).

A share that is not a whole number has a smaller and a larger whole part. A server that has the larger part keeps it, so
an even table is not changed, and a server that left and came back only moves its own share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotreeve import Draft, Limits, Plan, Server, SlotLoad, SlotTable

from slotreeve_balancer.even_followers import FollowerMoves
from slotreeve_balancer.even_leaders import LeaderMoves
from slotreeve_balancer.even_loads import FIGURES, LoadTrades
from slotreeve_balancer.options import EvenBalancerOptions
from slotreeve_balancer.shares import Quotas, Targets
from slotreeve_balancer.zones import Zones


class EvenBalancer:
    """The balancer ``even``."""

    def __init__(self, options: EvenBalancerOptions) -> None:
        self._options = options

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """See :meth:`slotreeve.ports.Balancer.balance`."""
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
            if not draft.moves:
                self._spread_load(draft, servers)
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

    def _spread_load(self, draft: Draft, servers: Sequence[Server]) -> None:
        """Spread the load of the slots, whose numbers are even; this balancer knows no loads."""

    def _is_even(self, quotas: Quotas, have: Mapping[str, int]) -> bool:
        slack = self._options.tolerance
        return all(quotas.low[name] - slack <= count <= quotas.high[name] + slack for name, count in have.items())


class LoadAwareEvenBalancer(EvenBalancer):
    """The balancer ``even`` with the option ``loads``. It follows :class:`slotreeve.ports.LoadAware`."""

    def __init__(self, options: EvenBalancerOptions, loads: Mapping[int, float] | None = None) -> None:
        super().__init__(options)
        self._loads = loads or {}

    def with_loads(self, loads: Mapping[int, SlotLoad]) -> LoadAwareEvenBalancer:
        """See :meth:`slotreeve.ports.LoadAware.with_loads`."""
        figure = FIGURES[self._options.loads]
        return LoadAwareEvenBalancer(self._options, {slot: float(figure(load)) for slot, load in loads.items()})

    def _spread_load(self, draft: Draft, servers: Sequence[Server]) -> None:
        LoadTrades(draft, servers, self._loads, self._options.moves_per_server).spread()
