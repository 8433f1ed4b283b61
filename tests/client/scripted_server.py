"""A session server that follows a script, on the memory network and virtual time."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_protocol.client_messages import Sessions
from slotreeve_protocol.general_messages import Done
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport


class ScriptedServer:
    """A session server that answers as its script says, and keeps what it received."""

    def __init__(self, network: MemoryNetwork, name: str, cluster: str = "slotreeve") -> None:
        self.name, self.address = name, f"{name}:1"
        self.messages: list[Message] = []
        self.connections: list[Connection] = []
        self.admits = True
        self.era = ""
        self.closes = False
        self.accepted = 0
        self.answer: Callable[[Message], Message | None] = lambda _message: Done()
        self._hello = Hello(cluster, name, Role.SESSION, f"{name}@process")
        self._transport = MemoryTransport(VirtualClock(), name, network)

    async def start(self) -> ScriptedServer:
        await self._transport.listen(self.address, self._hello, self)
        return self

    def opened(self, connection: Connection) -> None:
        self.connections.append(connection)
        self.accepted += 1
        if self.admits:
            connection.send(Sessions([], self.era))
        if self.closes:
            connection.close("not now")

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        self.messages.append(message)
        if request_id is not None and (reply := self.answer(message)) is not None:
            connection.reply(request_id, reply)

    def closed(self, connection: Connection, reason: str) -> None:
        self.connections.remove(connection)
