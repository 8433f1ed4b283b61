"""All gateways of a run: any of them is asked, as behind a load balancer."""

from __future__ import annotations

import asyncio
import random

from slotreeve.errors import ClientError

from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.http_dialects import HTTP_DIALECTS, HttpCall
from slotreeve_simulator.simulated_gateway import GatewayAnswer, SimulatedGateway

CALL_SECONDS = 10.0
"""How long a caller waits for an answer, beside what it asked the gateway to wait."""
IDLE_SECONDS, SWEEP_SECONDS = 6.0, 2.0
TRAVEL_SECONDS = 0.0005
"""How long a request or an answer is under way between a caller and a gateway."""


class SimulatedGateways:
    """The gateways of one run, called ``gateway-1``, ... Their callers have no process of their own.

    Attributes:
        count: how many run without faults.
        running: those that run now, by name.
    """

    def __init__(self, count: int, seed: int, cluster: ScenarioCluster) -> None:
        self.count = count
        self._names = [f"gateway-{number + 1}" for number in range(count)]
        self._cluster, self._rng = cluster, random.Random(f"{seed}/gateways")
        self._calls: dict[str, set[asyncio.Task[GatewayAnswer]]] = {name: set() for name in self._names}
        self._starting: set[asyncio.Task[None]] = set()
        self._sweeping: dict[str, asyncio.Task[None]] = {}
        self._dead: list[SimulatedGateway] = []
        self.running: dict[str, SimulatedGateway] = {}

    def come_all(self) -> None:
        """Start them."""
        for name in self._names:
            self.come(name)

    def come(self, name: str) -> None:
        """Start one, which knows nothing of an earlier one of this name."""
        self._starting.add(asyncio.get_running_loop().create_task(self._come(name), name=f"start {name}"))

    async def _come(self, name: str) -> None:
        gateway = SimulatedGateway(self._cluster, name, idle_seconds=IDLE_SECONDS)
        for face in HTTP_DIALECTS:
            await gateway.start_face(face)
        self.running[name] = gateway
        self._sweeping[name] = asyncio.get_running_loop().create_task(self._sweep(gateway), name=f"sweep of {name}")

    async def _sweep(self, gateway: SimulatedGateway) -> None:
        while True:
            await gateway.clock.sleep(SWEEP_SECONDS)
            gateway.views.sweep()

    def ended(self, name: str) -> None:
        """It is killed now: nobody who asked it gets an answer."""
        # Killed processes are kept to the end, because their tasks sleep for ever and must not be garbage-collected.
        self._dead.append(self.running.pop(name))
        self._sweeping.pop(name).cancel()
        for call in self._calls[name]:
            call.cancel()

    async def ask(self, call: HttpCall, name: str = "") -> GatewayAnswer:
        """Ask a gateway, by default any that runs.

        Raises:
            ClientError: it has not answered in time, it ended, or none runs.
        """
        if not self.running or (name and name not in self.running):
            raise ClientError("no gateway runs")
        chosen = name or self._rng.choice(sorted(self.running))
        task = asyncio.get_running_loop().create_task(self._ask(self.running[chosen], call), name="request")
        self._calls[chosen].add(task)
        try:
            done, _ = await asyncio.wait([task], timeout=call.wait_seconds + CALL_SECONDS)
        finally:
            self._calls[chosen].discard(task)
            task.cancel()
        if not done or task.cancelled():
            raise ClientError(f"{chosen} does not answer {call.path}")
        return task.result()

    async def _ask(self, gateway: SimulatedGateway, call: HttpCall) -> GatewayAnswer:
        await gateway.clock.sleep(TRAVEL_SECONDS)
        answer = await gateway.ask(call.method, call.path, call.body, call.headers)
        # The time of a gateway that is paused stands still, so its answer comes later.
        await gateway.clock.sleep(TRAVEL_SECONDS)
        return answer

    def problem(self) -> str | None:
        """Why not all of them run; None if they do. Raises what ended a start or a sweep."""
        for task in [*self._starting, *self._sweeping.values()]:
            if task.done():
                task.result()
        absent = [name for name in self._names if name not in self.running]
        return f"{absent[0]} does not run" if absent else None

    async def leave_all(self) -> None:
        """End them."""
        for task in self._sweeping.values():
            task.cancel()
        await asyncio.gather(*self._sweeping.values(), return_exceptions=True)
