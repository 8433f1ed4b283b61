"""A killed client is gone within what ``slotreeve explain staleness`` says, also where circumstances come together."""

from __future__ import annotations

import asyncio
import random
from itertools import product

import pytest
from slotreeve_cli.explain import killed_client
from slotreeve_conformance.virtual_time import run
from slotreeve_servers.settings import Settings
from slotreeve_simulator.simulated_cluster import SimulatedCluster

HERD = 12
LOOK_SECONDS = 0.05


async def slowest_end(rng: random.Random, frozen: bool, leaderless: bool, herd: bool, apart: float) -> float:
    """How long the slowest of the killed clients was visible, in seconds. ``apart``: seconds between two deaths."""
    async with SimulatedCluster(rng, session=3) as cluster:
        names = [f"victim-{number}" for number in range(HERD if herd else 1)]
        victims = [cluster.client("session-1", name=name) for name in names]
        for name, victim in zip(names, victims, strict=True):
            victim.publish(name, "x")
        consumer = cluster.client("session-3")
        views = {name: consumer.subscribe(name) for name in names}
        await cluster.until(lambda: all(view.instances for view in views.values()), "all are seen")
        if frozen:
            cluster.freeze("session-2")
        if leaderless:
            for name in [name for name in cluster.servers if name.startswith("meta")]:
                cluster.kill(name)
        clock = asyncio.get_running_loop().time
        killed_at: dict[str, float] = {}
        for name in names:
            cluster.kill(name)
            killed_at[name] = clock()
            await asyncio.sleep(apart)
        slowest = 0.0
        while killed_at:
            await asyncio.sleep(LOOK_SECONDS)
            for name in [name for name in killed_at if not views[name].instances]:
                slowest = max(slowest, clock() - killed_at.pop(name))
        return slowest


@pytest.mark.parametrize("apart", [0.0, 0.3])
@pytest.mark.parametrize(("frozen", "leaderless", "herd"), list(product([False, True], repeat=3)))
def test_a_killed_client_is_gone_within_the_bound(frozen: bool, leaderless: bool, herd: bool, apart: float) -> None:
    what, bound, _ = killed_client(Settings(), frozen, leaderless, herd)
    seconds = run(lambda rng: slowest_end(rng, frozen, leaderless, herd, apart), seed=1)
    assert seconds <= bound + LOOK_SECONDS, what
