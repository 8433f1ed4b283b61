"""Which side connects, and which connection is the present one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest
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

    def __init__(
        self,
        name: str,
        network: Wires,
        clock: VirtualClock,
        members: Mapping[str, str] = MEMBERS,
        is_moved: bool = False,
    ) -> None:
        self.events: list[Event] = []
        addresses = Addresses.of(name, members, is_moved=is_moved)
        hello = Hello("test", name, Role.META, f"{name}@1", addresses.announced)
        transport = network.transport(clock, name)
        self.connections = Connections(addresses, transport, hello, clock, self.events.append)


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


def test_a_probe_that_breaks_on_its_way_does_not_show_that_the_process_is_dead() -> None:
    """The promise to a leader that is cut off would end, and two could hold a lease."""

    async def main(_rng: random.Random) -> None:
        clock = VirtualClock()
        network = Wires()
        leader, other = End("a", network, clock), End("b", network, clock)
        await leader.connections.open()
        await other.connections.open()
        await asyncio.sleep(1.0)
        network.partition(["a"], ["b"])
        other.connections.probe(0)
        await asyncio.sleep(0.002)
        assert network.drop("b", "a") >= 1
        await asyncio.sleep(2.0)
        assert PeerDead(0) not in other.events
        network.heal()
        network.partition(["a"], ["b"])
        other.connections.probe(0)
        await asyncio.sleep(0.002)
        network.kill("a")
        assert network.drop("b", "a") >= 1
        await asyncio.sleep(2.0)
        assert PeerDead(0) in other.events, "the repeated probe is refused"
        await other.connections.close()

    run(main, 1)


NEW = {**MEMBERS, "a": "a:9"}
"""The configuration of a member that takes the place of ``a`` at another address."""


def test_a_member_that_has_moved_connects_to_those_that_should_connect_to_it_and_they_know_its_address() -> None:
    async def main(_rng: random.Random) -> None:
        clock = VirtualClock()
        network = Wires()
        old, other = End("a", network, clock), End("b", network, clock)
        await old.connections.open()
        await other.connections.open()
        await asyncio.sleep(0.5)
        await old.connections.close()
        network.kill("a")
        other.events.clear()
        moved = End("a", network, clock, NEW, is_moved=True)
        await moved.connections.open()
        await asyncio.sleep(5.0)
        assert other.events[-1] == PeerConnected(0)
        assert other.connections.announced == {"a": "a:9"}
        assert PeerConnected(1) in moved.events
        network.cut("a", "b")
        await asyncio.sleep(0.1)  # it is found at its announced address, without the second that it would wait
        assert [event for event in other.events if isinstance(event, PeerConnected)] == [PeerConnected(0)] * 2
        await moved.connections.close()
        await other.connections.close()

    run(main, 1)


def test_a_member_that_has_moved_waits_for_those_that_find_it() -> None:
    async def main(_rng: random.Random) -> None:
        clock = VirtualClock()
        network = Wires()
        moved = End("a", network, clock, NEW, is_moved=True)
        informed = [End(name, network, clock, NEW) for name in ("b", "c")]
        for end in (*informed, moved):
            await end.connections.open()
        await asyncio.sleep(30.0)
        assert sorted(e.sid for e in moved.events if isinstance(e, PeerConnected)) == [1, 2]
        assert not any(isinstance(event, PeerDisconnected) for event in moved.events)
        for end in (*informed, moved):
            await end.connections.close()

    run(main, 1)


def test_a_process_is_probed_where_it_was_connected_and_not_where_the_configuration_has_it() -> None:
    """Its promise would be ended otherwise while it leads: no process listens at the old address."""

    async def main(_rng: random.Random) -> None:
        clock = VirtualClock()
        network = Wires()
        other, moved = End("b", network, clock), End("a", network, clock, NEW, is_moved=True)
        await other.connections.open()
        await moved.connections.open()
        await asyncio.sleep(3.0)
        network.cut("a", "b")
        other.events.clear()
        other.connections.probe(0)
        await asyncio.sleep(0.5)
        assert PeerDead(0) not in other.events
        await moved.connections.close()
        await asyncio.sleep(3.0)  # the attempts at its announced address have failed, and it is forgotten
        assert other.connections.announced == {}
        other.connections.probe(0)
        await asyncio.sleep(0.5)
        assert PeerDead(0) in other.events
        await other.connections.close()

    run(main, 1)


def test_a_member_that_is_back_at_its_configured_address_is_found_there() -> None:
    async def main(_rng: random.Random) -> None:
        clock = VirtualClock()
        network = Wires()
        other, moved = End("b", network, clock), End("a", network, clock, NEW, is_moved=True)
        await other.connections.open()
        await moved.connections.open()
        await asyncio.sleep(3.0)
        await moved.connections.close()
        network.kill("a")
        back = End("a", network, clock)
        await back.connections.open()
        await asyncio.sleep(3.0)
        assert back.events == [PeerConnected(1)]
        assert other.connections.announced == {}
        for end in (back, other):
            await end.connections.close()

    run(main, 1)


@pytest.mark.parametrize("address", ["nowhere", "a:", ":7", "a:0", "a:65536", "a:-1", "a:\u00b2", "a:" + 5_000 * "9"])
def test_an_announced_address_that_is_none_is_not_used(address: str) -> None:
    async def main(_rng: random.Random) -> None:
        clock = VirtualClock()
        network = Wires()
        other, liar = End("b", network, clock), End("a", network, clock, NEW)
        await other.connections.open()
        connection = await network.transport(clock, "a").connect(
            MEMBERS["b"], Hello("test", "a", Role.META, "a@1", address), liar.connections, 1.0
        )
        await asyncio.sleep(1.0)
        assert other.events[-1] == PeerConnected(0)
        assert other.connections.announced == {}
        other.connections.probe(0)
        connection.close("done")
        await asyncio.sleep(3.0)
        assert PeerDisconnected(0) in other.events
        await other.connections.close()

    run(main, 1)
