"""Whole clusters on virtual time: a service of many times the largest frame, beside small ones."""

from __future__ import annotations

import asyncio
import random

from slotreeve_client import Client, Subscription
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_simulator.simulated_cluster import SimulatedCluster

LARGE = "com.example.Large"
SMALL = [f"com.example.Small{number}" for number in range(20)]
INSTANCES = 4_000
PAYLOAD = "x" * 200
LIMITS = ChannelLimits(max_frame_bytes=256 * 1024, queue_bytes=1024 * 1024)
"""The large service is more than five frames, and more than the queue of a connection takes."""
SETTINGS = {"node.part_bytes": 32 * 1024}


class Watcher:
    """Subscribes to the large service and the small ones, and counts what it sees go."""

    def __init__(self, client: Client) -> None:
        self.client, self.vanished = client, 0
        self._complete: set[str] = set()
        self.large = client.subscribe(LARGE, self._changed)
        self.small = [client.subscribe(service, self._changed) for service in SMALL]

    def _changed(self, subscription: Subscription) -> None:
        enough = INSTANCES if subscription is self.large else 1
        if len(subscription.instances) >= enough:
            self._complete.add(subscription.data_info_id)
        elif subscription.data_info_id in self._complete:
            self.vanished += 1

    @property
    def is_complete(self) -> bool:
        small = [len(subscription.instances) for subscription in self.small]
        return len(self.large.instances) == INSTANCES and small == [1] * len(SMALL)


async def gaps(cluster: SimulatedCluster) -> int:
    return sum(cluster.session(name).counters()["change_gaps"] for name in cluster.names if name.startswith("session"))


async def published(cluster: SimulatedCluster) -> tuple[Client, Watcher]:
    """All services, and a watcher that sees all of them."""
    provider = cluster.client(name="provider", window=1_000)
    for number in range(INSTANCES):
        provider.publish(LARGE, f"{number}{PAYLOAD}")
    for service in SMALL:
        provider.publish(service, "here")
    await provider.flush()
    watcher = Watcher(cluster.client(name="watcher"))
    await cluster.until(lambda: watcher.is_complete, "the watcher sees all")
    return provider, watcher


async def small_changes_arrive(provider: Client, watcher: Watcher, cluster: SimulatedCluster) -> float:
    """A new provider of each small service is seen, and goes again; returns how long that took."""
    extra = [provider.publish(service, "there") for service in SMALL]
    took = await cluster.until(
        lambda: all(len(subscription.instances) == 2 for subscription in watcher.small), "the small services go on"
    )
    for publication in extra:
        publication.unpublish()
    await cluster.until(lambda: watcher.is_complete, "the small services are as before")
    return took


def test_a_service_larger_than_a_frame_survives_both_its_data_servers_beside_undisturbed_others() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, data=4, settings=SETTINGS, limits=LIMITS) as cluster:
            provider, watcher = await published(cluster)
            assert await small_changes_arrive(provider, watcher, cluster) < 0.5
            assert await gaps(cluster) == 0
            for _ in range(2):
                number = large_slot(cluster)
                leader = cluster.views()[0].table.slots[number].leader
                assert leader is not None
                cluster.kill(leader)
                await asyncio.sleep(1.0)
                await cluster.ready()
                await cluster.until(lambda: watcher.is_complete, "all is there after a leader's death")
                assert await small_changes_arrive(provider, watcher, cluster) < 0.5
            assert watcher.vanished == 0
            assert len(await watcher.client.get(LARGE)) == INSTANCES

    run(scenario, seed=5)


def test_clients_that_move_with_a_large_service_find_and_bring_all_of_it() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, session=3, settings=SETTINGS, limits=LIMITS) as cluster:
            provider, watcher = await published(cluster)
            late = [Watcher(cluster.client(name=f"late-{number}")) for number in range(5)]
            await cluster.until(lambda: all(one.is_complete for one in late), "late subscribers see all")
            for client in ("watcher", "provider"):
                server = next(n for n in cluster.names if cluster.address(n) == cluster.clients[client].server)
                cluster.network.cut(client, server)
            await asyncio.sleep(2.0)
            await provider.flush()
            await cluster.until(lambda: all(one.is_complete for one in (watcher, *late)), "all is there after the move")
            assert await small_changes_arrive(provider, watcher, cluster) < 0.5
            await provider.close()
            await cluster.until(lambda: all(not one.large.instances for one in (watcher, *late)), "it is gone")

    run(scenario, seed=6)


def large_slot(cluster: SimulatedCluster) -> int:
    """The slot of the large service."""
    for server in cluster.names:
        if server.startswith("data") and server in cluster.servers:
            for number, slot in cluster.data(server).core.slots.held.items():
                if any(name.startswith(LARGE) for name in slot.store.services):
                    return number
    raise AssertionError("no data server holds the large service")
