"""Trades of the balancer ``even``: leaders of slots with much load trade them for others, and lead as many as before.

In a trade each of two or more servers hands the lead of one slot to a follower of it, the next server of the trade, and
the last one to the first. No copy is made, and every server leads and follows as many slots as before, so that the
table stays as even as it is. One server of the trade gets the load that the first one loses; the others get about as
much as they give.

A server is busy if it leads more than :data:`BUSY` of its fair share of the load, by weight. Each trade takes a
noticeable part of the load from a busy server, and the sum of the squares of all servers' loads (by share) falls. So
the trades come to an end, and loads that stay as they are never lead back to an earlier table. A trade goes as far as
it can: the server is at its share afterwards rather than just below the limit, so that small changes of load move
nothing again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from slotreeve import Draft, Server, SlotLoad

BUSY = 1.1
"""Part of its fair share of the load above which a server hands load to others."""
LEAST_GAIN = 0.01
"""Part of the busy server's fair share that it must lose in a trade."""
CLEARLY = 0.4
"""Part of what the busy server leads above its share by which each other server of a trade stays below the busy one as
it is now. Otherwise one would be busy in the other's place, and with the next small change of loads the other way."""
LIGHTER = 0.8
"""Part of the load of the slot that it gives which the slot may have that the busy server gets. Loads change by a tenth
without notice, so slots of about the same load would go to and fro."""
MOST_SERVERS = 6
"""Most servers in one trade. Two usually suffice, and tables of ``default`` often need three."""
MOST_GIVEN = 32
"""Most slots of a busy server that are looked at for one trade: those of most load."""

Figure = Callable[[SlotLoad], float]
FIGURES: Mapping[str, Figure] = {
    "records": lambda load: load.records,
    "bytes": lambda load: load.bytes,
    "writes": lambda load: load.writes_per_second,
}
"""What is spread, by the value of the option ``loads``."""

Offer = tuple[float, int]
"""The load of a slot, and the slot."""


class Handover(NamedTuple):
    """``giver`` hands the lead of a slot to its follower ``taker``."""

    slot: int
    giver: str
    taker: str


class LoadTrades:
    """Trades leads on a draft whose slots are spread evenly."""

    def __init__(self, draft: Draft, servers: Sequence[Server], loads: Mapping[int, float], limit: int) -> None:
        self._draft, self._loads, self._limit = draft, loads, limit
        weight, total = sum(server.weight for server in servers), sum(map(self._load, draft.slots))
        self._shares = {server.name: total * (server.weight / weight) for server in servers}
        self._led = {name: sum(map(self._load, draft.led_by(name))) for name in draft.servers}
        self._offers: dict[str, dict[str, list[Offer]]] = {}
        self._received: Counter[str] = Counter()
        self._moved: set[int] = set()

    def spread(self) -> None:
        """Make the trades of this step, the busiest server's first."""
        if not all(share > 0.0 for share in self._shares.values()):
            return  # nothing is known to have any load
        busy = [name for name in self._draft.servers if self._part(name) > BUSY]
        if busy:
            self._offers = self._all_offers()
        for name in sorted(busy, key=lambda name: (-self._part(name), name)):
            ways = self._ways_to(name)
            while self._part(name) > 1.0 and (trade := self._best(name, ways)):
                self._make(name, trade)

    def _load(self, slot: int) -> float:
        return max(0.0, self._loads.get(slot, 0.0))

    def _part(self, name: str) -> float:
        return self._led[name] / self._shares[name]

    def _all_offers(self) -> dict[str, dict[str, list[Offer]]]:
        """By server, and by follower: the slots that the server may hand to that follower, by load."""
        offers: dict[str, dict[str, list[Offer]]] = {name: defaultdict(list) for name in self._draft.servers}
        for slot in self._draft.slots:
            leader = self._draft.leader(slot)
            for follower in self._draft.followers(slot) if leader is not None else ():
                offers[leader or ""][follower].append((self._load(slot), slot))
        for of_one in offers.values():
            for slots in of_one.values():
                slots.sort()
        return offers

    def _ways_to(self, name: str) -> dict[str, str]:
        """By server: to whom it hands a slot, so that after the fewest servers one hands a slot to ``name``."""
        givers: dict[str, list[str]] = defaultdict(list)
        for giver, takers in self._offers.items():
            for taker in takers:
                givers[taker].append(giver)
        ways: dict[str, str] = {}
        queue = deque([name])
        while queue:
            taker = queue.popleft()
            for giver in givers[taker]:
                if giver != name and giver not in ways:
                    ways[giver] = taker
                    queue.append(giver)
        return ways

    def _best(self, name: str, ways: Mapping[str, str]) -> list[Handover]:
        """The trade by which the sum of squares falls most; empty if none is worth it."""
        best, most = list[Handover](), 0.0
        least = LEAST_GAIN * self._shares[name]
        given = [(load, slot) for slot in self._draft.led_by(name) if (load := self._load(slot)) >= least]
        given.sort(key=lambda offer: (-offer[0], offer[1]))
        for _, slot in [offer for offer in given if offer[1] not in self._moved][:MOST_GIVEN]:
            for taker in self._draft.followers(slot):
                for trade in self._trades(name, slot, _way(name, taker, ways)):
                    gain = self._gain(name, trade)
                    if gain > most:
                        best, most = trade, gain
        return best

    def _trades(self, name: str, slot: int, servers: Sequence[str]) -> Iterator[list[Handover]]:
        """The trades in which ``name`` hands ``slot`` to the first of ``servers``, this one a slot to the second, and
        so on until the last hands one to ``name``; for each one of them as the one that gets the load."""
        if not servers or any(self._received[server] >= self._limit for server in (name, *servers)):
            return
        for place, heir in enumerate(servers):
            wanted = (self._part(name) - self._part(heir)) / (1 / self._shares[name] + 1 / self._shares[heir])
            for above in (True, False):
                trade, load = [Handover(slot, name, servers[0])], self._load(slot)
                for number, giver in enumerate(servers):
                    taker = servers[number + 1] if number + 1 < len(servers) else name
                    found = self._open_offer(giver, taker, load - wanted * (number == place), above)
                    if found is None:
                        break
                    trade.append(Handover(found[1], giver, taker))
                    load = found[0]
                else:
                    yield trade

    def _open_offer(self, giver: str, taker: str, load: float, above: bool) -> Offer | None:
        """The slot that ``giver`` may hand to ``taker`` whose load is the next above ``load``, or below."""
        offers = self._offers[giver].get(taker, [])
        place = bisect_left(offers, (load, -1))
        places = range(place, len(offers)) if above else range(place - 1, -1, -1)
        return next((offers[place] for place in places if offers[place][1] not in self._moved), None)

    def _gain(self, name: str, trade: Sequence[Handover]) -> float:
        """By how much the sum of squares falls; 0 if not noticeably, or if another one of the servers would lead about
        as much as ``name`` leads now."""
        if self._load(trade[-1].slot) > LIGHTER * self._load(trade[0].slot):
            return 0.0
        change: dict[str, float] = defaultdict(float)
        for handover in trade:
            change[handover.giver] -= self._load(handover.slot)
            change[handover.taker] += self._load(handover.slot)
        part = self._part(name)
        own, others = part - LEAST_GAIN, part - max(LEAST_GAIN, CLEARLY * (part - 1.0))
        gain = 0.0
        for server, load in change.items():
            before, after = self._part(server), (self._led[server] + load) / self._shares[server]
            if not after <= (own if server == name else others):
                return 0.0
            gain -= load * (before + after)
        least = LEAST_GAIN * LEAST_GAIN * min(self._shares[server] for server in change)
        return gain if gain > least else 0.0

    def _make(self, name: str, trade: Sequence[Handover]) -> None:
        why = f"{name} leads {self._part(name):.0%} of its share of the load"
        for slot, giver, taker in trade:
            back = "" if giver == name else f"{giver} gets slot {self._got(giver, trade)} for it, because "
            self._draft.lead(slot, taker, f"{back}{why}")
            self._led[giver] -= self._load(slot)
            self._led[taker] += self._load(slot)
            self._received[taker] += 1
            self._moved.add(slot)

    @staticmethod
    def _got(server: str, trade: Sequence[Handover]) -> int:
        return next(handover.slot for handover in trade if handover.taker == server)


def _way(name: str, taker: str, ways: Mapping[str, str]) -> list[str]:
    """The servers of a trade that begins with a slot for ``taker``, without ``name``; empty if there is none so
    short."""
    servers = [taker]
    while ways.get(servers[-1], name) != name:
        servers.append(ways[servers[-1]])
    return servers if servers[-1] in ways and len(servers) < MOST_SERVERS else []
