"""Which side connects, and which connection is the present one."""

from __future__ import annotations

import asyncio
import random

from slotreeve.model.nodes import Role
from slotreeve.ports import Hello
from slotreeve_conformance.election_backend import Wires
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_election_fle.connections import Addresses, Connections
from slotreeve_election_fle.events import Event, PeerConnected, PeerDead, PeerDisconnected, PeerUnreachable, Received
from slotreeve_election_fle.messages import NotLeading

MEMBERS = {"b": "b:1", "a": "a:1", "c": "c:1"}


def test_server_ids_are_ranks_and_the_greater_one_connects() -> None:
    assert Addresses.of("c", MEMBERS).dialled() == [0, 1]
    assert Addresses.of("a", MEMBERS).dialled() == []
    assert Addresses.of("outside", MEMBERS).dialled() == [0, 1, 2]
    assert Addresses.of("outside", MEMBERS).sid is None
    assert Addresses.of("b", MEMBERS, listen="0.0.0.0:9").listen == "0.0.0.0:9"


class End:
    """One node's connections, and the events they made."""

    def __init__(self, name: str, network: Wires, clock: VirtualClock) -> None:
        self.events: list[Event] = []
        hello = Hello("test", name, Role.META, f"{name}@1")
        transport = network.transport(clock, name)
        self.connections = Connections(Addresses.of(name, MEMBERS), transport, hello, clock, self.events.append)


def test_messages_arrive_and_the_end_of_a_connection_is_an_event_on_both_sides() -> None:
    async def main(_rng: random.Random) -> None:
        clock = VirtualClock()
        network = Wires()
        one, other = End("a", network, clock), End("b", network, clock)
        await one.connections.open()
        await other.connections.open()
        await asyncio.sleep(0.1)
        other.connections.send(0, NotLeading(7))
        await asyncio.sleep(0.1)
        assert one.events == [PeerConnected(1), Received(1, NotLeading(7))]
        assert other.events == [PeerConnected(0)]
        other.connections.hang_up(0, "a test")
        await asyncio.sleep(0.01)
        assert other.events[1] == PeerDisconnected(0)
        assert one.events[2] == PeerDisconnected(1)
        await asyncio.sleep(1.0)
        assert one.events[3] == PeerConnected(1)  # it is made again
        await other.connections.close()
        one.connections.probe(1)
        await asyncio.sleep(2.0)
        assert PeerDead(1) in one.events
        await one.connections.close()

    run(main, 1)


def test_a_member_that_does_not_listen_is_unreachable() -> None:
    async def main(_rng: random.Random) -> None:
        clock = VirtualClock()
        end = End("b", Wires(), clock)
        await end.connections.open()
        await asyncio.sleep(0.1)
        assert set(end.events) == {PeerUnreachable(0)}
        await end.connections.close()

    run(main, 1)
