"""A herd subscribes at once at a slow session server, on virtual time: it is late, and no client leaves it."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

from slotreeve_conformance.simulated import simulated
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.peers import Peers
from slotreeve_simulator.process_clock import ProcessClock
from slotreeve_simulator.processor import SimulatedProcessor, load_costs
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.simulation.planting import replaced

SLOWNESS = 30.0
PUSH_SECONDS = 0.0025
CLIENTS = 150
SERVICES = [f"com.example.Herd{number}" for number in range(16)]


class BusyClock(ProcessClock):
    """The clock of a process whose every action waits until its processor is free. It shows the time at which what was
    done so far is over."""

    def __init__(self, processor: SimulatedProcessor) -> None:
        super().__init__(processor=processor)
        self._busy = processor
        self._soon: deque[Callable[[], None]] = deque()
        self._is_due = False

    def now(self) -> float:
        return super().now() + self._busy.busy_for()

    def call_soon(self, action: Callable[[], None]) -> None:
        self._soon.append(action)
        if not self._is_due:
            self._is_due = True
            super().call_soon(self._run_turn)

    def _run_turn(self) -> None:
        for _ in range(len(self._soon)):
            if self._busy.busy_for():
                break
            self._soon.popleft()()
        self._is_due = bool(self._soon)
        if self._is_due:
            self.call_later(self._busy.busy_for(), self._run_turn)


class SlowCluster(SimulatedCluster):
    """A cluster of which session-1 is slow.

    Attributes:
        slow: the processor of session-1.
    """

    slow: SimulatedProcessor

    def process_clock(self, name: str, wall_skew_ms: int = 0) -> ProcessClock:
        if name != "session-1":
            return super().process_clock(name, wall_skew_ms)
        self.slow = SimulatedProcessor(asyncio.get_running_loop().time, load_costs())
        self.slow.slowness = SLOWNESS
        self.network.processors[name] = self.slow
        clock = self._clocks[name] = BusyClock(self.slow)
        return clock

    def slow_pushes(self) -> AbstractContextManager[object]:
        """From now on each push of the slow server takes its time."""
        send, cluster = Peers.send_encoded, self

        def send_encoded(self: Peers, peer: Peer, frame: bytes, what: str) -> bool:
            if what == "Push":
                cluster.slow.spend(PUSH_SECONDS / SLOWNESS)
            return send(self, peer, frame, what)

        return replaced(Peers, "send_encoded", send_encoded)


@simulated
async def test_a_herd_that_subscribes_at_once_at_a_slow_session_server_stays_there(rng: random.Random) -> None:
    cluster = SlowCluster(rng)
    async with cluster:
        provider, first = cluster.client("session-2", name="provider"), cluster.client("session-1", name="first")
        for service in SERVICES:
            provider.publish(service, "here")
        await provider.flush()
        await asyncio.gather(*(first.subscribe(service).ready() for service in SERVICES))
        clients = [cluster.client("session-1", name=f"client-{number}") for number in range(CLIENTS)]
        await cluster.until(
            lambda: all(client.server == cluster.address("session-1") for client in clients), "all are connected", 60
        )
        await asyncio.sleep(5)
        began = asyncio.get_running_loop().time()
        subscriptions = [client.subscribe(service) for client in clients for service in SERVICES]
        with cluster.slow_pushes():
            await asyncio.gather(*(subscription.ready() for subscription in subscriptions))
        assert [client.statistics().reconnections for client in clients] == [0] * CLIENTS
        assert asyncio.get_running_loop().time() - began > 5.0, "it must take longer than a client waits in silence"
        assert {len(subscription.instances) for subscription in subscriptions} == {1}
