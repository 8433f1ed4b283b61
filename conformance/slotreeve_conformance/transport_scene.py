"""What the contract of transports, and the tests of a single transport, are played with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from slotreeve.clock import Clock, LoopClock
from slotreeve.model.nodes import Role
from slotreeve.model.slots import SlotFacts
from slotreeve.ports import Connection, Handler, Hello, Listener, Message, Transport
from slotreeve_protocol.general_messages import Done, Goodbye, Opaque, Ping
from slotreeve_protocol.packets import ChannelLimits

PATIENCE_SECONDS = 10.0
"""How long a condition may take to become true."""
FACTS = SlotFacts(256, 2, "crc32c")
SERVER = Hello("test", "server", Role.SESSION, "server-process", facts=FACTS)
CLIENT = Hello("test", "client", Role.DATA, "client-process", facts=FACTS)
SMALL_FRAME = 64 * 1024


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true; fails the test when that takes too long."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition never became true"
        await asyncio.sleep(0.0005)


async def turns(number: int = 5) -> None:
    """Let the event loop turn."""
    for _ in range(number):
        await asyncio.sleep(0)


@dataclass
class RecordingHandler:
    """A handler that remembers what it is told, replies ``Done`` to ``Ping`` and closes on ``Goodbye``.

    Attributes:
        events: ``opened``, ``received`` or ``closed``, with the connection it concerned.
        received_messages: one-way messages, without ``Goodbye``.
        requests: what was asked and is not answered yet, with connection and request id.
        reasons: why connections ended.
        failing: the events on which it raises.
    """

    events: list[tuple[str, Connection]] = field(default_factory=list)
    received_messages: list[Message] = field(default_factory=list)
    requests: list[tuple[Connection, int, Message]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    failing: frozenset[str] = frozenset()

    def opened(self, connection: Connection) -> None:
        """Remember it."""
        self._remember("opened", connection)

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Remember it and do what it asks for."""
        if request_id is not None and isinstance(message, Ping):
            connection.reply(request_id, Done())
        elif request_id is not None:
            self.requests.append((connection, request_id, message))
        elif isinstance(message, Goodbye):
            connection.close(message.reason)
        else:
            self.received_messages.append(message)
        self._remember("received", connection)

    def closed(self, connection: Connection, reason: str) -> None:
        """Remember it."""
        self.reasons.append(reason)
        self._remember("closed", connection)

    @property
    def connections(self) -> list[Connection]:
        """All connections opened, in order."""
        return [connection for event, connection in self.events if event == "opened"]

    def history(self, connection: Connection) -> list[str]:
        """What was told of one connection."""
        return [event for event, concerned in self.events if concerned is connection]

    def _remember(self, event: str, connection: Connection) -> None:
        self.events.append((event, connection))
        if event in self.failing:
            raise RuntimeError(f"the handler fails on purpose at {event}")


class RecordedAnswers:
    """An ``answered`` callback that remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[Message | Exception | None] = []

    def __call__(self, reply: Message | None, error: Exception | None) -> None:
        """Remember the call; exactly one of both is set."""
        assert (reply is None) != (error is None)
        self.calls.append(reply if error is None else error)


@dataclass
class Pair:
    """A listening and a dialling transport, and what their handlers were told."""

    server: Transport
    client: Transport
    listener: Listener
    server_told: RecordingHandler
    client_told: RecordingHandler

    async def connect(self, hello: Hello = CLIENT, handler: Handler | None = None) -> Connection:
        """One more connection."""
        return await self.client.connect(self.listener.address, hello, handler or self.client_told, PATIENCE_SECONDS)

    async def both_ends(self) -> tuple[Connection, Connection]:
        """One more connection: the dialling and the accepting end."""
        before = len(self.server_told.connections)
        near = await self.connect()
        await until(lambda: len(self.server_told.connections) > before)
        return near, self.server_told.connections[-1]


def opaque(number: int, size: int = 8) -> Opaque:
    """A numbered message."""
    return Opaque(str(number), b"x" * size)


def open_descriptors() -> int:
    """Number of file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


class TransportScene:
    """Makes pairs of the transport under test."""

    address = "127.0.0.1:0"
    """Where to listen; port 0 is any free one."""

    def build(self, clock: Clock, limits: ChannelLimits) -> Transport:
        """A new transport, called on the event loop. To be overridden.

        Args:
            limits: as far as the transport knows such limits; those for the queue may be exceeded by what is under way.
        """
        raise NotImplementedError

    def run(self, main: Coroutine[None, None, None]) -> None:
        """Run a test to its end on a new event loop; override it to use another loop."""
        asyncio.run(main)

    def check(self, scenario: Callable[[Pair], Awaitable[None]], limits: ChannelLimits | None = None) -> None:
        """Run a scenario on a new pair of transports, and see that both close."""

        async def main() -> None:
            async with self.pair(limits or ChannelLimits()) as pair:
                await scenario(pair)

        self.run(main())

    @asynccontextmanager
    async def pair(self, limits: ChannelLimits, client_limits: ChannelLimits | None = None) -> AsyncIterator[Pair]:
        """Two transports, the first of which listens; closed afterwards."""
        clock = LoopClock()
        server, client = self.build(clock, limits), self.build(clock, client_limits or limits)
        told = RecordingHandler()
        try:
            listener = await server.listen(self.address, SERVER, told)
            yield Pair(server, client, listener, told, RecordingHandler())
        finally:
            await client.close()
            await server.close()
