"""When leases end unless they are renewed: a timing wheel that a renewal does not touch. Pure: time is an argument.

A renewal only sets the end of its lease. The wheel looks at a lease when the time has come that was its end when the
wheel looked last, and puts it aside again where it was renewed meanwhile (Varghese and Lauck 1987, corrected lazily).
"""

from __future__ import annotations

from slotreeve_servers.data.slots import HeldSlot

TICK_SECONDS = 0.25
"""A lease is found so much late at most."""


class HeldLease:
    """One lease of a slot that this server leads.

    Attributes:
        ttl: its time to live in seconds, with an allowance for clocks that differ.
        until: it ends then unless it is renewed, in attended seconds. Set it freely; after it became earlier, call
            :meth:`LeaseTimes.add`.
        is_due: its time was over when the wheel looked last, and it was not renewed since.
        tick: where the wheel has it; 0: nowhere.
    """

    __slots__ = ("data_info_id", "is_due", "lease_id", "slot", "tick", "ttl", "until")

    def __init__(self, slot: HeldSlot, data_info_id: str, lease_id: str, ttl: float, until: float) -> None:
        self.slot, self.data_info_id, self.lease_id = slot, data_info_id, lease_id
        self.ttl, self.until = ttl, until
        self.is_due = False
        self.tick = 0


class LeaseTimes:
    """The wheel.

    Invariant: each lease that was added, and neither found nor dropped since, is in the bucket of its tick, which is no
    later than its end by more than one tick.
    """

    def __init__(self, now: float) -> None:
        self._tick = _tick_of(now)
        self._buckets: dict[int, list[HeldLease]] = {}

    def add(self, lease: HeldLease) -> None:
        """Watch a lease, or look at it earlier than before."""
        tick = max(_tick_of(lease.until) + 1, self._tick)
        if not lease.tick or tick < lease.tick:
            lease.tick = tick
            self._buckets.setdefault(tick, []).append(lease)

    @staticmethod
    def drop(lease: HeldLease) -> None:
        """Watch a lease no more."""
        lease.tick = 0

    def due(self, now: float, most: int) -> list[HeldLease]:
        """Take out leases whose time is over, and look at ``most`` leases at most: the next call goes on there."""
        found: list[HeldLease] = []
        end = _tick_of(now)
        while self._tick <= end and most > 0:
            bucket = self._buckets.get(self._tick)
            while bucket and most > 0:
                lease = bucket.pop()
                most -= 1
                if lease.tick != self._tick:
                    continue  # dropped, or looked at earlier
                lease.tick = 0
                if lease.until <= now:
                    found.append(lease)
                else:
                    self.add(lease)
            if not bucket:
                self._buckets.pop(self._tick, None)
                self._tick += 1
        return found


def _tick_of(seconds: float) -> int:
    """The number of a tick, from 1 on."""
    return max(0, int(seconds / TICK_SECONDS)) + 1
