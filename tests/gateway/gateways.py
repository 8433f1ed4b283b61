"""Gateways without a listener on a simulated cluster: the registry as their faces see it."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping

from slotreeve_client import Client
from slotreeve_client.administration import change_overrides
from slotreeve_conformance.virtual_time import run
from slotreeve_gateway import Registry
from slotreeve_gateway.directory import ServiceDirectory
from slotreeve_gateway.views import Views
from slotreeve_protocol.overrides import Overrides
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

IDLE_SECONDS = 60.0
DIRECTORY_SECONDS = 1.0


class SimulatedGateway:
    """One gateway process; ``cluster.kill(gateway.name)`` ends it."""

    def __init__(self, cluster: SimulatedCluster, name: str, most_services: int = 100) -> None:
        self.name = name
        self.client: Client = cluster.client(name=name)
        self.clock = cluster.clock(name)
        self.views = Views(self.client, self.clock, most_services, IDLE_SECONDS)
        self.directory = ServiceDirectory(self.client, self.clock, DIRECTORY_SECONDS)
        transport = MemoryTransport(self.clock, f"{name}-admin", cluster.network)

        async def change(changed: Callable[[Overrides], Overrides]) -> Overrides:
            metas = [cluster.address(meta) for meta in cluster.servers if meta.startswith("meta")]
            return await change_overrides(transport, "slotreeve", metas, changed)

        self.registry = Registry(self.client, self.views, self.directory, change)


def with_cluster(
    body: Callable[[SimulatedCluster], Awaitable[None]], settings: Mapping[str, object] | None = None, seed: int = 1
) -> None:
    """Run ``body`` on a settled cluster, in virtual time."""

    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, settings=settings) as cluster:
            await body(cluster)

    run(scenario, seed=seed)
