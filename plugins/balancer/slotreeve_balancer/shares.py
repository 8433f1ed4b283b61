"""Fair shares: the number of slots that each server should lead and follow, by weight."""

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
    """The number of slots that each server should have.

    Attributes:
        low, high: the fair share rounded down and up.
        wanted: either ``low`` or ``high``; the sum is the number of slots that there are.
    """

    low: Mapping[str, int]
    high: Mapping[str, int]
    wanted: Mapping[str, int]

    @classmethod
    def near(cls, shares: Mapping[str, Fraction], have: Mapping[str, int], rank: Mapping[str, Rank]) -> Quotas:
        """The quotas with the fewest moves. Of the servers whose share is not a whole number, those get ``high`` that
        have it already, then those of the lowest rank, then those with the first names."""
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
    """The number of slots that every server should lead and follow.

    Attributes:
        leaders: quotas of led slots.
        followers: quotas of followed slots.
        to_follow: number of slots that each server would follow if it led its quota and no copy was made.
    """

    leaders: Quotas
    followers: Quotas
    to_follow: dict[str, int]

    @classmethod
    def of(cls, draft: Draft, servers: Sequence[Server], copies: int, zones: Zones) -> Targets:
        """The targets with the fewest moves from the present draft. Missing leaders and followers count as slots to
        give away."""
        slots, names = len(draft.slots), draft.servers
        led = {name: draft.leads(name) for name in names}
        held = {name: led[name] + draft.follows(name) for name in names}
        by_lead = leader_shares(slots, servers)
        # ``high`` is best given to servers that can be promoted to it, then to those that hold many slots already.
        rank = {name: (-int(_promotable(draft, name, by_lead)), -held[name]) for name in names}
        leaders = Quotas.near(by_lead, led, rank)
        to_follow = {name: held[name] - leaders.wanted[name] for name in names}
        by_follow = follower_shares(slots, copies, servers, zones, leaders.wanted)
        # Slots of a server that leads too many change followers for the sake of promotions, so it should keep its own.
        rank = {name: (leaders.wanted[name] - led[name], -held[name]) for name in names}
        return cls(leaders, Quotas.near(by_follow, to_follow, rank), to_follow)


def _promotable(draft: Draft, name: str, shares: Mapping[str, Fraction]) -> bool:
    """Whether the server leads less than its share and follows a slot of a server that leads too many."""
    if draft.leads(name) >= shares[name]:
        return False
    leaders = (draft.leader(slot) for slot in draft.followed_by(name))
    return any(leader is not None and draft.leads(leader) >= shares[leader] + 1 for leader in leaders)


def leader_shares(slots: int, servers: Sequence[Server]) -> dict[str, Fraction]:
    """The fair number of led slots of each server."""
    weights = {server.name: Fraction(server.weight) for server in servers}
    return _divide(Fraction(slots), weights, dict.fromkeys(weights, Fraction(slots)))


def follower_shares(
    slots: int, copies: int, servers: Sequence[Server], zones: Zones, leads: Mapping[str, int]
) -> dict[str, Fraction]:
    """The fair number of followed slots of each server, if each slot has ``copies`` copies and the servers lead
    ``leads`` slots.

    A server can hold a slot only once, and a zone only its limit of copies of each slot. Slots that a server or zone
    cannot take go to the others.
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
    """Divide ``amount`` by weight. No name gets more than its limit; the rest goes to the others."""
    shares: dict[str, Fraction] = {}
    open_names = set(weights)
    while open_names:
        total = sum((weights[name] for name in open_names), Fraction())
        full = {name for name in open_names if amount * weights[name] >= limits[name] * total}
        if not full:
            return shares | {name: amount * weights[name] / total for name in open_names}
        # A name that is full now is full in every later round, because parts only grow.
        shares |= {name: limits[name] for name in full}
        amount -= sum((limits[name] for name in full), Fraction())
        open_names -= full
    return shares
