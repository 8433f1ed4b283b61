"""What is fair: every server's share of led and followed slots, by weight, within what is possible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from slotreeve import Draft, Server

from slotreeve_balancer.zones import Zones

Rank = tuple[int, int]


@dataclass(frozen=True)
class Quotas:
    """How many slots each server is to have. ``wanted`` adds up to the number there is to give; the share of every
    server lies between ``low`` and ``high``, which are at most 1 apart.
    """

    low: Mapping[str, int]
    high: Mapping[str, int]
    wanted: Mapping[str, int]

    @classmethod
    def near(cls, shares: Mapping[str, Fraction], have: Mapping[str, int], rank: Mapping[str, Rank]) -> Quotas:
        """The quotas that ask for the fewest moves: of the servers whose share is no whole number those keep the larger
        part that have it already; then the lowest ranks get it, then the first names."""
        low = {name: floor(share) for name, share in shares.items()}
        high = {name: ceil(share) for name, share in shares.items()}
        wanted = dict(low)
        spare = int(sum(shares.values())) - sum(low.values())
        uneven = [name for name in shares if high[name] > low[name]]
        uneven.sort(key=lambda name: (have[name] <= low[name], rank[name], name))
        for name in uneven[:spare]:
            wanted[name] += 1
        return cls(low, high, wanted)


@dataclass(frozen=True)
class Targets:
    """What every server is to lead and to follow.

    Attributes:
        to_follow: what each server would follow if leaders were as wanted and nothing was copied.
    """

    leaders: Quotas
    followers: Quotas
    to_follow: dict[str, int]

    @classmethod
    def of(cls, draft: Draft, servers: Sequence[Server], copies: int, zones: Zones) -> Targets:
        """The targets that ask for the fewest moves from the draft as it is. Slots without a leader, and gaps among
        the followers, count as slots to be given away."""
        slots, names = len(draft.slots), draft.servers
        led = {name: draft.leads(name) for name in names}
        held = {name: led[name] + draft.follows(name) for name in names}
        by_lead = leader_shares(slots, servers)
        # A larger part is best given to whoever can be promoted to it, then to whoever holds much already.
        rank = {name: (-int(_promotable(draft, name, by_lead)), -held[name]) for name in names}
        leaders = Quotas.near(by_lead, led, rank)
        to_follow = {name: held[name] - leaders.wanted[name] for name in names}
        by_follow = follower_shares(slots, copies, servers, zones, leaders.wanted)
        # Slots of a server that leads too much change followers for the sake of promotions; it had better keep its own.
        rank = {name: (leaders.wanted[name] - led[name], -held[name]) for name in names}
        return cls(leaders, Quotas.near(by_follow, to_follow, rank), to_follow)


def _promotable(draft: Draft, name: str, shares: Mapping[str, Fraction]) -> bool:
    """Whether the server follows a slot of one that leads too many, without leading its own share."""
    if draft.leads(name) >= shares[name]:
        return False
    leaders = (draft.leader(slot) for slot in draft.followed_by(name))
    return any(leader is not None and draft.leads(leader) >= shares[leader] + 1 for leader in leaders)


def leader_shares(slots: int, servers: Sequence[Server]) -> dict[str, Fraction]:
    """Each server's fair number of led slots."""
    weights = {server.name: Fraction(server.weight) for server in servers}
    return _divide(Fraction(slots), weights, dict.fromkeys(weights, Fraction(slots)))


def follower_shares(
    slots: int, copies: int, servers: Sequence[Server], zones: Zones, leads: Mapping[str, int]
) -> dict[str, Fraction]:
    """Each server's fair number of followed slots, when each slot has ``copies`` copies and the servers are to lead
    ``leads`` slots.

    No server can hold a slot twice, and no zone more than its limit of copies of each slot; what that takes from one
    goes to the others.
    """
    weights: defaultdict[str, dict[str, Fraction]] = defaultdict(dict)
    limits: defaultdict[str, dict[str, Fraction]] = defaultdict(dict)
    for server in servers:
        zone = zones.zone_of(server.name)
        weights[zone][server.name] = Fraction(server.weight)
        limits[zone][server.name] = Fraction(slots - leads[server.name])
    by_zone = _divide(
        Fraction(slots * (copies - 1)),
        {zone: sum(members.values(), Fraction()) for zone, members in weights.items()},
        {
            zone: min(
                sum(members.values(), Fraction()),
                Fraction(slots * zones.limit - sum(leads[name] for name in members)),
            )
            for zone, members in limits.items()
        },
    )
    shares: dict[str, Fraction] = {}
    for zone, amount in by_zone.items():
        shares |= _divide(amount, weights[zone], limits[zone])
    return shares


def _divide(amount: Fraction, weights: Mapping[str, Fraction], limits: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """``amount`` by weight; nobody gets more than its limit, and what it cannot take goes to the others."""
    shares: dict[str, Fraction] = {}
    open_names = set(weights)
    while open_names:
        total = sum((weights[name] for name in open_names), Fraction())
        full = {name for name in open_names if amount * weights[name] >= limits[name] * total}
        if not full:
            return shares | {name: amount * weights[name] / total for name in open_names}
        # Whoever is full at this division stays full at the next: the others' parts only grow.
        shares |= {name: limits[name] for name in full}
        amount -= sum((limits[name] for name in full), Fraction())
        open_names -= full
    return shares
