"""The operator's standing orders outrank heartbeats and survive restarts."""

from __future__ import annotations

import asyncio
import random

from slotreeve.model.data_info import DataInfo
from slotreeve_client.administration import put_config
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

METAS = ("meta-1", "meta-2", "meta-3")


async def order(cluster: SimulatedCluster, intent: Orders | bytes) -> None:
    transport = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
    value = intent.encode() if isinstance(intent, Orders) else intent
    await put_config(transport, "slotreeve", [cluster.address(name) for name in METAS], ORDERS_KEY, value)
    await transport.close()


def holds(cluster: SimulatedCluster, name: str) -> bool:
    return any(row.leader == name or name in row.followers for row in cluster.views()[0].table.slots)


def test_a_banned_data_server_hands_over_its_slots_also_after_restarts_until_it_is_unbanned() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            consumer = cluster.client()
            publication = cluster.client().publish("s", "x")
            await publication.acknowledged()
            fewest: list[int] = []
            watched = consumer.subscribe("s", lambda s: fewest.append(len(s.instances)))
            await watched.ready()
            await order(cluster, Orders(banned=frozenset({"data-2"})))
            await cluster.until(lambda: not holds(cluster, "data-2"), "it holds nothing")
            for name in (*METAS, "data-2"):
                cluster.kill(name)
            for name in (*METAS, "data-2"):
                await cluster.start(name)
            await cluster.until(lambda: len(cluster.views()[0].data) == 3, "it is a member again")
            await asyncio.sleep(5)
            assert not holds(cluster, "data-2")
            await order(cluster, Orders())
            await cluster.until(lambda: holds(cluster, "data-2"), "it holds slots again", 60)
            assert min(fewest) == 1

    run(scenario, seed=1)


def test_the_clients_of_a_banned_session_server_move_and_new_ones_go_elsewhere() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            clients = [cluster.client("session-1") for _ in range(5)]
            for client in clients:
                await client.connected()
            await order(cluster, Orders(banned=frozenset({"session-1"})))
            elsewhere = cluster.address("session-2")
            await cluster.until(lambda: all(c.server == elsewhere for c in clients), "all have moved")
            newcomer = cluster.client("session-1", "session-2")
            await cluster.until(lambda: newcomer.server == elsewhere, "the newcomer is elsewhere too")

    run(scenario, seed=2)


def test_while_pushing_is_stopped_only_the_excepted_are_told_and_all_catch_up_afterwards() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            publication = cluster.client().publish("s", "1")
            one, other = cluster.client(), cluster.client()
            views = [one.subscribe("s"), other.subscribe("s")]
            await publication.acknowledged()
            await cluster.until(lambda: all(v.instances for v in views), "both see it")
            await order(cluster, Orders(push_stopped=True, push_to=frozenset({other.client_id})))
            await asyncio.sleep(2)
            publication.republish("2")
            await publication.acknowledged()
            await asyncio.sleep(2)
            assert [v.instances[0].data for v in views] == [(b"1",), (b"2",)]
            assert [i.data for i in await one.get("s")] == [(b"2",)]
            await order(cluster, Orders())
            await cluster.until(lambda: views[0].instances[0].data == (b"2",), "it catches up", 2)

    run(scenario, seed=3)


def test_what_a_client_that_is_off_publishes_is_seen_by_nobody_until_it_is_on_again() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            provider, consumer = cluster.client(), cluster.client()
            publication = provider.publish("s", "1")
            await publication.acknowledged()
            view = consumer.subscribe("s")
            await view.ready()
            await order(cluster, Orders(clients_off=frozenset({provider.client_id})))
            await cluster.until(lambda: not view.instances, "it is gone", 2)
            publication.republish("2")
            await publication.acknowledged()
            cluster.kill("session-1")
            await cluster.start("session-1")
            await asyncio.sleep(6)
            assert not view.instances
            await order(cluster, Orders())
            await cluster.until(lambda: [i.data for i in view.instances] == [(b"2",)], "it is back", 4)

    run(scenario, seed=4)


def test_orders_that_cannot_be_read_change_nothing() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            await order(cluster, Orders(banned=frozenset({"data-2"})))
            await cluster.until(lambda: not holds(cluster, "data-2"), "it holds nothing")
            await order(cluster, b'{"baned": []}')
            await asyncio.sleep(5)
            assert not holds(cluster, "data-2")

    run(scenario, seed=5)


def test_while_ends_are_frozen_nothing_ends_that_its_provider_does_not_withdraw_and_after_the_thaw_it_does() -> None:
    """Clients, a session server, leases and the leader of the slot die meanwhile."""

    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            looker = cluster.client("session-2", name="looker")
            lost = [cluster.client("session-1", name=f"lost-{number}") for number in range(3)]
            with_server = [cluster.client("session-1", name=f"with-server-{number}") for number in range(3)]
            for client in [*lost, *with_server]:
                await client.publish("s", client.client_id).acknowledged()
            leaving = cluster.client("session-2").publish("s", "leaving")
            await leaving.acknowledged()
            for number in range(3):
                await looker.leases.register("s", f"lease-{number}", "x", ttl_seconds=5)
            assert len(await looker.get("s")) == 10
            await order(cluster, Orders(ends_frozen=True))
            await asyncio.sleep(2)
            for number in range(3):
                cluster.kill(f"lost-{number}")
            await asyncio.sleep(30)
            for number in range(3):
                cluster.kill(f"with-server-{number}")
            cluster.kill("session-1")
            await asyncio.sleep(300)
            assert len(await looker.get("s")) == 10
            slot = cluster.session("session-2").core.registrations.slot(looker_id())
            leader = cluster.views()[0].table.slots[slot].leader
            assert leader is not None
            cluster.kill(leader)
            await cluster.until(
                lambda: cluster.views()[0].table.slots[slot].leader not in (None, leader), "another leads"
            )
            await asyncio.sleep(120)
            leaving.unpublish()
            await looker.leases.deregister("s", "lease-0")
            await asyncio.sleep(2)
            left = {provider.data[0].decode() for provider in await looker.get("s")}
            assert left == {*(client.client_id for client in [*lost, *with_server]), "x"}
            assert len(await looker.get("s")) == 8
            await order(cluster, Orders())
            await asyncio.sleep(90)
            assert await looker.get("s") == ()

    run(scenario, seed=6)


def looker_id() -> str:
    return DataInfo.parse("s").id
