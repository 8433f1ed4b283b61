"""Checks of leases at each instant (I16): none ends early, none lives on or comes back, and no answer is wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from slotreeve.catalogue import build_plugin
from slotreeve.model.datum import NO_VERSION
from slotreeve.offers import Port
from slotreeve.ports import Context, SlotFunction
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_protocol.leases import lease_id_of, lease_suffix
from slotreeve_servers.data.endings.ending import DRIFT
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.node.membership import LEASE_HEARTBEATS
from slotreeve_servers.settings import Settings

from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.copies_watch import CopiesWatch
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict


@dataclass(eq=False)
class WatchedLease:
    """One lease of the simulation. Times are seconds since the start of the run.

    Attributes:
        ttl: its time to live in seconds.
        until: it must not end before; of the last request that was acknowledged.
        version: of its service, when its registration was acknowledged. Until then it may be seen and vanish: a leader
            shows what it stores at once, and what its followers have not confirmed yet may be lost with it.
        touched: when the last request that may have prolonged it can have been carried out at the latest; infinite
            while one is under way.
        register_id: the register id of its record.
        is_open: a request is under way that may end it, or its caller has ended it.
        is_doubtful: a registration of it has failed, and may still be carried out at any time.
        has_ended: its end was acknowledged, and nobody registers it again.
        lost_at: when all complete copies of it were lost together.
    """

    service: str
    lease_id: str
    ttl: float
    until: float = 0.0
    version: int = NO_VERSION
    touched: float = 0.0
    is_open: bool = False
    is_doubtful: bool = False
    has_ended: bool = False
    lost_at: float = -1.0

    def __post_init__(self) -> None:
        """Keep what is needed at each instant."""
        self.register_id = self.lease_id + lease_suffix(self.service)

    def __str__(self) -> str:
        return f"lease {self.lease_id}"


class LeaseWatch:
    """All leases of a run, and the checks of them."""

    def __init__(
        self,
        cluster: ScenarioCluster,
        copies: CopiesWatch,
        now: Callable[[], float],
        trace: Trace,
        verdict: RunVerdict,
    ) -> None:
        self._cluster, self._copies, self._now, self._trace, self._verdict = cluster, copies, now, trace, verdict
        settings = cluster.settings
        facts = Context(settings.cluster.name, settings.cluster.slots, VirtualClock(), random.Random(0))
        function = build_plugin(Port.SLOT_FUNCTION, settings.slot_function.use, facts)
        assert isinstance(function, SlotFunction)
        self._slot_of = function.slot_of
        self._leases: dict[tuple[str, str], WatchedLease] = {}
        self._by_slot: dict[int, list[WatchedLease]] = {}

    def add(self, service: str, lease_id: str, ttl: float) -> WatchedLease:
        """A new lease."""
        lease = self._leases[service, lease_id] = WatchedLease(service, lease_id, ttl)
        self._by_slot.setdefault(self._slot_of(service), []).append(lease)
        return lease

    # --- what callers see --------------------------------------------------------------------------------------------

    def acknowledged(self, lease: WatchedLease, sent: float) -> None:
        """A request sent then was acknowledged: the lease was registered or renewed."""
        if sent > lease.lost_at:
            lease.lost_at = -1.0
        if not self.must_live(lease):
            lease.version = self._version(lease.service)
        lease.until = max(lease.until, sent + lease.ttl)

    def ended(self, lease: WatchedLease) -> None:
        """Its end was acknowledged."""
        lease.has_ended = not lease.is_doubtful

    def called_unknown(self, lease: WatchedLease) -> None:
        """A renewal was answered with unknown."""
        if self._must_live_now(lease):
            self._verdict.violate(
                "I16", f"{lease} is unknown {lease.until - self._now():.3f} s before its time is over"
            )

    def seen(self, service: str, version: int, before: Iterable[str], present: set[str]) -> None:
        """A subscriber sees these lease ids now, and saw others before. ``version``: of the service as it sees it; 0 if
        that is not known."""
        for lease_id in sorted(set(before) - present):
            lease = self._leases.get((service, lease_id))
            self._trace.note(Weight.DETAIL, f"lease {lease_id} is seen no more")
            if lease is None or NO_VERSION < version < lease.version:
                continue
            if self._must_live_now(lease):
                early = lease.until - self._now()
                self._verdict.violate("I16", f"{lease} is seen no more {early:.3f} s before its time is over")

    def must_live(self, lease: WatchedLease) -> bool:
        """Whether the lease was acknowledged, and its time is not over."""
        return self._now() < lease.until and not lease.is_open and lease.lost_at < 0

    def _must_live_now(self, lease: WatchedLease) -> bool:
        """The same, after a look whether its last complete copy has just been lost: callers may see that before the
        next look at the servers."""
        if self.must_live(lease):
            self.look()
        return self.must_live(lease)

    # --- what servers hold -------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Check every server that is in sync by what is committed, and runs: it has each lease that must live, and none
        whose end was acknowledged. Where no such server lived any more, the leases of the slot were lost with the last
        one, and so were their ends."""
        lost = self._copies.look()
        for number, leases in self._by_slot.items():
            if number in lost:
                for lease in leases:
                    lease.lost_at, lease.has_ended = self._now(), False
            for name, process_id in self._copies.in_sync(number):
                server = self._cluster.servers.get(name)
                if isinstance(server, DataServer) and server.process_id == process_id:
                    self._check(name, server.core.slots.get(number), leases)

    def _check(self, name: str, slot: HeldSlot | None, leases: list[WatchedLease]) -> None:
        for lease in leases:
            held = slot.store.services.get(lease.service, {}) if slot is not None else {}
            if self.must_live(lease) and lease.register_id not in held:
                early = lease.until - self._now()
                self._verdict.violate(
                    "I16", f"{name} is in sync and lacks {lease} {early:.3f} s before its time is over"
                )
            if lease.has_ended and lease.register_id in held:
                self._verdict.violate("I16", f"{name} is in sync and has {lease}, whose end was acknowledged")

    def overdue(self, bound: float, since: float) -> str | None:
        """A lease that should have ended: nobody has renewed it, or the cluster has recovered, so long ago that even
        ``bound`` seconds after its time to live are over; None if there is none."""
        for lease in self._leases.values():
            end = max(lease.touched, since) + DRIFT * DRIFT * lease.ttl + bound
            holder = self._holder(lease) if self._now() > end else None
            if holder is not None:
                silent = self._now() - lease.touched
                return f"{holder} holds {lease}, which nobody has renewed for {silent:.1f} s"
        return None

    def held(self, service: str) -> set[str]:
        """Ids of the leases of a service that the leader of its slot has now."""
        for _, slot in self._leaders(service):
            return {lease_id_of(register_id) for register_id in slot.store.services.get(service, {})}
        return set()

    def _version(self, service: str) -> int:
        versions = [
            slot.version if (tracked := slot.tracked.get(service)) is None else tracked.version
            for _, slot in self._leaders(service)
        ]
        return max(versions, default=NO_VERSION)

    def _holder(self, lease: WatchedLease) -> str | None:
        for name, slot in self._leaders(lease.service):
            if lease.register_id in slot.store.services.get(lease.service, {}):
                return name
        return None

    def version_of(self, service: str) -> int:
        """The version of the slot of a service at its leader; 0 where none leads it."""
        return max((slot.version for _, slot in self._leaders(service)), default=0)

    def _leaders(self, service: str) -> Iterator[tuple[str, HeldSlot]]:
        """Every server that leads the slot of a service, or still takes itself for its leader."""
        number = self._slot_of(service)
        for name, server in self._cluster.servers.items():
            slot = server.core.slots.get(number) if isinstance(server, DataServer) else None
            if slot is not None and slot.leads:
                yield name, slot


def longest_end(settings: Settings) -> float:
    """For how many seconds after its time to live a lease that nobody renews may last, with all that may delay its
    end."""
    hold = settings.data.brake_hold_seconds
    beats = 1 + LEASE_HEARTBEATS * DRIFT
    return DRIFT * (hold + beats * settings.meta.heartbeat_seconds + 1.0)
