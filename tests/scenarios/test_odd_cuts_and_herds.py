"""Whole clusters on virtual time: single links are cut, strangers connect, and herds of clients lose their server."""

from __future__ import annotations

import asyncio
import random

from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message
from slotreeve_client import Client, Subscription
from slotreeve_conformance.simulated import simulated
from slotreeve_simulator.processor import SimulatedProcessor, load_costs
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

METAS = ["meta-1", "meta-2", "meta-3"]
SERVICES = [f"com.example.Service{number}" for number in range(40)]


class Fewest:
    """The fewest instances that a subscriber ever saw of each service, after the first push."""

    def __init__(self, client: Client, services: list[str]) -> None:
        self.fewest: dict[str, int] = {}
        self.subscriptions = [client.subscribe(service, self._changed) for service in services]

    def _changed(self, subscription: Subscription) -> None:
        count = len(subscription.instances)
        self.fewest[subscription.data_info_id] = min(self.fewest.get(subscription.data_info_id, count), count)

    async def ready(self) -> None:
        await asyncio.gather(*(subscription.ready() for subscription in self.subscriptions))
        self.fewest = {s.data_info_id: len(s.instances) for s in self.subscriptions}


async def published(client: Client, services: list[str]) -> None:
    for service in services:
        client.publish(service, "here")
    await client.flush()


@simulated
async def test_nothing_vanishes_while_the_session_servers_are_cut_off_from_the_meta_servers_alone(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider, consumer = cluster.client(name="provider"), cluster.client(name="consumer")
        await published(provider, SERVICES)
        view = Fewest(consumer, SERVICES)
        await view.ready()
        cluster.network.partition(METAS, ["session-1", "session-2"])
        await asyncio.sleep(90)
        assert not cluster.data("data-1").view.sessions
        provider.publish("com.example.Meanwhile", "here")
        await provider.flush()
        cluster.network.heal()
        await cluster.ready()
        await asyncio.sleep(10)
        assert min(view.fewest.values()) == 1


@simulated
async def test_a_client_that_sends_everything_again_while_the_last_copy_dies_is_missed_by_nobody(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, data=1) as cluster:
        provider = cluster.client("session-1", "session-2", name="provider", window=1, batch=1)
        consumer = cluster.client(name="consumer")
        await published(provider, SERVICES)
        view = Fewest(consumer, SERVICES)
        await view.ready()
        await asyncio.sleep(5)
        (before,) = (at for at in ("session-1", "session-2") if cluster.network.cut("provider", at))
        cluster.network.partition(["provider"], [before])
        cluster.kill("data-1")
        await asyncio.sleep(3)  # its former session server vouches for it no more
        await cluster.start("data-2")
        await cluster.ready()
        await asyncio.sleep(10)
        assert len(SERVICES) == sum(view.fewest.values())
        assert stored_by_sessions(cluster) == len(SERVICES), "the further copy is dropped"


@simulated
async def test_nothing_ends_at_a_leader_without_a_copy_that_waits_for_a_session_server(rng: random.Random) -> None:
    async with SimulatedCluster(rng, data=1) as cluster:
        provider = cluster.client("session-1", "session-2", name="provider", window=1, batch=1)
        await published(provider, SERVICES)
        view = Fewest(cluster.client(name="consumer"), SERVICES)
        await view.ready()
        await asyncio.sleep(5)
        (before,) = (at for at in ("session-1", "session-2") if cluster.network.cut("provider", at))
        (after,) = {"session-1", "session-2"} - {before}
        cluster.network.partition(["provider"], [before])
        cluster.kill("data-1")
        await asyncio.sleep(3)
        cluster.network.partition([after], ["data-2"])  # the client is there
        await cluster.start("data-2")
        await asyncio.sleep(15)
        cluster.network.heal()
        cluster.network.partition(["provider"], [before])
        await cluster.ready()
        await asyncio.sleep(10)
        assert len(SERVICES) == sum(view.fewest.values())
        assert stored_by_sessions(cluster) == len(SERVICES)


@simulated
async def test_a_large_client_of_one_service_that_moves_while_the_last_copy_dies_keeps_all_of_it(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, data=1) as cluster:
        provider = cluster.client("session-1", "session-2", name="provider", window=1, batch=1)
        await published(provider, SERVICES[:1] * 1_500)  # enough to be compared in parts
        view = Fewest(cluster.client(name="consumer"), SERVICES[:1])
        await view.ready()
        (before,) = (at for at in ("session-1", "session-2") if cluster.network.cut("provider", at))
        cluster.network.partition(["provider"], [before])
        cluster.kill("data-1")
        await asyncio.sleep(3)
        await cluster.start("data-2")
        await cluster.ready()
        await asyncio.sleep(30)
        assert list(view.fewest.values()) == [1_500]
        assert stored_by_sessions(cluster) == 1_500


@simulated
async def test_clients_whose_loss_the_dead_leader_knew_are_not_seen_for_long_under_one_without_a_copy(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, data=1) as cluster:
        providers = [cluster.client("session-1", name=f"provider-{number}") for number in range(10)]
        for number, provider in enumerate(providers):
            await published(provider, SERVICES[4 * number : 4 * number + 4])
        view = Fewest(cluster.client("session-2", name="consumer"), SERVICES)
        await view.ready()
        for number in range(10):
            cluster.kill(f"provider-{number}")
        await asyncio.sleep(1.5)  # so many have the grace
        assert cluster.data("data-1").core.endings.held == len(SERVICES)
        cluster.kill("data-1")
        await cluster.start("data-2")
        await cluster.ready()
        assert stored_by_sessions(cluster) == len(SERVICES)
        await cluster.until(lambda: not any(s.instances for s in view.subscriptions), "nobody sees them any more", 10)
        await cluster.until(lambda: stored_by_sessions(cluster) == 0, "the further copy is dropped", 1)


@simulated
async def test_clients_that_died_at_a_server_that_was_cut_off_are_not_seen_again_when_it_is_back(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng) as cluster:
        providers = [cluster.client("session-1", name=f"provider-{number}") for number in range(80)]
        for provider in providers:
            await published(provider, SERVICES[:1])
        seen: list[int] = []
        consumer = cluster.client("session-2", name="consumer")
        subscription = consumer.subscribe(SERVICES[0], lambda changed: seen.append(len(changed.instances)))
        await cluster.until(lambda: len(subscription.instances) == 80, "all are seen")
        cluster.network.partition(["session-1"], [*METAS, *DATAS, "session-2"])
        for number in range(80):
            cluster.kill(f"provider-{number}")
        await cluster.until(lambda: not subscription.instances, "nobody sees them", 90)
        assert stored_by_sessions(cluster) == 80
        seen.clear()
        cluster.network.heal()
        await cluster.until(lambda: stored_by_sessions(cluster) == 0, "the further copies are dropped", 5)
        await asyncio.sleep(60)
        assert seen == []


@simulated
async def test_clients_that_are_cut_off_longer_than_their_session_servers_keep_their_registrations(
    rng: random.Random,
) -> None:
    names = [f"provider-{number}" for number in range(150)]
    async with SimulatedCluster(rng) as cluster:
        providers = [cluster.client(name=name) for name in names]
        await asyncio.gather(*[published(provider, SERVICES[:1]) for provider in providers])
        seen: list[int] = []
        subscription = cluster.client("session-2", name="consumer").subscribe(
            SERVICES[0], lambda changed: seen.append(len(changed.instances))
        )
        await cluster.until(lambda: len(subscription.instances) == 150, "all are seen")
        others = [*METAS, *DATAS, *names, "consumer"]
        cluster.network.partition(["session-1"], [*others, "session-2"])
        cluster.network.partition(["session-2"], others)
        await asyncio.sleep(70)  # longer than the brake holds: nobody can be told of the losses
        seen.clear()
        cluster.network.heal()
        cluster.network.partition(names, ["session-1", "session-2"])
        await asyncio.sleep(10)
        cluster.network.heal()
        await asyncio.sleep(30)
        assert min(seen, default=150) == 150


def stored_by_sessions(cluster: SimulatedCluster) -> int:
    """Number of the records that both session servers have."""
    cores = [cluster.session(name).core for name in ("session-1", "session-2")]
    return sum(store.size for core in cores for store in core.registrations.stores.values())


DATAS = ["data-1", "data-2", "data-3"]


async def client_of_a_server_that_is_cut_off(rng: random.Random, *, one_way: bool) -> int:
    """The fewest instances that a subscriber at another session server sees of any service, before the provider's
    server is cut off from everything but its client, and for a minute after. The provider publishes meanwhile."""
    async with SimulatedCluster(rng) as cluster:
        consumer, provider = cluster.client("session-2", name="consumer"), cluster.client("session-1", name="provider")
        await published(provider, SERVICES)
        view = Fewest(consumer, SERVICES)
        await view.ready()
        cluster.network.partition(["session-1"], [*METAS, *DATAS], one_way=one_way)
        later = provider.publish("com.example.Later", "here")
        async with asyncio.timeout(20):
            await later.acknowledged()
        await asyncio.sleep(60)
        return min(view.fewest.values())


@simulated
async def test_a_session_server_that_reaches_no_other_server_sends_its_clients_away_before_anything_vanishes(
    rng: random.Random,
) -> None:
    assert await client_of_a_server_that_is_cut_off(rng, one_way=False) == 1


@simulated
async def test_a_session_server_that_no_other_server_hears_sends_its_clients_away_before_anything_vanishes(
    rng: random.Random,
) -> None:
    assert await client_of_a_server_that_is_cut_off(rng, one_way=True) == 1


@simulated
async def test_clients_of_a_session_server_with_an_old_table_publish_on_once_a_slot_has_moved(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider = cluster.client("session-1", name="provider")
        await published(provider, SERVICES)
        cluster.network.partition(["session-1"], METAS)
        cluster.kill("data-2")
        await asyncio.sleep(5)
        async with asyncio.timeout(20):
            await published(provider, [f"com.example.Later{number}" for number in range(40)])


@simulated
async def test_clients_stay_where_they_are_while_the_meta_servers_are_down_and_every_leader_answers(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider = cluster.client(name="provider")
        await published(provider, SERVICES)
        before = provider.statistics().reconnections
        for name in METAS:
            cluster.kill(name)
        await asyncio.sleep(120)
        later = provider.publish("com.example.Later", "here")
        async with asyncio.timeout(5):
            await later.acknowledged()
        assert provider.statistics().reconnections == before


@simulated
async def test_slots_serve_again_although_two_session_servers_are_frozen_with_their_connections_open(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, session=4) as cluster:
        client = cluster.client("session-1", name="reader")
        await published(client, SERVICES)
        for name in ("session-2", "session-3"):
            cluster.freeze(name)
        await cluster.until(lambda: len(cluster.data("data-1").view.sessions) == 2, "the frozen ones left the view")
        await asyncio.sleep(5)
        cluster.kill("data-2")
        await cluster.until(
            lambda: not any(cluster.data(name).core.slots.unsettled() for name in ("data-1", "data-3")),
            "every slot serves",
            seconds=10,
        )
        assert [len(await client.get(service)) for service in SERVICES] == [1] * len(SERVICES)
        for name in ("session-2", "session-3"):
            cluster.thaw(name)


class Stranger:
    """A process that calls itself a session server, and says nothing more."""

    def opened(self, connection: Connection) -> None:
        """Nothing to say."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """No request is answered."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Nothing to do."""


@simulated
async def test_slots_serve_again_although_strangers_are_connected_that_call_themselves_session_servers(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng) as cluster:
        client = cluster.client(name="reader")
        await published(client, SERVICES)
        facts = cluster.data("data-1").view.facts
        for number in (8, 9):
            name = f"stranger-{number}"
            clock = cluster.process_clock(name)
            hello = Hello("slotreeve", name, Role.SESSION, f"{name}@1", "127.0.0.1:1", facts=facts)
            for data in ("data-1", "data-3"):
                transport = MemoryTransport(clock, name, cluster.network)
                await transport.connect(cluster.address(data), hello, Stranger(), 1.0)
        cluster.kill("data-2")
        await cluster.until(
            lambda: not any(cluster.data(name).core.slots.unsettled() for name in ("data-1", "data-3")),
            "every slot serves",
            seconds=10,
        )
        assert [len(await client.get(service)) for service in SERVICES] == [1] * len(SERVICES)


class SlowCluster(SimulatedCluster):
    """A cluster whose session servers take 60 times as long as real ones."""

    def processor(self, name: str) -> SimulatedProcessor | None:
        processor = SimulatedProcessor(asyncio.get_running_loop().time, load_costs())
        processor.slowness = 90.0 if name.startswith("session") else 1.0
        self.network.processors[name] = processor
        return processor


@simulated
async def test_nothing_of_a_herd_vanishes_on_slow_machines_however_long_it_takes_to_come_back(
    rng: random.Random,
) -> None:
    async with SlowCluster(rng, session=2) as cluster:
        consumer = cluster.client("session-2", name="consumer")
        clients = [cluster.client("session-1", name=f"client-{number}") for number in range(150)]
        for client in clients:
            for number in range(3):
                client.publish(f"com.example.Herd{number}", client.client_id)
        await asyncio.gather(*(client.flush() for client in clients))
        view = Fewest(consumer, [f"com.example.Herd{number}" for number in range(3)])
        await view.ready()
        assert set(view.fewest.values()) == {len(clients)}
        began = asyncio.get_running_loop().time()
        cluster.kill("session-1")
        await cluster.until(
            lambda: all(client.server == cluster.address("session-2") for client in clients), "all are back", 120
        )
        await asyncio.gather(*(client.flush() for client in clients))
        assert asyncio.get_running_loop().time() - began > 3.0, "the herd must take longer than the grace"
        await asyncio.sleep(10)
        assert set(view.fewest.values()) == {len(clients)}
