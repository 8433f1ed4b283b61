"""Callers that keep leases, each a process of its own: they register, renew, end and abandon them all the time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from slotreeve.errors import ClientError, TransportError
from slotreeve_client import Client, Subscription
from slotreeve_protocol.leases import lease_id_of

from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.lease_watch import LeaseWatch, WatchedLease
from slotreeve_simulator.trace import Trace, Weight

TTLS_SECONDS = (2.0, 3.0, 5.0)
PAUSE_SECONDS = 0.5
LEASES = 6
"""A caller keeps so many."""
ABANDONED, ENDED = 0.05, 0.05
"""Probabilities that a caller abandons or ends a lease after a pause."""
SEEN_SECONDS = 1.0
"""In a calm cluster a lease is seen so long after its registration was acknowledged."""


class LeaseCaller:
    """One caller with leases of one service, which is also a subscriber of it. Times are those of ``now``."""

    def __init__(self, client: Client, service: str, watch: LeaseWatch, trace: Trace, rng: random.Random) -> None:
        self._client, self._service, self._watch, self._trace, self._rng = client, service, watch, trace, rng
        self._number = 0
        self._kept: dict[str, WatchedLease] = {}
        self._registered_at: dict[str, float] = {}
        self._seen: set[str] = set()
        client.subscribe(service, self._changed)

    def _changed(self, subscription: Subscription) -> None:
        present = {lease_id_of(instance.register_id) for instance in subscription.instances}
        self._watch.seen(self._service, self._seen, present)
        self._seen = present

    async def run(self, now: Callable[[], float]) -> None:
        """Call for ever."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.1, PAUSE_SECONDS))
            try:
                await self._call(now)
            except (ClientError, TransportError) as error:
                self._trace.note(Weight.DETAIL, f"a call for leases of {self._service}: {type(error).__name__}")

    async def _call(self, now: Callable[[], float]) -> None:
        if len(self._kept) < LEASES:
            await self._register(self._new(), now)
        chance = self._rng.random()
        if chance < ABANDONED:
            del self._kept[self._rng.choice(sorted(self._kept))]
        elif chance < ABANDONED + ENDED:
            await self._end(self._kept.pop(self._rng.choice(sorted(self._kept))), now)
        else:
            await self._renew(now)

    def _new(self) -> WatchedLease:
        self._number += 1
        lease_id = f"{self._service}.{self._number}"
        return self._watch.add(self._client_service, lease_id, self._rng.choice(TTLS_SECONDS))

    @property
    def _client_service(self) -> str:
        return f"{self._service}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"

    async def _register(self, lease: WatchedLease, now: Callable[[], float]) -> None:
        self._kept[lease.lease_id] = lease
        sent = now()
        try:
            await self._client.leases.register(self._service, lease.lease_id, "x", ttl_seconds=lease.ttl)
        finally:
            lease.touched = now()
        self._watch.acknowledged(lease, sent)
        self._registered_at[lease.lease_id] = now()

    async def _end(self, lease: WatchedLease, now: Callable[[], float]) -> None:
        lease.is_open = True
        try:
            await self._client.leases.deregister(self._service, lease.lease_id)
        finally:
            lease.touched = now()

    async def _renew(self, now: Callable[[], float]) -> None:
        kept, sent = dict(self._kept), now()
        if not kept:
            return
        try:
            answers = await self._client.leases.renew_many({self._service: sorted(kept)})
        finally:
            for lease in kept.values():
                lease.touched = now()
        unknown = answers.unknown.get(self._client_service, set())
        unanswered = answers.unanswered.get(self._client_service, set())
        for lease_id, lease in kept.items():
            if lease_id in unknown:
                self._trace.note(Weight.DETAIL, f"lease {lease_id} is unknown")
                self._watch.called_unknown(lease)
            elif lease_id not in unanswered:
                self._watch.acknowledged(lease, sent)
        for lease_id in sorted(unknown):
            await self._register(kept[lease_id], now)

    def unseen(self, now: float) -> str | None:
        """A lease that this subscriber does not see although it must; None if there is none."""
        for lease_id, lease in self._kept.items():
            since = now - self._registered_at.get(lease_id, now)
            if since > SEEN_SECONDS and self._watch.must_live(lease) and lease_id not in self._seen:
                return f"a subscriber does not see {lease}, which was renewed"
        return None


class LeaseCallers:
    """The callers of one run."""

    def __init__(
        self, count: int, seed: int, cluster: ScenarioCluster, watch: LeaseWatch, trace: Trace, now: Callable[[], float]
    ) -> None:
        self._count, self._seed, self._cluster = count, seed, cluster
        self._watch, self._trace, self._now = watch, trace, now
        self._callers: list[LeaseCaller] = []
        self._tasks: list[asyncio.Task[None]] = []

    def come_all(self) -> None:
        """Start them."""
        loop = asyncio.get_running_loop()
        for number in range(1, self._count + 1):
            client = self._cluster.client(name=f"gateway-{number}")
            rng = random.Random(f"{self._seed}/leases/{number}")
            caller = LeaseCaller(client, f"leased-{number}", self._watch, self._trace, rng)
            self._callers.append(caller)
            self._tasks.append(loop.create_task(caller.run(self._now)))

    def problem(self) -> str | None:
        """What is wrong in a calm cluster; None if nothing is. Raises what ended a caller."""
        for task in self._tasks:
            if task.done():
                task.result()
        return next((problem for caller in self._callers if (problem := caller.unseen(self._now())) is not None), None)

    async def leave_all(self) -> None:
        """End them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
