"""Faults of the memory network, on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from slotreeve.errors import AddressInUse, Backpressure, ConnectionLost, RequestTimeout, Unreachable
from slotreeve.ports import Connection, Listener
from slotreeve_conformance.transport_scene import CLIENT, SERVER, RecordingHandler, opaque, turns
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.general_messages import Done, Ping
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport


class Net:
    """A network with the endpoints ``a`` and ``b``; ``b`` listens."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.network = MemoryNetwork()
        self.a_handler, self.b_handler = RecordingHandler(), RecordingHandler()
        self.a, self.b = self.endpoint("a"), self.endpoint("b")
        self.listener: Listener

    def endpoint(self, name: str) -> MemoryTransport:
        return MemoryTransport(VirtualClock(), name, self.network, ChannelLimits(queue_bytes=8_000))

    async def connect(self, seconds: float = 1.0) -> Connection:
        """From ``a`` to ``b``."""
        return await self.a.connect(self.listener.address, CLIENT, self.a_handler, seconds)


def on_a_network(scenario: Callable[[Net], Awaitable[None]], seed: int = 0) -> None:
    async def main(rng: random.Random) -> None:
        net = Net(rng)
        net.listener = await net.b.listen("b:0", SERVER, net.b_handler)
        await scenario(net)
        net.network.heal()
        await net.a.close()
        await net.b.close()
        assert net.network.endpoints == []

    run(main, seed)


def test_a_partition_delays_until_it_heals_and_loses_nothing() -> None:
    async def scenario(net: Net) -> None:
        near = await net.connect()
        net.network.partition(["a"], ["b"])
        for i in range(50):
            near.send(opaque(i))
        with pytest.raises(RequestTimeout):
            await near.ask(Ping(), 5.0)
        with pytest.raises(Unreachable):
            await net.connect()
        assert net.b_handler.received_messages == []
        assert not near.closed
        net.network.heal()
        assert await near.ask(Ping(), 1.0) == Done()
        assert net.b_handler.received_messages == [opaque(i) for i in range(50)]

    on_a_network(scenario)


def test_a_one_way_partition_lets_the_other_direction_pass() -> None:
    async def scenario(net: Net) -> None:
        near = await net.connect()
        await turns()
        net.network.partition(["b"], ["a"], one_way=True)
        near.send(opaque(1))
        with pytest.raises(RequestTimeout):
            await near.ask(Ping(), 1.0)
        assert net.b_handler.received_messages == [opaque(1)]

    on_a_network(scenario)


def test_behind_a_partition_queues_fill_up_and_the_sender_sees_it() -> None:
    async def scenario(net: Net) -> None:
        near = await net.connect()
        net.network.partition(["a"], ["b"])
        sent = 0
        try:
            while sent < 1_000_000:
                near.send(opaque(sent))
                sent += 1
                if sent % 10 == 0:
                    await turns(2)
        except Backpressure:
            pass
        assert 0 < sent < 1_000_000
        assert not near.has_room
        net.network.heal()
        await asyncio.sleep(1.0)
        assert near.has_room
        assert await near.ask(Ping(), 1.0) == Done()
        assert net.b_handler.received_messages == [opaque(i) for i in range(sent)]

    on_a_network(scenario)


def test_a_cut_ends_the_connections_at_both_ends_but_not_the_next_one() -> None:
    async def scenario(net: Net) -> None:
        near = await net.connect()
        await turns()
        waiting = asyncio.ensure_future(near.ask(opaque(1), 5.0))
        await turns()
        assert net.network.cut("a", "b") == 1
        with pytest.raises(ConnectionLost, match="connection cut"):
            await waiting
        await turns()
        assert net.a_handler.reasons == net.b_handler.reasons == ["connection cut"]
        again = await net.connect()
        assert await again.ask(Ping(), 1.0) == Done()

    on_a_network(scenario)


def fill(connection: Connection) -> None:
    """Send until there is no room."""
    for number in range(100_000):
        connection.send(opaque(number))


def test_the_peers_of_a_lost_machine_see_no_end_and_send_until_the_connection_is_full() -> None:
    async def scenario(net: Net) -> None:
        near = await net.connect()
        await turns()
        net.network.under_way_packets = 3
        net.network.lose("b")
        await turns()
        assert not near.closed
        assert not net.a.has_answered(net.listener.address)
        reborn = net.endpoint("b")
        await reborn.listen(net.listener.address, SERVER, RecordingHandler())
        with pytest.raises(RequestTimeout):
            await near.ask(Ping(), 1.0)
        again = await net.connect()
        assert await again.ask(Ping(), 1.0) == Done()
        with pytest.raises(Backpressure):
            fill(near)
        assert net.a_handler.reasons == []
        await reborn.close()

    on_a_network(scenario)


def test_a_killed_endpoint_hears_nothing_more_and_its_peers_do() -> None:
    async def scenario(net: Net) -> None:
        near = await net.connect()
        await turns()
        net.network.kill("b")
        await turns()
        assert near.closed
        assert len(net.a_handler.reasons) == 1
        assert net.b_handler.reasons == []
        with pytest.raises(Unreachable):
            await net.connect()
        with pytest.raises(AddressInUse):
            await net.b.listen("b:1", SERVER, net.b_handler)
        reborn = net.endpoint("b")
        assert reborn.name == "b"
        listener = await reborn.listen(net.listener.address, SERVER, RecordingHandler())
        again = await net.a.connect(listener.address, CLIENT, net.a_handler, 1.0)
        assert await again.ask(Ping(), 1.0) == Done()
        await net.b.close()
        assert "b" in net.network.endpoints
        await reborn.close()

    on_a_network(scenario)


def test_a_frozen_endpoint_goes_on_where_it_stood() -> None:
    async def scenario(net: Net) -> None:
        near = await net.connect()
        net.network.freeze("b")
        near.send(opaque(1))
        await asyncio.sleep(100.0)
        assert net.b_handler.received_messages == []
        net.network.thaw("b")
        assert await near.ask(Ping(), 1.0) == Done()
        assert net.b_handler.received_messages == [opaque(1)]
        assert net.a_handler.reasons == []

    on_a_network(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_delays_that_vary_keep_the_order(seed: int) -> None:
    async def scenario(net: Net) -> None:
        net.network.delay_seconds = lambda _source, _target: net.rng.uniform(0.0, 0.5)
        near = await net.connect(2.0)
        for i in range(100):
            near.send(opaque(i))
            await asyncio.sleep(net.rng.uniform(0.0, 0.02))
        near.close("enough")
        await asyncio.sleep(1.0)
        assert net.b_handler.received_messages == [opaque(i) for i in range(100)]
        assert net.b_handler.reasons == ["enough"]

    on_a_network(scenario, seed)


def test_the_network_knows_who_is_connected_with_whom() -> None:
    async def scenario(net: Net) -> None:
        assert net.network.endpoints == ["a", "b"]
        await net.connect()
        assert net.network.connections("a") == ["b"]
        assert net.network.connections("b") == ["a"]
        assert net.endpoint("a").name == "a#2"
        net.network.kill("a#2")

    on_a_network(scenario)


def test_transports_of_one_loop_share_a_network_unless_told_otherwise() -> None:
    async def main(_rng: random.Random) -> None:
        server, client = MemoryTransport(VirtualClock(), "server"), MemoryTransport(VirtualClock(), "client")
        listener = await server.listen("anywhere:0", SERVER, RecordingHandler())
        assert (await client.connect(listener.address, CLIENT, RecordingHandler(), 1.0)).peer == SERVER
        stranger = MemoryTransport(VirtualClock(), "stranger", MemoryNetwork())
        with pytest.raises(Unreachable):
            await stranger.connect(listener.address, CLIENT, RecordingHandler(), 1.0)
        for transport in (client, server, stranger):
            await transport.close()

    run(main)
