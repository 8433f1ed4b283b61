"""Connections that hold less than members have to send each other: the rest waits, and no connection ends for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slotreeve.clock import Clock
from slotreeve.ports import Transport
from slotreeve_conformance.election_backend import Wires
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.simulated import simulated
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.events import PeerConnected, PeerDisconnected, Received
from slotreeve_election_fle.messages import FleMessage, NewLeader, NotLeading, SyncPart
from slotreeve_election_fle.outgoing import MOST_WAITING_BYTES
from slotreeve_election_fle.synchronise import PART_BYTES, WINDOW
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_memory.transport import MemoryTransport

from tests.election_fle.conftest import build
from tests.election_fle.test_fle_connections import End
from tests.election_fle.test_fle_progress import logged

QUEUE_BYTES = 4096


class NarrowWires(Wires):
    """Connections of which each holds two packets and a queue that is shorter than most messages."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way_packets = 2
        self.bytes_per_second = 200_000.0

    def transport(self, clock: Clock, name: str) -> Transport:
        return MemoryTransport(clock, name, self, ChannelLimits(queue_bytes=QUEUE_BYTES))


def part(number: int, size: int) -> SyncPart:
    return SyncPart(1, 2, [], [Entry(number, "key", bytes(size), 1)], number)


@asynccontextmanager
async def two_ends(wires: Wires) -> AsyncIterator[tuple[End, End]]:
    """Server 0 and server 1, which are connected."""
    one, other = End("a", wires, VirtualClock()), End("b", wires, VirtualClock())
    await one.connections.open()
    await other.connections.open()
    await asyncio.sleep(0.1)
    yield one, other
    await one.connections.close()
    await other.connections.close()


@simulated
async def test_what_a_connection_has_no_room_for_waits_and_arrives_in_order(rng: random.Random) -> None:
    async with two_ends(NarrowWires()) as (one, other):
        sent: list[FleMessage] = [part(number, rng.choice([0, 100, 3 * QUEUE_BYTES])) for number in range(40)]
        sent.append(NewLeader(1, 2, False, 0, 0, 40, 0))
        for message in sent:
            other.connections.send(0, message)
            if rng.random() < 0.3:
                await asyncio.sleep(rng.uniform(0.0, 0.1))
        await asyncio.sleep(10.0)
        assert one.events == [PeerConnected(1), *(Received(1, message) for message in sent)]
        assert other.events == [PeerConnected(0)]


@simulated
async def test_a_follower_that_lacks_more_than_a_queue_holds_is_brought_up_to_date(rng: random.Random) -> None:
    """A part of the history filled the queue, the message after it ended the connection, and so on. Where the vote of
    the follower was needed, nobody ever led."""
    async with Ensemble(build, NarrowWires(), ["meta-1", "meta-2", "meta-3"], VirtualClock(), rng) as ensemble:
        values = [rng.randbytes(1_000) for _ in range(10)]
        await ensemble.begin()
        logged(ensemble.storages["meta-1"], 1, values)
        await ensemble.start("meta-1", "meta-2")
        assert await ensemble.agreed(within_seconds=3.0) == "meta-1"
        await ensemble.write("meta-1", "new", b"v")
        ensemble.kill("meta-1")
        await ensemble.start("meta-3")
        assert await ensemble.agreed(within_seconds=5.0) == "meta-2"
        await asyncio.sleep(1.0)
        for name in ("meta-2", "meta-3"):
            state = ensemble.election(name).state
            assert [held.value for key in range(10) if (held := state.read(f"k{key}")) is not None] == values
        ensemble.check()


@simulated
async def test_a_peer_that_takes_nothing_is_hung_up_on_once_too_much_waits(rng: random.Random) -> None:
    wires = NarrowWires()
    async with two_ends(wires) as (_, other):
        wires.freeze("a")
        message = part(1, MOST_WAITING_BYTES // 8 + rng.randrange(1_000))
        for _ in range(8):
            other.connections.send(0, message)
            await asyncio.sleep(0.1)
        assert other.events == [PeerConnected(0)]
        for _ in range(8):
            other.connections.send(0, message)
        await asyncio.sleep(0.1)
        assert other.events[:2] == [PeerConnected(0), PeerDisconnected(0)]
        wires.thaw("a")


@simulated
async def test_the_death_of_a_peer_is_noticed_while_much_waits_for_it_and_the_next_process_gets_none_of_that(
    rng: random.Random,
) -> None:
    wires = NarrowWires()
    async with two_ends(wires) as (one, other):
        for number in range(20):
            other.connections.send(0, part(number, 2 * QUEUE_BYTES))
        await asyncio.sleep(rng.uniform(0.01, 0.2))
        assert len(one.events) < 20
        wires.kill("a")
        await asyncio.sleep(0.05)
        assert other.events[:2] == [PeerConnected(0), PeerDisconnected(0)]
        again = End("a", wires, VirtualClock())
        await again.connections.open()
        await asyncio.sleep(2.0)
        other.connections.send(0, NotLeading(7))
        await asyncio.sleep(1.0)
        assert again.events == [PeerConnected(1), Received(1, NotLeading(7))]
        await again.connections.close()


def test_a_connection_that_is_made_again_is_not_sent_more_than_may_wait_before_its_peer_answers() -> None:
    assert 2 * WINDOW * PART_BYTES < MOST_WAITING_BYTES
