"""What a history says of leases: none may end early, and none may stay (I16). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

HELD_SECONDS = 60.0
"""For so long the guard against mass expiry may hold a lease back (``data.brake_hold_seconds``)."""
FAULT_SECONDS = 20.0
"""A fault of the run, and the recovery from it, may take so long: meanwhile nothing ends."""


@dataclass
class _Known:
    ttl: float
    kept_until: float
    lapsed_at: float | None = None


class LeaseChecks:
    """The leases of a history, fed in the order of time. Each method returns sentences about what is broken.

    A renewal counts from the moment at which it was sent: the leader has it later, so the lease lives longer.

    Attributes:
        registered: number of registrations.
        lapsed_seconds: for each lease that ended, how long after its time to live it was seen to be gone.
    """

    def __init__(self) -> None:
        self.registered = 0
        self.lapsed_seconds: list[float] = []
        self._known: dict[str, _Known] = {}

    def leased(self, record: Mapping[str, Any]) -> None:
        """A registration was acknowledged."""
        self.registered += 1
        self._known[record["register_id"]] = _Known(record["ttl"], record["sent"] + record["ttl"])

    def renewed(self, record: Mapping[str, Any]) -> None:
        """A renewal was acknowledged."""
        for register_id in record["register_ids"]:
            known = self._known[register_id]
            known.kept_until = max(known.kept_until, record["sent"] + known.ttl)

    def unknown(self, record: Mapping[str, Any]) -> Iterator[str]:
        """A renewal was answered: there is no such lease."""
        known = self._known[record["register_id"]]
        if record["t"] < known.kept_until:
            early = known.kept_until - record["t"]
            yield f"{record['register_id']} was unknown {early:.2f} s before its time to live had passed"

    def lapses(self, record: Mapping[str, Any]) -> None:
        """Nobody renews it from here on."""
        if (known := self._known.get(record["register_id"])) is not None:
            known.lapsed_at = record["t"]

    def disappeared(self, record: Mapping[str, Any], gone: set[str]) -> Iterator[str]:
        """A subscriber does not see these any more."""
        for register_id in sorted(gone & self._known.keys()):
            known = self._known[register_id]
            if record["t"] < known.kept_until:
                early = known.kept_until - record["t"]
                yield f"{register_id} was gone {early:.2f} s before its time to live had passed"
            elif known.lapsed_at is not None:
                self.lapsed_seconds.append(max(0.0, record["t"] - known.lapsed_at - known.ttl))

    def overdue(self, register_id: str, now: float, late_seconds: float) -> str:
        """What is wrong with a lease that is seen; empty: nothing. For ``late_seconds`` the run got no processor."""
        known = self._known.get(register_id)
        if known is None or known.lapsed_at is None:
            return ""
        after = now - known.lapsed_at - known.ttl
        # A new leader of the slot grants the whole time anew.
        if after <= known.ttl + HELD_SECONDS + FAULT_SECONDS + late_seconds:
            return ""
        return f"{register_id} is seen {after:.1f} s after its time to live, and nobody renews it"

    def may_remain(self, register_id: str) -> bool:
        """Whether it is a lease that nobody renews: when it ends is not said to the moment."""
        known = self._known.get(register_id)
        return known is not None and known.lapsed_at is not None
