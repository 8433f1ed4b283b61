"""A server with a peer_owner that records what it gets, and its transport, for tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine

from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Listener, Message
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_servers.node.dispatch import Dispatcher, Handlers
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.peers import Peers
from slotreeve_servers.node.supervisor import Supervisor
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport


def play(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    async def main(_rng: random.Random) -> None:
        await scenario()

    run(main)


class PeerOwner:
    """Writes down which peers came and went."""

    def __init__(self) -> None:
        self.here: list[Peer] = []
        self.gone: list[str] = []

    def opened(self, peer: Peer) -> None:
        self.here.append(peer)

    def closed(self, peer: Peer, reason: str) -> None:
        self.here.remove(peer)
        self.gone.append(peer.node)

    def counters(self) -> dict[str, int]:
        return {"peers": len(self.here)}


class Scene:
    """A server with some handlers on the memory transport, and tools that connect to it."""

    def __init__(self, handlers: Handlers) -> None:
        self.clock = VirtualClock()
        self.network = MemoryNetwork()
        self.supervisor = Supervisor(self.clock)
        self.peers = Peers(self.clock, self.supervisor)
        self.peer_owner = PeerOwner()
        self.dispatcher = Dispatcher(self.peers, Role.SESSION, handlers, self.peer_owner, self.peer_owner)
        self.listener: Listener | None = None

    async def listen(self) -> str:
        transport = MemoryTransport(self.clock, "server", self.network)
        self.listener = await transport.listen("server:1", hello("server", Role.SESSION), self.dispatcher)
        return self.listener.address

    async def connect(self, name: str = "tool", role: Role = Role.CLIENT) -> tuple[Connection, list[Message]]:
        tool = Reader()
        transport = MemoryTransport(self.clock, name, self.network)
        connection = await transport.connect("server:1", hello(name, role), tool, 1.0)
        return connection, tool.received_messages


class Reader:
    """A handler that keeps what it gets."""

    def __init__(self) -> None:
        self.received_messages: list[Message] = []

    def opened(self, connection: Connection) -> None:
        """Nothing to do."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        self.received_messages.append(message)

    def closed(self, connection: Connection, reason: str) -> None:
        """Nothing to do."""


def hello(name: str, role: Role) -> Hello:
    return Hello("test", name, role, f"{name}@1")
