"""Whole clusters on virtual time: the leads of slots follow their load."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from functools import partial

from slotreeve_client import Client, Publication, Subscription
from slotreeve_conformance.simulated import simulated
from slotreeve_servers.meta.arranging.loads import PAUSE_SECONDS
from slotreeve_simulator.simulated_cluster import SimulatedCluster

SETTINGS = {"cluster.slots": 24, "cluster.replicas": 2, "balancer.use": "even"}
SERVICES = [f"com.example.Service{number}" for number in range(120)]
DATA = ["data-1", "data-2", "data-3"]


class GapWatcher:
    """Subscribes to services with one provider each. ``gaps``: those that were seen without it, once it was there."""

    def __init__(self, client: Client) -> None:
        self.seen, self.gaps = set[str](), list[str]()
        for service in SERVICES:
            client.subscribe(service, partial(self._changed, service))

    def _changed(self, service: str, subscription: Subscription) -> None:
        if len(subscription.instances) == 1:
            self.seen.add(service)
        elif service in self.seen:
            self.gaps.append(service)


class Busy:
    """A provider of every service. Those in some slots of one server write again all the time: they are ``hot``."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster, self.client = cluster, cluster.client(name="provider")
        self.publications = {service: self.client.publish(service, "here") for service in SERVICES}
        self.hot: dict[int, Publication] = {}

    async def begin(self, slots: int) -> str:
        """Make ``slots`` slots of one server hot; returns the server."""
        await self.client.flush()
        for server in DATA:
            found: dict[int, Publication] = {}
            for slot in self.cluster.data(server).core.slots.led():
                for service in slot.store.services:
                    found[slot.slot.id] = self.publications[service.partition("#")[0]]
            if len(found) >= slots:
                self.hot = dict(list(found.items())[:slots])
                return server
        raise AssertionError("no server leads so many slots with services")

    async def write(self, seconds: float) -> None:
        """Twenty writes a second to each hot slot."""
        for number in range(round(seconds * 20)):
            for publication in self.hot.values():
                publication.republish(f"there-{number}")
            await asyncio.sleep(0.05)

    def leaders(self) -> Counter[str | None]:
        """The leaders of the hot slots."""
        table = self.cluster.views()[0].table
        return Counter(table.slots[number].leader for number in self.hot)


def led(cluster: SimulatedCluster) -> dict[str | None, int]:
    return Counter(slot.leader for slot in cluster.views()[0].table.slots)


async def watched(cluster: SimulatedCluster, hot: int) -> tuple[Busy, GapWatcher, str]:
    busy = Busy(cluster)
    server = await busy.begin(hot)
    watcher = GapWatcher(cluster.client("session-2", name="watcher"))
    await cluster.until(lambda: len(watcher.seen) == len(SERVICES), "all are seen")
    return busy, watcher, server


@simulated
async def test_the_leads_of_hot_slots_are_spread_over_the_servers_and_no_subscriber_sees_a_gap(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, meta=1, settings={**SETTINGS, "balancer.even.loads": "writes"}) as cluster:
        busy, watcher, server = await watched(cluster, 4)
        before, counts = cluster.views()[0].table.epoch, led(cluster)
        assert busy.leaders() == {server: 4}
        await busy.write(2.5 * PAUSE_SECONDS)
        assert max(busy.leaders().values()) <= 2
        assert led(cluster) == counts, "every server leads as many slots as before"
        spread = cluster.views()[0].table.epoch
        assert before < spread <= before + 2
        await busy.write(4 * PAUSE_SECONDS)
        assert cluster.views()[0].table.epoch == spread, "steady loads move nothing again"
        assert watcher.gaps == []
        assert cluster.meta("meta-1").counters()["balancer_stopped"] == 0
        await cluster.ready()


@simulated
async def test_without_the_option_loads_move_no_slot(rng: random.Random) -> None:
    async with SimulatedCluster(rng, meta=1, settings=SETTINGS) as cluster:
        busy, _, server = await watched(cluster, 4)
        before = cluster.views()[0].table.epoch
        await busy.write(2.5 * PAUSE_SECONDS)
        assert cluster.views()[0].table.epoch == before
        assert busy.leaders() == {server: 4}


@simulated
async def test_a_meta_leader_that_takes_over_is_told_the_loads_again(rng: random.Random) -> None:
    settings = {**SETTINGS, "balancer.even.loads": "writes"}
    async with SimulatedCluster(rng, meta=3, settings=settings) as cluster:
        busy, watcher, _ = await watched(cluster, 4)
        await busy.write(PAUSE_SECONDS / 2)
        assert cluster.leader is not None
        cluster.kill(cluster.leader)
        await busy.write(2.5 * PAUSE_SECONDS)
        assert max(busy.leaders().values()) <= 2
        assert watcher.gaps == []
