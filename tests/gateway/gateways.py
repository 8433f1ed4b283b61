"""Tests of gateways on a simulated cluster."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping

from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.simulated_cluster import SimulatedCluster


def with_cluster(
    body: Callable[[SimulatedCluster], Awaitable[None]], settings: Mapping[str, object] | None = None, seed: int = 1
) -> None:
    """Run ``body`` on a settled cluster, in virtual time."""

    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, settings=settings) as cluster:
            await body(cluster)

    run(scenario, seed=seed)
