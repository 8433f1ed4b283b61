"""Who is connected, and what the subscribers of a service have, asked of a whole cluster on virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from slotreeve.clock import LoopClock
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Connection, Hello, Message
from slotreeve_client import ClientOptions
from slotreeve_client.administration import put_config
from slotreeve_client.audience import connected_clients, subscribers_of, uses_of
from slotreeve_client.reports import applications_report, clients_report, uses_report
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.client_messages import Scope
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.people_messages import (
    MAX_APPLICATION_LENGTH,
    ClientPage,
    GetClients,
    GetSubscribers,
    GetUses,
    SubscriberPage,
    UseIs,
    UsePage,
)
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.audience import Audience
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.push.interests import Interests
from slotreeve_servers.session.records.routes import Routes
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

from tests.servers.push_scene import Scene

TOOL = Peer("tool", Role.TOOL, "tool")


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


def test_what_an_application_publishes_and_subscribes_is_told_over_all_session_servers() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2, session=2) as cluster:
            orders = [cluster.client(server, application="orders") for server in ("session-1", "session-2")]
            other = cluster.client(application="Orders")
            cluster.client()  # which does not say
            for number, client in enumerate(orders):
                await client.publish("orders.Api", f"{number}").acknowledged()
                await client.publish("orders.Api", f"{number}+").acknowledged()
            await orders[0].subscribe("stock.Api").ready()
            await orders[0].subscribe("stock.Api", scope=Scope.ZONE).ready()
            await orders[1].subscribe("orders.Api").ready()
            await other.publish("other.Api", "x").acknowledged()
            transport = MemoryTransport(LoopClock(), "operator", cluster.network)
            metas = [cluster.address("meta-1")]
            rows = uses_report(await uses_of(transport, "slotreeve", metas, "orders")).uses
            assert {
                (row.service.partition("#")[0], row.publishes, row.subscribes, row.client, row.server) for row in rows
            } == {
                ("orders.Api", 2, False, orders[0].client_id, "session-1"),
                ("orders.Api", 2, True, orders[1].client_id, "session-2"),
                ("stock.Api", 0, True, orders[0].client_id, "session-1"),
            }
            assert [row.service for row in rows] == sorted(row.service for row in rows)
            found = await connected_clients(transport, "slotreeve", metas)
            listed = applications_report(found).applications
            assert [(one.application, one.clients, one.records) for one in listed] == [
                ("", 1, 0),
                ("Orders", 1, 1),
                ("orders", 2, 4),
            ]
            assert len(clients_report(found, application="orders").clients) == 2
            assert len(clients_report(found, application="").clients) == 1
            cluster.freeze("session-1")
            left = uses_report(await uses_of(transport, "slotreeve", metas, "orders"))
            assert ([row.server for row in left.uses], {*left.silent}) == (["session-2"], {"session-1"})
            await transport.close()

    run(scenario, seed=4)


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.booleans()), max_size=40))
def test_pages_of_uses_have_each_client_and_service_once_whatever_their_size_is(
    most: int, wants: list[tuple[int, int, bool]]
) -> None:
    clients = {
        number: ConnectedClient(Peer(f"c{number // 2}", Role.CLIENT, f"p{number}", "h:1", "app")) for number in range(5)
    }
    for client, service, publishes in wants:
        if publishes:
            number = len(clients[client].records)
            clients[client].records[f"r{number}"] = Publisher(f"r{number}", f"s{service}", 1, 1, "s", "", (b"",))
        else:
            clients[client].watched[f"s{service}"] = None
    scene = Scene()
    audience = Audience(scene.outbox, {one.peer: one for one in clients.values()}, Interests(Routes(), scene.rules))
    rows: list[UseIs] = []
    page = UsePage([], True)
    while page.more:
        after = (rows[-1].client, rows[-1].data_info_id) if rows else ("", "")
        page = audience.on_get_uses(TOOL, GetUses("app", *after, most))
        assert len(page.uses) == most or not page.more
        rows += page.uses
    keys = [(row.client, row.data_info_id) for row in rows]
    assert keys == sorted({(f"c{client // 2}", f"s{service}") for client, service, _ in wants})
    assert sum(row.publishes for row in rows) == sum(publishes for _, _, publishes in wants)
    assert audience.on_get_uses(TOOL, GetUses("App")) == UsePage([])


@given(st.integers(1, 4), st.lists(st.integers(0, 4), max_size=12))
def test_pages_of_clients_have_each_connection_once_also_where_a_client_has_several(most: int, ids: list[int]) -> None:
    clients = [
        ConnectedClient(Peer(f"c{number}", Role.CLIENT, f"p{at}", f"h:{at}", "app")) for at, number in enumerate(ids)
    ]
    scene = Scene()
    audience = Audience(scene.outbox, {one.peer: one for one in clients}, Interests(Routes(), scene.rules))
    rows = list[tuple[str, str]]()
    page = ClientPage([], True)
    while page.more:
        page = audience.on_get_clients(TOOL, GetClients(rows[-1][0] if rows else "", most))
        rows += [(one.id, one.address) for one in page.clients]
    assert sorted(rows) == sorted((f"c{number}", f"h:{at}") for at, number in enumerate(ids))
    assert [name for name, _ in rows] == sorted(name for name, _ in rows)


def test_a_name_that_is_too_long_is_refused_by_the_client_and_cut_by_servers() -> None:
    with pytest.raises(ValidationError, match="application"):
        ClientOptions(application="x" * (MAX_APPLICATION_LENGTH + 1))

    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=1, session=1) as cluster:
            transport = MemoryTransport(LoopClock(), "rogue", cluster.network)
            hello = Hello("slotreeve", "rogue", Role.CLIENT, "rogue@1", application="x" * 10_000)
            await transport.connect(cluster.address("session-1"), hello, _Silent(), 2.0)
            found = await connected_clients(transport, "slotreeve", [cluster.address("meta-1")])
            assert [one.application for one in found.clients["session-1"]] == ["x" * MAX_APPLICATION_LENGTH]
            await transport.close()

    run(scenario, seed=5)


class _Silent:
    def opened(self, connection: Connection) -> None:
        return

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        return

    def closed(self, connection: Connection, reason: str) -> None:
        return
