"""Links between servers: kept alive, closed where silent, made again."""

from __future__ import annotations

import asyncio
import itertools

from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Handler, Hello
from slotreeve_servers.node.attention import AttendedClock
from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.node.links import SILENCE_SECONDS, LinkMaker, Links, Target
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.peers import Peers
from slotreeve_servers.node.supervisor import Supervisor
from slotreeve_transport_memory.transport import MemoryTransport

from tests.servers.node_scene import Reader, Scene, hello, play


def maker(scene: Scene, transport: MemoryTransport, attention: AttendedClock | None = None) -> LinkMaker:
    return LinkMaker(transport, scene.clock, lambda: hello("linker", Role.DATA), attention or scene.peers.attention)


class LinkScene:
    """A server, and links to it from a process whose attended clock advances."""

    def __init__(self) -> None:
        self.scene = Scene(Handlers())
        self.supervisor, self.handler = Supervisor(self.scene.clock), Reader()
        self.near = Peers(self.scene.clock, self.supervisor)
        self.near.attend()
        transport = MemoryTransport(self.scene.clock, "linker", self.scene.network)
        self.links = Links(maker(self.scene, transport, self.near.attention), self.supervisor, self.handler)

    async def start(self) -> Connection:
        await self.scene.listen()
        self.links.aim({"server": Target("server:1")})
        await asyncio.sleep(0.1)
        return self.links.connected["server"]

    async def stop(self) -> None:
        self.near.silence()
        await self.supervisor.stop()


def test_an_idle_link_carries_a_ping_each_second_so_both_ends_see_that_the_other_one_lives() -> None:
    async def scenario() -> None:
        world = LinkScene()
        connection = await world.start()
        (peer,) = world.scene.peer_owner.here
        world.scene.peers.attend()
        for _ in range(20):
            await asyncio.sleep(0.5)
            assert world.scene.peers.silent_for(peer) < 1.1
            assert world.near.attention.since(connection.heard_at) < 1.1
        assert world.links.connected == {"server": connection}
        world.scene.peers.silence()
        await world.stop()

    play(scenario)


def test_a_link_over_which_nothing_arrives_is_closed_and_made_again() -> None:
    async def scenario() -> None:
        world = LinkScene()
        first = await world.start()
        world.scene.network.freeze("server")
        await asyncio.sleep(SILENCE_SECONDS - 0.2)
        assert not first.closed
        await asyncio.sleep(1.5)
        assert first.closed
        assert world.links.connected == {}
        world.scene.network.thaw("server")
        await asyncio.sleep(1.5)
        assert not world.links.connected["server"].closed
        await world.stop()

    play(scenario)


def test_an_attempt_to_make_a_link_gets_more_time_after_each_that_failed() -> None:
    async def scenario() -> None:
        world = LinkScene()
        await world.scene.listen()
        world.scene.network.freeze("server")
        attempts: list[float] = []

        class Counting(MemoryTransport):
            async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
                attempts.append(timeout_seconds)
                return await super().connect(address, hello, handler, timeout_seconds)

        transport = Counting(world.scene.clock, "patient", world.scene.network)
        links = Links(maker(world.scene, transport), world.supervisor, world.handler)
        links.aim({"server": Target("server:1")})
        await asyncio.sleep(60.0)
        assert attempts[:6] == [1.0, 2.0, 4.0, 8.0, 16.0, 16.0]
        world.scene.network.thaw("server")
        await asyncio.sleep(20.0)
        assert not links.connected["server"].closed
        await world.stop()

    play(scenario)


def test_a_process_that_was_frozen_itself_closes_no_link_for_that() -> None:
    async def scenario() -> None:
        world = LinkScene()
        first = await world.start()
        world.near.silence()  # its clock stands still
        world.scene.network.freeze("linker")
        await asyncio.sleep(60.0)
        world.near.attend()
        world.scene.network.thaw("linker")
        await asyncio.sleep(10.0)
        assert world.links.connected == {"server": first}
        await world.stop()

    play(scenario)


def test_a_peer_that_has_gone_is_silent_for_ever() -> None:
    async def scenario() -> None:
        scene = Scene(Handlers())
        await scene.listen()
        connection, _ = await scene.connect()
        (peer,) = scene.peer_owner.here
        assert scene.peers.silent_for(peer) < 0.1
        connection.close("enough")
        await asyncio.sleep(0.1)
        assert scene.peers.silent_for(peer) == float("inf")

    play(scenario)


def test_an_attempt_for_a_peer_that_was_dropped_and_is_wanted_again_does_not_take_the_place_of_the_newer_link() -> None:
    async def scenario() -> None:
        world = LinkScene()
        await world.scene.listen()
        pauses = [0.5, 0.0]

        class Late(MemoryTransport):
            async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
                await asyncio.sleep(pauses.pop(0))
                return await super().connect(address, hello, handler, timeout_seconds)

        links = Links(
            maker(world.scene, Late(world.scene.clock, "late", world.scene.network)), world.supervisor, world.handler
        )
        links.aim({"server": Target("server:1")})
        await asyncio.sleep(0.1)
        links.aim({})
        links.aim({"server": Target("server:1")})
        await asyncio.sleep(0.2)
        link = links.connected["server"]
        await asyncio.sleep(1.0)
        assert links.connected == {"server": link}
        assert not link.closed
        assert len(world.scene.peer_owner.here) == 1
        await world.stop()

    play(scenario)


def test_links_are_made_again_when_lost_and_ended_when_no_longer_wanted() -> None:
    async def scenario() -> None:
        scene = Scene(Handlers())
        await scene.listen()
        links_supervisor, handler = Supervisor(scene.clock), Reader()
        transport = MemoryTransport(scene.clock, "linker", scene.network)
        links = Links(maker(scene, transport), links_supervisor, handler)
        links.aim({"server": Target("server:1"), "nobody": Target("nowhere:1")})
        await asyncio.sleep(1.0)
        assert list(links.connected) == ["server"]
        first = links.connected["server"]
        scene.peers.close(scene.peer_owner.here[0], "made up by this test")
        await asyncio.sleep(1.0)
        assert first.closed
        assert not links.connected["server"].closed
        links.aim({})
        await asyncio.sleep(1.0)
        assert links.connected == {}
        assert scene.peer_owner.here == []
        await links_supervisor.stop()

    play(scenario)


def test_a_peer_that_was_started_again_is_connected_to_at_once_however_long_it_was_away() -> None:
    async def scenario() -> None:
        world = LinkScene()
        world.links.aim({"server": Target("server:1", "server@1")})
        await asyncio.sleep(30.1)
        await world.scene.listen()
        world.links.aim({"server": Target("server:1", "server@2")})
        await asyncio.sleep(0.01)
        link = world.links.connected["server"]
        world.links.aim({"server": Target("server:1", "server@3")})
        await asyncio.sleep(0.01)
        assert world.links.connected == {"server": link}
        assert not link.closed
        await world.stop()

    play(scenario)


def test_a_peer_that_has_moved_is_connected_to_at_once_while_an_attempt_at_its_former_address_waits() -> None:
    async def scenario() -> None:
        world = LinkScene()
        await world.scene.listen()

        class Waits(MemoryTransport):
            async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
                if address == "silent:1":
                    await asyncio.sleep(timeout_seconds)
                return await super().connect(address, hello, handler, timeout_seconds)

        transport = Waits(world.scene.clock, "waits", world.scene.network)
        links = Links(maker(world.scene, transport), world.supervisor, world.handler)
        links.aim({"server": Target("silent:1")})
        await asyncio.sleep(40.0)
        links.aim({"server": Target("server:1")})
        await asyncio.sleep(0.1)
        link = links.connected["server"]
        await asyncio.sleep(40.0)
        assert links.connected == {"server": link}
        assert (link.closed, len(world.scene.peer_owner.here)) == (False, 1)
        await world.stop()

    play(scenario)


def test_another_server_at_the_address_of_a_member_is_not_taken_for_it() -> None:
    """Of a meta server the process is not known, and members name them as they like."""

    async def scenario() -> None:
        world = LinkScene()
        await world.scene.listen()
        world.links.aim({"gone": Target("server:1", "gone@1"), "server": Target("server:1", "server@1")})
        await asyncio.sleep(5.0)
        link = world.links.connected["server"]
        assert (list(world.links.connected), link.closed) == (["server"], False)
        world.links.aim({"server": Target("server:1", "server@1")})
        await asyncio.sleep(2.0)
        assert world.links.connected == {"server": link}
        world.links.aim({"meta": Target("server:1")})
        await asyncio.sleep(1.0)
        assert list(world.links.connected) == ["meta"]
        await world.stop()

    play(scenario)


def test_a_link_that_the_other_side_ends_at_once_is_made_again_after_growing_pauses() -> None:
    async def scenario() -> None:
        world, opened = LinkScene(), list[float]()
        now = asyncio.get_running_loop().time
        here = world.scene.peer_owner.opened

        def ends_at_once(peer: Peer) -> None:
            opened.append(now())
            here(peer)
            world.scene.peers.close(peer, "it does not keep up")

        world.scene.peer_owner.opened = ends_at_once  # type: ignore[method-assign]
        began = now()
        await world.scene.listen()
        world.links.aim({"server": Target("server:1")})
        await asyncio.sleep(10.0)
        assert 5 < len(opened) < 25
        pauses = [after - before for before, after in itertools.pairwise([began, *opened])]
        assert pauses[-1] >= 1.0
        world.scene.peer_owner.opened = here  # type: ignore[method-assign]
        await asyncio.sleep(2.0)
        assert not world.links.connected["server"].closed
        await world.stop()

    play(scenario)
