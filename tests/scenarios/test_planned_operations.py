"""Planned operations cause no gap (I12): stops, restarts and the operator's standing orders."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest
from msgspec.structs import replace
from slotreeve_client import Client, Lease, Publication, Subscription
from slotreeve_client.administration import change_orders
from slotreeve_conformance.simulated import seeds
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.meta_messages import Stopping
from slotreeve_simulator.simulated_cluster import SimulatedCluster

SERVICES = [f"com.example.Service{number}" for number in range(60)]


class Load:
    """A provider that republishes all the time, and consumers that note whenever they see fewer than there are."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.providers = [cluster.client(name=f"provider-{number}") for number in range(3)]
        self.consumers = [cluster.client(name=f"consumer-{number}") for number in range(2)]
        self.publications: list[Publication] = []
        self.gaps: list[str] = []
        self.slowest_seconds = 0.0
        self._watching = False
        self._subscriptions: list[Subscription] = []

    async def begin(self) -> None:
        turns = itertools.cycle(self.providers)
        self.publications = [next(turns).publish(service, "0") for service in SERVICES]
        await asyncio.gather(*(provider.flush() for provider in self.providers))
        for consumer, service in itertools.product(self.consumers, SERVICES):
            self._subscriptions.append(consumer.subscribe(service, self._changed))
        await asyncio.gather(*(subscription.ready() for subscription in self._subscriptions))
        self._watching = True
        self._publishing = asyncio.create_task(self._publish())

    def _changed(self, subscription: Subscription) -> None:
        if self._watching and not subscription.instances:
            self.gaps.append(subscription.data_info_id)

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        for number in itertools.count(1):
            publication = self.publications[number % len(self.publications)]
            publication.republish(str(number))
            began = loop.time()
            await publication.acknowledged()
            self.slowest_seconds = max(self.slowest_seconds, loop.time() - began)
            await asyncio.sleep(0.002)

    async def end(self) -> None:
        self._publishing.cancel()
        await asyncio.gather(*(provider.flush() for provider in self.providers))
        await asyncio.sleep(1)

    def is_seen(self) -> bool:
        newest = {p.data_info_id: p.data for p in self.publications}
        return all([instance.data for instance in s.instances] == [newest[s.data_info_id]] for s in self._subscriptions)


def is_connected_to(client: Client, cluster: SimulatedCluster, name: str) -> bool:
    return client.server == cluster.address(name)


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("how", [Stopping.FOR_GOOD, Stopping.FOR_A_RESTART], ids=["for_good", "for_a_restart"])
def test_a_rolling_restart_of_every_server_under_load_is_seen_by_nobody(how: Stopping, seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            load = Load(cluster)
            await load.begin()
            for name in sorted(cluster.servers):
                await cluster.stop(name, how)
                await cluster.start(name)
                await cluster.ready(60)
            await load.end()
            assert load.gaps == []
            assert load.is_seen()
            assert load.slowest_seconds < 1

    run(scenario, seed)


@pytest.mark.parametrize("seed", seeds(1))
def test_a_data_server_leaves_only_when_it_holds_nothing(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            load = Load(cluster)
            await load.begin()
            stopping = asyncio.create_task(cluster.stop("data-2"))
            view = cluster.session("session-1")
            await cluster.until(lambda: "data-2" not in {n.name for n in view.view.data}, "it has left")
            await stopping
            assert load.gaps == []
            rows = view.view.table.slots
            assert all(row.leader != "data-2" and "data-2" not in row.followers for row in rows)
            await load.end()
            assert load.is_seen()

    run(scenario, seed)


def test_a_data_server_that_stops_for_a_restart_keeps_its_places_and_leads_nothing() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            load = Load(cluster)
            await load.begin()
            before = cluster.views()[0].table.slots
            held = {row.id for row in before if row.leader == "data-2" or "data-2" in row.followers}
            await cluster.stop("data-2", Stopping.FOR_A_RESTART)
            rows = cluster.views()[0].table.slots
            assert all(row.leader != "data-2" for row in rows)
            assert {row.id for row in rows if "data-2" in row.followers} == held
            await cluster.start("data-2")
            await cluster.ready()
            await load.end()
            assert load.gaps == []
            assert load.is_seen()

    run(scenario, seed=1)


def test_one_that_does_not_come_back_from_its_restart_is_replaced() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            await cluster.stop("data-2", Stopping.FOR_A_RESTART)
            assert 25 < await cluster.ready(60) < 40

    run(scenario, seed=1)


def test_the_last_data_server_may_leave_at_once() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=1, session=1) as cluster:
            loop = asyncio.get_running_loop()
            began = loop.time()
            await cluster.stop("data-1")
            assert loop.time() - began < 1

    run(scenario, seed=1)


def test_a_server_that_hears_no_leader_does_not_wait_for_its_leave() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            for number in (1, 2, 3):
                cluster.kill(f"meta-{number}")
            loop = asyncio.get_running_loop()
            began = loop.time()
            await cluster.stop("data-1")
            await cluster.stop("session-1")
            assert loop.time() - began < 5

    run(scenario, seed=1)


def test_clients_move_before_their_session_server_stops() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            load = Load(cluster)
            await load.begin()
            await cluster.stop("session-1")
            clients = [*load.providers, *load.consumers]
            assert all(is_connected_to(client, cluster, "session-2") for client in clients)
            await load.end()
            assert load.gaps == []
            assert load.slowest_seconds < 0.2

    run(scenario, seed=1)


@pytest.mark.parametrize("how", [Stopping.FOR_GOOD, Stopping.FOR_A_RESTART])
def test_a_data_server_that_stops_under_protection_does_not_wait_for_a_handover(how: Stopping) -> None:
    async def scenario(rng: random.Random) -> None:
        drain = 30.0
        async with SimulatedCluster(rng, settings={"meta.protect_below": 3, "data.drain_seconds": drain}) as cluster:
            cluster.kill("data-1")
            await asyncio.sleep(2)
            before = cluster.views()[0].table
            began = asyncio.get_running_loop().time()
            await cluster.stop("data-2", how)
            assert asyncio.get_running_loop().time() - began < drain / 10
            assert cluster.views()[0].table == before

    run(scenario, seed=1)


def test_a_data_server_that_was_started_again_under_protection_keeps_no_other_member_waiting() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, data=3, session=2, settings={"meta.protect_below": 3}) as cluster:
            before = cluster.views()[0].table
            cluster.kill("data-1")
            cluster.kill("data-2")
            await asyncio.sleep(2)
            await cluster.start("data-1")
            await asyncio.sleep(2)
            cluster.kill("session-1")
            await asyncio.sleep(10)
            assert [node.name for node in cluster.session("session-2").view.sessions] == ["session-2"]
            assert cluster.session("session-2").view.table == before

    run(scenario, seed=1)


def test_with_too_few_data_servers_the_table_is_protected() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, settings={"meta.protect_below": 2}) as cluster:
            before = cluster.views()[0].table
            cluster.kill("data-1")
            cluster.kill("data-2")
            await asyncio.sleep(5)
            assert cluster.views()[0].table == before
            await cluster.start("data-1")
            await cluster.ready()

    run(scenario, seed=1)


@pytest.mark.parametrize("servers", [3, 4])
def test_two_data_servers_that_restart_at_the_same_time_lose_no_lease(servers: int) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=servers, session=1) as cluster:
            client = cluster.client()
            leases = [Lease(f"com.example.w-{n}", f"w-{n}", (b"1",), ttl_seconds=3600) for n in range(100)]
            assert not (await client.leases.register_many(leases)).unanswered
            await asyncio.sleep(5)

            async def restart(name: str) -> None:
                await cluster.stop(name, Stopping.FOR_A_RESTART)
                await asyncio.sleep(1)
                await cluster.start(name)

            began = asyncio.get_running_loop().time()
            await asyncio.gather(restart("data-1"), restart("data-2"))
            assert asyncio.get_running_loop().time() - began < 15
            await asyncio.sleep(30)
            assert cluster.meta("meta-1").counters()["slots_led_unclean"] == 0
            asked = {lease.service: [lease.lease_id] for lease in leases}
            assert not any((await client.leases.renew_many(asked)).unknown.values())

    run(scenario, seed=3)


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("how", [Stopping.FOR_GOOD, Stopping.FOR_A_RESTART], ids=["for_good", "for_a_restart"])
def test_the_last_data_server_that_is_not_banned_hands_over_to_a_banned_one(how: Stopping, seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2, session=1) as cluster:
            cluster.process_clock("operator")
            operator = cluster.transport("operator"), "slotreeve", [cluster.address("meta-1")]
            client = cluster.client()
            leases = [Lease(f"worker-{n}", f"worker-{n}", (b"1",), ttl_seconds=3600) for n in range(40)]
            assert not (await client.leases.register_many(leases)).unanswered
            fewest: list[int] = []
            subscription = client.subscribe("worker-1", lambda seen: fewest.append(len(seen.instances)))
            await subscription.ready()
            await change_orders(*operator, lambda orders: replace(orders, banned=frozenset({"data-1"})))
            await cluster.until(lambda: holders(cluster) == {"data-2"}, "data-1 has handed over", 30)
            await cluster.stop("data-2", how)
            assert holders(cluster) == {"data-1"} or how is Stopping.FOR_GOOD
            if how is Stopping.FOR_A_RESTART:
                await cluster.start("data-2")
                await cluster.until(lambda: holders(cluster) == {"data-2"}, "the ban holds again", 30)
            await asyncio.sleep(5)
            renewed = await client.leases.renew_many({lease.service: [lease.lease_id] for lease in leases})
            assert not any(renewed.unknown.values())
            assert min(fewest) == 1

    run(scenario, seed=seed)


def holders(cluster: SimulatedCluster) -> set[str]:
    """Who holds a slot by the newest view that any member has."""
    return {name for row in cluster.views()[0].table.slots for name in row.holders}
