"""Whole clusters on virtual time: clients that lose their session server while others are frozen or late."""

from __future__ import annotations

import asyncio
import random

from slotreeve_client import Client, Subscription
from slotreeve_conformance.simulated import simulated
from slotreeve_simulator.processor import SimulatedProcessor, load_costs
from slotreeve_simulator.simulated_cluster import SimulatedCluster

SERVICES = [f"com.example.Service{number}" for number in range(20)]


class Fewest:
    """The fewest instances that a subscriber has seen of each service since :meth:`begin`."""

    def __init__(self, client: Client) -> None:
        self._subscriptions = [client.subscribe(service, self._changed) for service in SERVICES]
        self.fewest: dict[str, int] = {}

    def _changed(self, subscription: Subscription) -> None:
        count = len(subscription.instances)
        self.fewest[subscription.data_info_id] = min(self.fewest.get(subscription.data_info_id, count), count)

    async def begin(self) -> None:
        await asyncio.gather(*(subscription.ready() for subscription in self._subscriptions))
        self.fewest = {s.data_info_id: len(s.instances) for s in self._subscriptions}


async def check_a_loss(rng: random.Random, frozen: str, frozen_later: str) -> None:
    """The provider loses its connection to session-1 while another session server is frozen. That one goes on after the
    time of an attempt and tells the data servers that it does not have the client. The third one has said so before,
    and is then frozen itself. So nothing but the client keeps the registrations."""
    async with SimulatedCluster(rng, session=3) as cluster:
        provider, consumer = cluster.client("session-1", name="provider"), cluster.client("session-1", name="consumer")
        for service in SERVICES:
            provider.publish(service, "here")
        await provider.flush()
        view = Fewest(consumer)
        await view.begin()
        await asyncio.sleep(3)
        cluster.freeze(frozen)
        cluster.network.cut("provider", "session-1")
        await asyncio.sleep(0.6)
        cluster.freeze(frozen_later)
        await asyncio.sleep(0.9)
        cluster.thaw(frozen)
        await asyncio.sleep(1)
        cluster.thaw(frozen_later)
        await asyncio.sleep(10)
        assert set(view.fewest.values()) == {1}


@simulated
async def test_nothing_vanishes_when_a_connection_is_lost_while_the_other_session_servers_freeze_in_turn(
    rng: random.Random,
) -> None:
    await check_a_loss(rng, "session-2", "session-3")
    await check_a_loss(rng, "session-3", "session-2")


@simulated
async def test_two_frozen_session_servers_are_passed_before_the_registrations_may_be_removed(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, session=3) as cluster:
        provider = cluster.client("session-1", name="provider")
        await provider.connected()
        await asyncio.sleep(3)
        cluster.freeze("session-2")
        cluster.freeze("session-3")
        cluster.network.cut("provider", "session-1")
        await asyncio.sleep(0.3)
        assert provider.server == cluster.address("session-1")


CLIENTS = 200


class SlowCluster(SimulatedCluster):
    """A cluster whose session servers take 45 times as long as real ones: answering half of the clients takes longer
    than a sign of life, and less than the second of an attempt, however unevenly the clients choose."""

    def processor(self, name: str) -> SimulatedProcessor | None:
        processor = SimulatedProcessor(asyncio.get_running_loop().time, load_costs())
        processor.slowness = 45.0 if name.startswith("session") else 1.0
        self.network.processors[name] = processor
        return processor


@simulated
async def test_a_herd_that_comes_to_slow_session_servers_opens_one_connection_for_each_client(
    rng: random.Random,
) -> None:
    async with SlowCluster(rng, session=3) as cluster:
        clients = [cluster.client("session-1", name=f"client-{number}") for number in range(CLIENTS)]
        for client in clients:
            client.publish("com.example.Herd", "here")
        await asyncio.gather(*(client.flush() for client in clients))
        others = {cluster.address(name) for name in ("session-2", "session-3")}
        cluster.kill("session-1")
        began = asyncio.get_running_loop().time()
        dialled: set[tuple[str, str]] = set()
        while not all(client.server in others for client in clients):
            for name in ("session-2", "session-3"):
                dialled |= {(name, peer) for peer in cluster.network.connections(name) if peer.startswith("client-")}
            await asyncio.sleep(0.02)
            assert asyncio.get_running_loop().time() < began + 30
        assert asyncio.get_running_loop().time() > began + 0.25, "some clients must wait longer than for a sign of life"
        assert len(dialled) == CLIENTS
        assert {client.statistics().reconnections for client in clients} == {1}


@simulated
async def test_a_goodbye_does_not_wait_for_a_session_server_that_stands_still_again_and_again(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, session=3) as cluster:
        provider, consumer = cluster.client("session-1", name="provider"), cluster.client("session-1", name="consumer")
        subscription = consumer.subscribe(SERVICES[0], lambda _: None)
        publication = provider.publish(SERVICES[0], "here")
        await cluster.until(lambda: len(subscription.instances) == 1, "the consumer sees the provider", 20)

        async def stand_still() -> None:
            while True:
                cluster.freeze("session-3")
                await asyncio.sleep(0.25)
                cluster.thaw("session-3")
                await asyncio.sleep(0.1)

        standing = asyncio.create_task(stand_still())
        await asyncio.sleep(2)
        publication.unpublish()
        await cluster.until(lambda: not subscription.instances, "the consumer sees it leave", 0.3, poll_seconds=0.01)
        provider.publish(SERVICES[0], "here")
        await cluster.until(lambda: len(subscription.instances) == 1, "the consumer sees the provider again", 20)
        await provider.close()
        await cluster.until(lambda: not subscription.instances, "the consumer sees it leave", 0.3, poll_seconds=0.01)
        standing.cancel()
