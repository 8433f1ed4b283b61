"""The links of the memory network: their capacity, their order, their end."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve.ports import Connection
from slotreeve_conformance.transport_scene import CLIENT, SERVER, RecordingHandler, opaque
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_memory.network import UNDER_WAY_PACKETS, MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport


class Pair:
    """Two endpoints and a connection between them."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        limits = ChannelLimits()
        self.near_handler, self.far_handler = RecordingHandler(), RecordingHandler()
        self.near = MemoryTransport(VirtualClock(), "near", self.network, limits)
        self.far = MemoryTransport(VirtualClock(), "far", self.network, limits)

    async def connect(self) -> Connection:
        await self.far.listen("far:1", SERVER, self.far_handler)
        return await self.near.connect("far:1", CLIENT, self.near_handler, 1.0)


class Busy:
    """A processor that is free after half a second."""

    def __init__(self) -> None:
        self._free_at = asyncio.get_running_loop().time() + 0.5

    def busy_for(self) -> float:
        """Seconds until it is free."""
        return max(0.0, self._free_at - asyncio.get_running_loop().time())

    def handled(self, packet: bytes) -> None:
        """It handles nothing."""


@pytest.mark.parametrize("extra", [-1, 0, 1, 300])
def test_packets_beyond_the_capacity_of_a_link_wait_at_the_sender_and_arrive_in_order(extra: int) -> None:
    async def scenario(_rng: random.Random) -> None:
        pair = Pair()
        connection = await pair.connect()
        pair.network.partition(["near"], ["far"])
        sent = [opaque(number) for number in range(UNDER_WAY_PACKETS + extra)]
        for message in sent:
            connection.send(message)
            await asyncio.sleep(0)  # a packet for each message
        pair.network.heal()
        await asyncio.sleep(1)
        assert pair.far_handler.received_messages == sent
        await pair.near.close()
        await pair.far.close()

    run(scenario)


def test_a_packet_never_overtakes_an_earlier_one_of_its_connection() -> None:
    async def scenario(rng: random.Random) -> None:
        pair = Pair()
        connection = await pair.connect()
        pair.network.delay_seconds = lambda _source, _target: rng.uniform(0.0, 1.0)
        sent = [opaque(number) for number in range(50)]
        for message in sent:
            connection.send(message)
            await asyncio.sleep(0.01)
        await asyncio.sleep(5)
        assert pair.far_handler.received_messages == sent
        await pair.near.close()
        await pair.far.close()

    run(scenario, seed=3)


def test_a_peer_shows_a_sign_of_life_after_a_round_trip_and_not_while_the_network_is_slow() -> None:
    async def scenario(_rng: random.Random) -> None:
        pair = Pair()
        pair.network.delay_seconds = lambda _source, _target: 0.2
        pair.network.processors["far"] = Busy()
        attempt = asyncio.ensure_future(pair.connect())
        await asyncio.sleep(0.39)
        assert not pair.near.has_answered("far:1"), "the first packet cannot have been answered yet"
        await asyncio.sleep(0.02)
        assert pair.near.has_answered("far:1"), "the transport of a process that is busy answers"
        assert pair.near_handler.events == []
        assert (await attempt).address == "far:1"
        await pair.near.close()
        await pair.far.close()

    run(scenario)
