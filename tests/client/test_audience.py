"""Who is connected, and what the subscribers of a service have, asked of a whole cluster on virtual time."""

from __future__ import annotations

import asyncio
import random

from slotreeve.clock import LoopClock
from slotreeve.model.nodes import Role
from slotreeve_client.administration import put_config
from slotreeve_client.audience import connected_clients, subscribers_of
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.client_messages import Scope
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.people_messages import ClientPage, GetClients, GetSubscribers, SubscriberPage
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.audience import Audience
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport


def test_clients_and_subscribers_of_all_session_servers_are_listed_with_what_they_have() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2, session=2) as cluster:
            await cluster.ready()
            provider, consumers = cluster.client(name="provider"), [cluster.client(name=f"c{n}") for n in range(5)]
            provider.publish("a.Service", "x")
            await provider.flush()
            for consumer in consumers:
                await consumer.subscribe("a.Service").ready()
            await asyncio.sleep(1.0)
            transport = MemoryTransport(LoopClock(), "operator", cluster.network)
            metas = [cluster.address("meta-1")]
            found = await connected_clients(transport, "slotreeve", metas)
            assert found.silent == {}
            listed = {one.id: one for listed in found.clients.values() for one in listed}
            assert listed.keys() == {provider.client_id, *(consumer.client_id for consumer in consumers)}
            mine = listed[provider.client_id]
            assert (mine.records, mine.unacknowledged, mine.services, mine.unread, mine.is_off) == (1, 0, 0, 0, False)
            assert mine.connected_seconds >= 1.0
            assert listed[consumers[0].client_id].services == 1
            seen = await subscribers_of(transport, "slotreeve", metas, "a.Service")
            subscribers = [one for listed in seen.subscribers.values() for one in listed]
            assert {one.id for one in subscribers} == {consumer.client_id for consumer in consumers}
            assert {(one.sent, one.unread, one.scope) for one in subscribers} == {(seen.newest, 0, Scope.DATA_CENTER)}
            assert seen.newest > 0
            order = Orders(clients_off=frozenset({provider.client_id}))
            await put_config(transport, "slotreeve", metas, ORDERS_KEY, order.encode())
            await asyncio.sleep(2.0)
            found = await connected_clients(transport, "slotreeve", metas)
            assert [
                one.is_off for listed in found.clients.values() for one in listed if one.id == provider.client_id
            ] == [True]
            nobody = await subscribers_of(transport, "slotreeve", metas, "a.Nobody")
            assert (nobody.newest, [*nobody.subscribers.values()]) == (0, [[], []])
            cluster.freeze("session-1")
            found = await connected_clients(transport, "slotreeve", metas)
            assert {*found.silent} == {"session-1"}
            assert {*found.clients} == {"session-2"}
            await transport.close()

    run(scenario, seed=4)


def test_a_subscriber_that_does_not_read_is_behind() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=1, session=1) as cluster:
            await cluster.ready()
            provider, consumer = cluster.client(name="provider"), cluster.client(name="consumer")
            publication = provider.publish("a.Service", "0")
            await provider.flush()
            await consumer.subscribe("a.Service").ready()
            cluster.network.freeze("consumer")
            for number in range(3):
                publication.republish(str(number))
                await provider.flush()
                await asyncio.sleep(0.3)
            transport = MemoryTransport(LoopClock(), "operator", cluster.network)
            seen = await subscribers_of(transport, "slotreeve", [cluster.address("meta-1")], "a.Service")
            ((behind,),) = seen.subscribers.values()
            assert behind.unread == 3
            assert behind.sent == seen.newest
            cluster.network.thaw("consumer")
            await transport.close()

    run(scenario, seed=4)


def test_pages_follow_each_other_without_a_gap_or_a_repetition() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=1, session=1) as cluster:
            await cluster.ready()
            clients = [cluster.client(name=f"c{n}") for n in range(7)]
            for client in clients:
                for scope in Scope:
                    await client.subscribe("a.Service", scope=scope).ready()
            core = cluster.session("session-1").core
            audience, tool = Audience(core._outbox, core.clients, core.interests), Peer("tool", Role.TOOL, "tool")
            page = ClientPage([], True)
            ids: list[str] = []
            while page.more:
                page = audience.on_get_clients(tool, GetClients(ids[-1] if ids else "", 3))
                ids += [one.id for one in page.clients]
            assert ids == sorted(client.client_id for client in clients)
            rows: list[tuple[str, Scope]] = []
            found = SubscriberPage(0, 0, [], True)
            while found.more:
                asked = GetSubscribers(
                    "a.Service#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", rows[-1][0] if rows else "", 3
                )
                found = audience.on_get_subscribers(tool, asked)
                rows += [(one.id, one.scope) for one in found.subscribers]
            assert sorted(rows) == sorted((client.client_id, scope) for client in clients for scope in Scope)

    run(scenario, seed=4)
