"""A connector with session servers that follow a script, for tests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from slotreeve.clock import Clock
from slotreeve.model.nodes import Role
from slotreeve.ports import Hello, Message
from slotreeve_client.connector import Connector
from slotreeve_client.options import ClientOptions
from slotreeve_client.reconnect import Reconnect
from slotreeve_conformance import virtual_time
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

from tests.client.scripted_server import ScriptedServer


class RecordingOwner:
    """The owner of a connector, which keeps what it was called with."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.messages: list[Message] = []
        self.former_messages: list[Message] = []
        self.pings = self.answered_pings = 0

    def session_opened(self, process_id: str, in_another_era: bool) -> None:
        self.events.append(f"{process_id} in another era" if in_another_era else process_id)

    def era_changed(self) -> None:
        self.events.append("another era")

    def session_message(self, message: Message) -> None:
        self.messages.append(message)

    def session_closed(self) -> None:
        self.events.append("closed")

    def former_message(self, message: Message) -> None:
        self.former_messages.append(message)

    def late_seconds(self) -> float:
        return 0.0

    def ping_sent(self) -> None:
        self.pings += 1

    def ping_answered(self) -> None:
        self.answered_pings += 1

    def connector_failed(self) -> None:
        self.events.append("failed")


class Scene:
    """Two servers, a connector that knows the first of them, and its owner."""

    def __init__(self, cluster: str = "slotreeve") -> None:
        self.network = MemoryNetwork()
        self.first, self.second = (ScriptedServer(self.network, name, cluster) for name in ("first", "second"))
        self.owner = RecordingOwner()

    def connector(self, *addresses: str, clock: Clock | None = None, plan: Reconnect | None = None) -> Connector:
        options = ClientOptions(request_seconds=5.0)
        hello = Hello(options.cluster, "client", Role.CLIENT, "client")
        known = addresses or ("first:1",)
        reconnect = Reconnect(known, options.connect_seconds, options.longest_pause_seconds, random.Random(1))
        clock = clock or VirtualClock()
        transport = MemoryTransport(clock, "client", self.network)
        return Connector(self.owner, transport, hello, plan or reconnect, options, clock)


def play(story: Callable[[Scene, Connector], Awaitable[None]], *addresses: str, admits: bool = True) -> Scene:
    """Tell a story with both servers running; the connector is started before it and closed after it. ``admits``: the
    servers admit the client as soon as it is connected."""

    async def scenario(_rng: random.Random) -> Scene:
        scene = Scene()
        await scene.first.start()
        await scene.second.start()
        scene.first.admits = scene.second.admits = admits
        connector = scene.connector(*addresses)
        connector.start()
        await story(scene, connector)
        await connector.close()
        await asyncio.sleep(1)
        return scene

    return virtual_time.run(scenario)
