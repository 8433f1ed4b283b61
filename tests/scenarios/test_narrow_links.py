"""Links that take less than processes have to send: what does not fit waits, and no connection ends for it."""

from __future__ import annotations

import asyncio
import random

from slotreeve_client.administration import put_config
from slotreeve_conformance.simulated import simulated
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

QUEUE_BYTES = 512 * 1024
BYTES_PER_SECOND = 1e6
SERVICES = [f"com.example.Wide{number}" for number in range(100)]
INSTANCES = 20
PAYLOAD = b"x" * 1000


def narrow(rng: random.Random) -> SimulatedCluster:
    """A cluster whose connections hold little, as those with narrow links and short queues."""
    cluster = SimulatedCluster(rng, limits=ChannelLimits(queue_bytes=QUEUE_BYTES))
    cluster.network.under_way_packets = 4
    return cluster


@simulated
async def test_a_client_that_subscribes_to_more_than_its_queue_holds_gets_all_of_it_and_stays(
    rng: random.Random,
) -> None:
    async with narrow(rng) as cluster:
        provider, observer = cluster.client("session-2", name="provider"), cluster.client("session-2", name="observer")
        for service in SERVICES:
            for _ in range(INSTANCES):
                provider.publish(service, PAYLOAD)
        await provider.flush()
        client = cluster.client("session-1", name="slow")
        client.publish("com.example.Slow", "here")
        await client.flush()
        seen: list[int] = []
        watched = observer.subscribe("com.example.Slow", lambda one: seen.append(len(one.instances)))
        await watched.ready()
        cluster.network.bytes_per_second = BYTES_PER_SECOND
        subscriptions = [client.subscribe(service) for service in SERVICES]
        async with asyncio.timeout(60):
            await asyncio.gather(*(subscription.ready() for subscription in subscriptions))
        assert {len(subscription.instances) for subscription in subscriptions} == {INSTANCES}
        assert client.statistics().reconnections == 0
        await asyncio.sleep(2)
        assert set(seen) == {1}


@simulated
async def test_a_client_that_publishes_more_than_its_queue_holds_has_all_of_it_stored_and_stays(
    rng: random.Random,
) -> None:
    async with narrow(rng) as cluster:
        client = cluster.client("session-1", name="fast")
        await client.connected()
        cluster.network.bytes_per_second = BYTES_PER_SECOND
        publications = [client.publish(service, PAYLOAD) for service in SERVICES for _ in range(INSTANCES)]
        async with asyncio.timeout(60):
            await client.flush()
        assert len(await client.get(SERVICES[0])) == INSTANCES
        assert all(publication.is_acknowledged for publication in publications)
        assert client.statistics().reconnections == 0


@simulated
async def test_a_frozen_client_whose_queue_is_full_has_the_rest_of_its_lease_to_come_back(rng: random.Random) -> None:
    async with narrow(rng) as cluster:
        client, observer = cluster.client("session-1", name="frozen"), cluster.client("session-2", name="observer")
        client.publish("com.example.Slow", "here")
        await client.flush()
        seen: list[int] = []
        await observer.subscribe("com.example.Slow", lambda one: seen.append(len(one.instances))).ready()
        watch = client.watch_config("large")
        await watch.ready()
        operator = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
        metas = [cluster.address(f"meta-{number}") for number in (1, 2, 3)]
        cluster.freeze("frozen")
        for _ in range(20):
            await put_config(operator, "slotreeve", metas, "large", PAYLOAD * 100, None)
        await asyncio.sleep(1)
        assert not cluster.session("session-1").core.clients
        await asyncio.sleep(5)
        cluster.thaw("frozen")
        await cluster.until(lambda: watch.version == 20, "the client is back")
        assert set(seen) == {1}
        cluster.freeze("frozen")
        for _ in range(20):
            await put_config(operator, "slotreeve", metas, "large", PAYLOAD * 100, None)
        await asyncio.sleep(9)
        assert set(seen) == {1}
        await asyncio.sleep(3)
        assert seen[-1] == 0
