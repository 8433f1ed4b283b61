"""How evenly slots lie on servers, against the fair shares that weights and zones allow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from slotreeve import Server, SlotTable


def led(table: SlotTable) -> Counter[str]:
    """Slots led, by server."""
    return Counter(slot.leader for slot in table.slots if slot.leader is not None)


def followed(table: SlotTable) -> Counter[str]:
    """Slots followed, by server."""
    return Counter(name for slot in table.slots for name in slot.followers)


def spread(counts: Counter[str], servers: Sequence[Server]) -> int:
    """Most minus fewest."""
    numbers = [counts[server.name] for server in servers]
    return max(numbers) - min(numbers)


def uneven_share(table: SlotTable, servers: Sequence[Server], replicas: int) -> float:
    """How far the server that is farthest from its fair share is from it, in fair shares; 0 is even.

    Leaders and followers count each for themselves. A share is rounded up or down, whichever is nearer; one below one
    slot counts as one slot. The share of the leaders is by weight; that of all copies is by weight, but no zone holds
    more copies of a slot than it must (:func:`copies_shares`).
    """
    slots, weight = len(table.slots), sum(server.weight for server in servers)
    leaders, followers = led(table), followed(table)
    copies = copies_shares(servers, slots, min(replicas, len(servers)))
    farthest = 0.0
    for server in servers:
        leads = slots * server.weight / weight
        follows = max(0.0, copies[server.name] - leads)
        for share, count in ((leads, leaders[server.name]), (follows, followers[server.name])):
            # Sums of shares that are whole numbers are not always whole in floating point.
            off = max(0, count - math.ceil(share - 1e-9), math.floor(share + 1e-9) - count)
            farthest = max(farthest, off / max(1.0, share))
    return farthest


def copies_shares(servers: Sequence[Server], slots: int, copies: int) -> dict[str, float]:
    """The fair number of copies of each server: by weight, where no zone holds more copies of a slot than it must, and
    no server more than one. A server without a zone is a zone of its own."""
    zones = dict[str, dict[str, float]]()
    for server in servers:
        zones.setdefault(_zone(server), {})[server.name] = server.weight
    limit = 1
    while sum(min(limit, len(zone)) for zone in zones.values()) < min(copies, len(servers)):
        limit += 1
    most = {name: float(slots * min(limit, len(zone))) for name, zone in zones.items()}
    shares = _shared({name: sum(zone.values()) for name, zone in zones.items()}, most, slots * copies)
    found = dict[str, float]()
    for name, zone in zones.items():
        found |= _shared(zone, dict.fromkeys(zone, float(slots)), shares[name])
    return found


def _shared(weights: Mapping[str, float], most: Mapping[str, float], total: float) -> dict[str, float]:
    """``total`` shared out by weight, where nobody gets more than ``most``."""
    full = dict[str, float]()
    while len(full) < len(weights):
        rest = total - sum(full.values())
        weight = sum(own for name, own in weights.items() if name not in full)
        fair = {name: rest * own / weight for name, own in weights.items() if name not in full}
        over = {name: most[name] for name, share in fair.items() if share > most[name] + 1e-9}
        if not over:
            return full | fair
        full |= over
    return full


def _zone(server: Server) -> str:
    return f"zone {server.zone}" if server.zone else f"server {server.name}"
