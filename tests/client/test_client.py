"""The asyncio client on a simulated cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, MutableSequence

import pytest
from slotreeve.errors import ClientClosed, ClientError, ModelError, PluginError, Refused, RequestTimeout
from slotreeve_client import ClientOptions, Provider, Subscription
from slotreeve_client.client import Client, ClientState, connect
from slotreeve_conformance import virtual_time
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

A = "com.example.A#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


def on_a_cluster(story: Callable[[SimulatedCluster], Awaitable[None]]) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2) as cluster:
            await story(cluster)

    virtual_time.run(scenario, seed=5)


def test_a_published_provider_is_read_listed_and_pushed() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        provider, consumer = cluster.client(zone="east"), cluster.client()
        seen: list[tuple[Provider, ...]] = []
        subscription = consumer.subscribe("com.example.A", lambda s: seen.append(s.instances))
        await subscription.ready()
        assert seen == [()]
        publication = provider.publish("com.example.A", "10.0.0.1:1", b"\xff")
        await provider.flush()
        expected = (Provider(publication.register_id, "east", (b"10.0.0.1:1", b"\xff")),)
        assert publication.is_acknowledged
        assert await consumer.get("com.example.A") == expected
        assert await consumer.list("com.example.") == {A: 1}
        assert await consumer.list("com.other.") == {}
        await cluster.until(lambda: seen[-1] == expected, "the push has arrived")
        publication.unpublish()
        await provider.flush()
        assert await consumer.get("com.example.A") == ()

    on_a_cluster(story)


@pytest.mark.parametrize("server", ["session-1", "both"])
def test_a_client_that_is_refused_is_told_where_it_begins_and_is_closed(server: str) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        asked = () if server == "both" else (server,)
        client = cluster.client(*asked, cluster="another")
        with pytest.raises(Refused, match="this is cluster 'slotreeve', not 'another'"):
            async with client:
                pytest.fail("the block was entered")
        assert client.state is ClientState.CLOSED
        other = cluster.client(*asked, cluster="another")
        with pytest.raises(Refused, match="not 'another'"):
            await other.get("a")

    on_a_cluster(story)


def test_a_client_without_any_session_server_begins_and_goes_on_trying() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        cluster.kill("session-1")
        async with cluster.client("session-1") as client:
            assert client.state is ClientState.CONNECTING
            assert "no process listens" in client.why_not_connected()
            await cluster.start("session-1")
            await client.connected()
            assert client.why_not_connected() == ""

    on_a_cluster(story)


def test_closing_a_client_removes_its_registrations_at_once() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        consumer = cluster.client()
        states: list[ClientState] = []
        provider = cluster.client()
        provider.on_state(states.append)
        async with provider:
            provider.publish("com.example.A", "1")
            await provider.flush()
        await asyncio.sleep(0.5)
        assert await consumer.get("com.example.A") == ()
        assert (states, provider.server) == ([ClientState.CONNECTED, ClientState.CLOSED], None)
        await provider.close()
        with pytest.raises(ClientClosed):
            provider.publish("com.example.A", "1")
        with pytest.raises(ClientClosed):
            await provider.connected()

    on_a_cluster(story)


def test_flush_waits_for_what_was_published_before_it_and_not_for_what_is_published_meanwhile() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        client = cluster.client()
        await client.connected()
        cluster.network.delay_seconds = lambda _sender, _receiver: 0.001
        load = client.publish("com.example.Load", "0")

        async def go_on() -> None:
            while True:
                load.republish("more")
                await asyncio.sleep(0.0005)

        going_on = asyncio.create_task(go_on())
        await asyncio.sleep(0.1)
        publications = [client.publish("com.example.A", "1"), client.publish("com.example.B", "1"), load]
        versions = [publication.version for publication in publications]
        await asyncio.wait_for(client.flush(), 5)
        assert all(one.acknowledged_version >= version for one, version in zip(publications, versions, strict=True))
        assert client.statistics().unacknowledged
        going_on.cancel()

    on_a_cluster(story)


def test_a_client_whose_close_is_cancelled_is_closed_and_whoever_waits_for_it_is_told() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        client = cluster.client()
        await client.connected()
        for name in ("data-1", "data-2"):
            cluster.freeze(name)
        client.publish("com.example.A", "1")
        flushing = asyncio.create_task(client.flush())
        await asyncio.sleep(0.1)
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert client.state is ClientState.CLOSED
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(flushing, 1)
        for name in ("data-1", "data-2"):
            cluster.thaw(name)

    on_a_cluster(story)


def test_a_client_whose_session_server_dies_publishes_everything_at_another() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        client = cluster.client("session-1", name="mover")
        states: list[ClientState] = []
        client.on_state(states.append)
        await client.connected()
        first = client.server
        publication = client.publish("com.example.A", "1")
        await client.flush()
        cluster.kill("session-1")
        await cluster.until(lambda: client.server not in (None, first), "the client is connected again")
        assert states == [ClientState.CONNECTED, ClientState.CONNECTING, ClientState.CONNECTED]
        await asyncio.sleep(10)
        assert [i.register_id for i in await client.get("com.example.A")] == [publication.register_id]

    on_a_cluster(story)


def test_a_client_without_a_reachable_server_times_out_and_names_the_reasons() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        client = cluster.client(request_seconds=2.0)
        for name in ("session-1", "session-2"):
            cluster.kill(name)
        with pytest.raises(RequestTimeout, match="no session server answered a Get within"):
            await client.get("com.example.A")
        assert client.why_not_connected().count(";") == 2
        client.publish("com.example.A", "1")
        waiting = asyncio.create_task(client.flush())
        await asyncio.sleep(1)
        await client.close()
        with pytest.raises(ClientClosed):
            await waiting

    on_a_cluster(story)


def test_a_listener_that_raises_is_logged_and_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        client = cluster.client()
        states: list[ClientState] = []

        def broken(_state: ClientState) -> None:
            raise ValueError("a defect of the user's")

        client.on_state(broken)
        client.on_state(states.append)
        await client.connected()
        assert states == [ClientState.CONNECTED]

    on_a_cluster(story)
    assert "a listener of the client's state failed" in caplog.text


def test_a_wrong_call_is_an_error_at_once() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        with pytest.raises(ModelError, match="blank"):
            cluster.client().publish(" ", "1")
        with pytest.raises(ModelError):
            await cluster.client().get("a#@#b")

    on_a_cluster(story)


def test_a_client_whose_connecting_task_failed_can_still_be_closed() -> None:
    class BrokenRandom(random.Random):
        def shuffle(self, x: MutableSequence[object]) -> None:
            raise RuntimeError("a defect")

    async def scenario(_rng: random.Random) -> None:
        network, clock = MemoryNetwork(), VirtualClock()
        transport = MemoryTransport(clock, "client", network)
        client = Client(["nowhere:1"], ClientOptions(), transport, clock, BrokenRandom(1))
        await asyncio.sleep(1)
        assert (client.state, network.endpoints) == (ClientState.CLOSED, ["client"])
        await asyncio.gather(client.close(), client.close())
        assert network.endpoints == []

    virtual_time.run(scenario)


def test_callbacks_are_counted_for_people() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        def broken(_subscription: Subscription) -> None:
            raise asyncio.CancelledError

        client = cluster.client()
        subscriptions = [client.subscribe(f"com.example.{number}", broken) for number in range(50)]
        await asyncio.gather(*(subscription.ready() for subscription in subscriptions))
        statistics = client.statistics()
        assert (statistics.callback_failures, statistics.callbacks_waiting, statistics.unacknowledged) == (50, 0, 0)
        assert all(subscription.callback_failures == 1 for subscription in subscriptions)

    on_a_cluster(story)


def test_connecting_needs_an_address_and_a_known_transport() -> None:
    async def scenario() -> Client:
        with pytest.raises(ClientError, match="give at least one host:port"):
            connect(options=ClientOptions(transport="memory"))
        with pytest.raises(PluginError, match="carrier_pigeon"):
            connect("a:1", options=ClientOptions(transport="carrier_pigeon"))
        client = connect("nowhere:1", options=ClientOptions(transport="memory"))
        await client.close()
        return client

    assert asyncio.run(scenario()).state is ClientState.CLOSED
