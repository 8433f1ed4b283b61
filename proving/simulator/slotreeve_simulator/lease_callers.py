"""Callers that keep leases: they register, renew, end and abandon them all the time."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Protocol

from slotreeve.errors import ClientError, TransportError
from slotreeve.model.data_info import DataInfo

from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.gateway_watch import GatewayWatch
from slotreeve_simulator.http_dialects import HTTP_DIALECTS
from slotreeve_simulator.lease_watch import LeaseWatch, WatchedLease
from slotreeve_simulator.leases_by_client import LeasesByClient
from slotreeve_simulator.leases_by_gateway import LeasesByGateway
from slotreeve_simulator.scenario import WorkloadPlan
from slotreeve_simulator.trace import Trace, Weight

TTLS_SECONDS = (2.0, 3.0, 5.0)
PAUSE_SECONDS = 0.5
LEASES = 6
"""A caller keeps so many."""
ABANDONED, ENDED = 0.05, 0.05
"""Probabilities that a caller abandons or ends a lease after a pause."""
SEEN_SECONDS = 1.0
"""In a calm cluster a lease is seen so long after its registration was acknowledged."""


class LeaseUse(Protocol):
    """How a caller reaches the registry. All methods raise ClientError or TransportError where they fail.

    Attributes:
        seen: ids of the leases of its service that it sees now.
    """

    seen: set[str]

    async def register(self, lease_id: str, ttl: float) -> None:
        """Register a lease."""

    async def renew(self, lease_ids: list[str]) -> tuple[set[str], set[str]]:
        """Renew leases. Those that are unknown, and those of which nobody said anything."""

    async def end(self, lease_id: str) -> None:
        """End a lease."""

    async def follow(self) -> None:
        """Keep ``seen`` current, for ever."""


class LeaseCaller:
    """One caller with leases of one service. Times are those of ``now``."""

    def __init__(
        self, use: LeaseUse, service: str, watch: LeaseWatch, trace: Trace, rng: random.Random, *, is_steady: bool
    ) -> None:
        self.service = service
        self._is_steady = is_steady
        self._use, self._watch, self._trace, self._rng = use, watch, trace, rng
        self._number = 0
        self._kept: dict[str, WatchedLease] = {}
        self._registered_at: dict[str, float] = {}
        self._succeeded_at = -math.inf
        self._failure = "none has failed"
        self._forgotten = (-math.inf, "")

    async def run(self, now: Callable[[], float]) -> None:
        """Call for ever."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.1, PAUSE_SECONDS))
            try:
                await self._call(now)
                self._succeeded_at = now()
            except (ClientError, TransportError) as error:
                self._failure = f"{error.code} {error}"
                self._trace.note(Weight.DETAIL, f"a call for leases of {self.service}: {type(error).__name__}")

    async def _call(self, now: Callable[[], float]) -> None:
        if len(self._kept) < LEASES:
            await self._register(self._new(), now)
        chance = 1.0 if self._is_steady else self._rng.random()
        if chance < ABANDONED:
            del self._kept[self._rng.choice(sorted(self._kept))]
        elif chance < ABANDONED + ENDED:
            await self._end(self._kept.pop(self._rng.choice(sorted(self._kept))), now)
        else:
            await self._renew(now)

    def _new(self) -> WatchedLease:
        self._number += 1
        return self._watch.add(
            DataInfo.parse(self.service).id, f"{self.service}.{self._number}", self._rng.choice(TTLS_SECONDS)
        )

    async def _register(self, lease: WatchedLease, now: Callable[[], float]) -> None:
        self._kept[lease.lease_id] = lease
        sent, lease.touched = now(), math.inf
        try:
            await self._use.register(lease.lease_id, lease.ttl)
        except (ClientError, TransportError):
            lease.is_doubtful = True
            raise
        finally:
            lease.touched = now()
        self._watch.acknowledged(lease, sent)
        self._registered_at[lease.lease_id] = now()

    async def _end(self, lease: WatchedLease, now: Callable[[], float]) -> None:
        lease.is_open = True
        try:
            await self._use.end(lease.lease_id)
        finally:
            lease.touched = now()
        self._watch.ended(lease)

    async def _renew(self, now: Callable[[], float]) -> None:
        kept, sent = dict(self._kept), now()
        if not kept:
            return
        for lease in kept.values():
            lease.touched = math.inf
        try:
            unknown, unanswered = await self._use.renew(sorted(kept))
        finally:
            for lease in kept.values():
                lease.touched = now()
        for lease_id, lease in kept.items():
            if lease_id in unknown:
                self._trace.note(Weight.DETAIL, f"lease {lease_id} is unknown")
                self._watch.called_unknown(lease)
                if lease_id in self._registered_at:  # else nobody has said that there is such a lease
                    self._forgotten = now(), lease_id
            elif lease_id not in unanswered:
                self._watch.acknowledged(lease, sent)
        for lease_id in sorted(unknown):
            await self._register(kept[lease_id], now)

    def stuck_since(self, at: float) -> str | None:
        """That no call has succeeded after then; None if one has."""
        if self._succeeded_at > at:
            return None
        return f"no call for leases of {self.service} has succeeded since; the last failure: {self._failure}"

    def forgotten_since(self, at: float) -> str | None:
        """A lease that was called unknown after then; None if there is none."""
        when, lease_id = self._forgotten
        return lease_id if when > at else None

    def unseen(self, now: float) -> str | None:
        """A lease that it does not see although it must; None if there is none."""
        for lease_id, lease in self._kept.items():
            since = now - self._registered_at.get(lease_id, now)
            if since > SEEN_SECONDS and self._watch.must_live(lease) and lease_id not in self._use.seen:
                return f"a subscriber does not see {lease}, which was renewed"
        return None


class LeaseCallers:
    """The callers of one run. Where there are gateways they call those, else each is a client."""

    def __init__(
        self,
        workload: WorkloadPlan,
        seed: int,
        cluster: ScenarioCluster,
        watch: LeaseWatch,
        gateway_watch: GatewayWatch,
        trace: Trace,
        now: Callable[[], float],
    ) -> None:
        self._workload, self._seed = workload, seed
        self._cluster, self._gateways = cluster, gateway_watch.gateways
        self._watch, self._gateway_watch, self._trace, self._now = watch, gateway_watch, trace, now
        self._callers: list[LeaseCaller] = []
        self._tasks: list[asyncio.Task[None]] = []

    def come_all(self) -> None:
        """Start them."""
        loop = asyncio.get_running_loop()
        for number in range(1, self._workload.lease_callers + 1):
            service, rng = f"leased-{number}", random.Random(f"{self._seed}/leases/{number}")
            use = self._use(service, number)
            is_steady = number <= self._workload.steady_callers
            caller = LeaseCaller(use, service, self._watch, self._trace, rng, is_steady=is_steady)
            self._callers.append(caller)
            self._tasks.append(loop.create_task(caller.run(self._now)))
            self._tasks.append(loop.create_task(use.follow()))

    def _use(self, service: str, number: int) -> LeaseUse:
        if not self._gateways.count:
            return LeasesByClient(self._cluster.client(name=f"gateway-{number}"), service, self._watch)
        dialects = list(HTTP_DIALECTS.values())
        writes, reads = dialects[(number - 1) % len(dialects)], dialects[number % len(dialects)]
        return LeasesByGateway(self._gateways, service, writes, reads, self._gateway_watch)

    async def problem(self) -> str | None:
        """What is wrong in a calm cluster; None if nothing is. Raises what ended a caller."""
        for task in self._tasks:
            if task.done():
                task.result()
        problem = next((found for caller in self._callers if (found := caller.unseen(self._now())) is not None), None)
        if problem is None and self._gateways.count:
            problem = await self._gateway_watch.problem([caller.service for caller in self._callers])
        return problem

    def stuck_since(self, at: float) -> str | None:
        """The first caller of which no call has succeeded after then; None if there is none."""
        return next((stuck for caller in self._callers if (stuck := caller.stuck_since(at)) is not None), None)

    def forgotten_since(self, at: float) -> str | None:
        """The first lease that was called unknown after then; None if there is none."""
        return next((found for caller in self._callers if (found := caller.forgotten_since(at)) is not None), None)

    async def leave_all(self) -> None:
        """End them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
