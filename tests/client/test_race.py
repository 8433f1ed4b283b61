"""Attempts beside each other, against session servers that follow a script, on the memory network and virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Handler, Hello, Listener, Transport, TransportCounters
from slotreeve_client.connector import SILENT_PART, Connector
from slotreeve_client.options import ClientOptions
from slotreeve_client.race import MOST_ATTEMPTS
from slotreeve_client.reconnect import LONGEST_ATTEMPT_SECONDS, Reconnect
from slotreeve_conformance import virtual_time
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_protocol.client_messages import Moved, Redirect, Sessions
from slotreeve_protocol.general_messages import Ping
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

from tests.client.connector_scene import RecordingOwner
from tests.client.scripted_server import ScriptedServer

SILENT_SECONDS = ClientOptions().connect_seconds / SILENT_PART
NAMES = [f"s{number}" for number in range(24)]


class InOrder(Reconnect):
    """Tries the addresses in the order in which they were given."""

    def next_round(self, now: float) -> list[str]:
        return list(self._given)


class BusyProcessor:
    """A processor that is busy until a moment."""

    def __init__(self, until: float) -> None:
        self._until = until

    def busy_for(self) -> float:
        return max(0.0, self._until - asyncio.get_running_loop().time())

    def handled(self, packet: bytes) -> None:
        """Handling takes no time."""


class Reticent:
    """A transport that shows no signs of life."""

    def __init__(self, inner: MemoryTransport) -> None:
        self._inner = inner

    @property
    def counters(self) -> TransportCounters:
        return self._inner.counters

    async def listen(self, address: str, hello: Hello, handler: Handler) -> Listener:
        return await self._inner.listen(address, hello, handler)

    async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
        return await self._inner.connect(address, hello, handler, timeout_seconds)

    async def close(self) -> None:
        await self._inner.close()


class Scene:
    """Several session servers, and a connector that tries them in order."""

    def __init__(self, count: int) -> None:
        self.network = MemoryNetwork()
        self.network.delay_seconds = lambda _source, _target: 0.001
        self.servers = [ScriptedServer(self.network, name) for name in NAMES[:count]]
        self.owner = RecordingOwner()

    def freeze(self, *servers: int) -> None:
        for number in servers:
            self.network.freeze(NAMES[number])

    def thaw(self, *servers: int) -> None:
        for number in servers:
            self.network.thaw(NAMES[number])

    def is_busy(self, server: int, seconds: float) -> None:
        self.network.processors[NAMES[server]] = BusyProcessor(asyncio.get_running_loop().time() + seconds)

    @property
    def dialled(self) -> list[str]:
        """The servers to which the client has a connection or tries to make one."""
        return self.network.connections("client")

    @property
    def connected(self) -> list[int]:
        """The number of connections of each server."""
        return [len(server.connections) for server in self.servers]

    def connector(self, transport: Transport | None) -> Connector:
        options = ClientOptions()
        hello = Hello(options.cluster, "client", Role.CLIENT, "client")
        plan = InOrder([s.address for s in self.servers], options.connect_seconds, 1.0, random.Random(1))
        clock = VirtualClock()
        return Connector(
            self.owner, transport or MemoryTransport(clock, "client", self.network), hello, plan, options, clock
        )


Story = Callable[[Scene, Connector], Awaitable[None]]


def play(story: Story, count: int, *frozen: int, reticent: bool = False) -> Scene:
    """Tell a story with so many servers, some of them frozen. The story starts the connector."""

    async def scenario(_rng: random.Random) -> Scene:
        scene = Scene(count)
        for server in scene.servers:
            await server.start()
        scene.freeze(*frozen)
        transport = Reticent(MemoryTransport(VirtualClock(), "client", scene.network)) if reticent else None
        connector = scene.connector(transport)
        await story(scene, connector)
        await connector.close()
        scene.thaw(*range(count))
        await asyncio.sleep(1)
        assert scene.connected == [0] * count
        return scene

    return virtual_time.run(scenario)


@pytest.mark.parametrize("frozen", [1, 2, 3])
def test_frozen_servers_cost_an_eighth_of_the_time_of_an_attempt_each(frozen: int) -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.start()
        await asyncio.sleep(frozen * SILENT_SECONDS - 0.01)
        assert (connector.address, len(scene.dialled)) == (None, frozen)
        await asyncio.sleep(0.03)
        assert (connector.address, scene.dialled) == (f"s{frozen}:1", [f"s{frozen}"])

    assert play(story, 5, *range(frozen)).owner.events == [f"s{frozen}@process", "closed"]


def test_a_server_that_is_late_gets_no_other_attempt_beside_it() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.is_busy(0, 0.9)
        connector.start()
        for _ in range(80):
            await asyncio.sleep(0.01)
            assert scene.dialled == ["s0"]
        await asyncio.sleep(0.2)
        assert connector.address == "s0:1"

    scene = play(story, 3)
    assert [server.accepted for server in scene.servers] == [1, 0, 0]


def test_servers_that_answer_at_the_same_moment_do_not_both_admit_the_client() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.start()
        await asyncio.sleep(3.5 * SILENT_SECONDS)
        assert scene.dialled == ["s0", "s1", "s2", "s3"]
        scene.thaw(0, 1, 2, 3)
        await asyncio.sleep(0.1)
        assert (scene.dialled, scene.connected) == (["s0"], [1, 0, 0, 0])

    scene = play(story, 4, 0, 1, 2, 3)
    assert scene.owner.events == ["s0@process", "closed"]


def test_the_other_attempts_are_abandoned_once_one_shows_a_sign_of_life() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.is_busy(1, 0.5)
        connector.start()
        await asyncio.sleep(1.2 * SILENT_SECONDS)
        assert scene.dialled == ["s0", "s1"]
        await asyncio.sleep(0.2 * SILENT_SECONDS)
        assert scene.dialled == ["s1"]
        await asyncio.sleep(0.5)
        assert connector.address == "s1:1"

    play(story, 3, 0)


def test_no_more_than_four_attempts_run_at_once() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.start()
        for _ in range(10):
            assert len(scene.dialled) <= MOST_ATTEMPTS
            await asyncio.sleep(SILENT_SECONDS / 2)
        assert scene.dialled == NAMES[:MOST_ATTEMPTS]
        await asyncio.sleep(1.05 - 5 * SILENT_SECONDS)
        assert NAMES[MOST_ATTEMPTS] in scene.dialled

    play(story, 6, *range(6))


def test_addresses_where_nobody_answers_give_their_places_so_that_a_round_takes_no_longer_than_a_long_attempt() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.start()
        await asyncio.sleep(600)
        scene.thaw(23)
        began = asyncio.get_running_loop().time()
        await connector.connected()
        assert asyncio.get_running_loop().time() - began < 2 * LONGEST_ATTEMPT_SECONDS + 5

    assert play(story, 24, *range(24)).owner.events == ["s23@process", "closed"]


def test_where_few_addresses_are_known_each_silent_one_has_the_whole_time_of_an_attempt() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.start()
        await asyncio.sleep(600)
        changes, before = 0, scene.dialled
        for _ in range(100):
            await asyncio.sleep(1)
            changes, before = changes + (scene.dialled != before), scene.dialled
        assert changes <= 3 * 4 * 2, "in three rounds four attempts each begin and end"
        assert "did not answer the hello within 30 s" in connector.failures

    play(story, 4, *range(4))


def test_an_address_that_gave_its_place_is_told_among_the_failures() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.start()
        await asyncio.sleep(60)
        assert "s0:1: s0:1 shows no sign of life" in connector.failures

    play(story, 24, *range(24))


def test_an_attempt_that_fails_is_followed_by_the_next_one_at_once() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.network.kill("s0")
        scene.network.kill("s1")
        connector.start()
        await asyncio.sleep(0.02)
        assert connector.address == "s2:1"

    play(story, 3)


def test_with_a_transport_that_shows_no_signs_of_life_attempts_follow_each_other() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.start()
        await asyncio.sleep(0.98)
        assert scene.dialled == ["s0"]
        await asyncio.sleep(0.05)
        assert connector.address == "s1:1"

    play(story, 3, 0, reticent=True)


def test_a_server_that_answers_and_sends_the_client_away_is_followed_by_the_rest_of_the_round() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.servers[1].closes, scene.servers[1].admits = True, False
        connector.start()
        await asyncio.sleep(SILENT_SECONDS + 0.03)
        assert connector.address == "s2:1"
        assert "s1:1" not in connector.failures

    assert play(story, 4, 0).owner.events == ["s2@process", "closed"]


def test_a_client_that_is_closed_while_it_tries_leaves_nothing_behind() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.start()
        await asyncio.sleep(2.5 * SILENT_SECONDS)
        assert len(scene.dialled) == 3
        await connector.close()
        assert (scene.dialled, asyncio.all_tasks()) == ([], {asyncio.current_task()})

    assert play(story, 4, 0, 1, 2, 3).owner.events == []


def test_a_client_that_moves_passes_a_frozen_server_too_and_keeps_its_former_connection() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.start()
        await connector.connected()
        scene.freeze(1)
        scene.servers[0].connections[0].send(Redirect([]))
        await asyncio.sleep(SILENT_SECONDS + 0.03)
        assert (connector.address, connector.is_moving, scene.dialled) == ("s2:1", True, ["s0", "s2"])
        connector.taken_over()
        await asyncio.sleep(0.1)
        assert [message for message in scene.servers[0].messages if not isinstance(message, Ping)] == [Moved()]

    assert play(story, 3).owner.events == ["s0@process", "s2@process", "closed"]


def test_a_late_server_that_admits_the_client_late_is_waited_for_alone() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.servers[0].admits = False
        connector.start()
        await asyncio.sleep(5)
        assert (scene.connected, connector.address) == ([1, 0, 0], None)
        scene.servers[0].connections[0].send(Sessions([]))
        await asyncio.sleep(0.1)
        assert connector.address == "s0:1"

    play(story, 3)
