"""Handlers and pairs of transports for the contract of transports and for tests of one transport."""

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
"""A condition must become true within this time."""
FACTS = SlotFacts(256, 2, "crc32c")
SERVER = Hello("test", "server", Role.SESSION, "server-process", facts=FACTS)
CLIENT = Hello("test", "client", Role.TOOL, "client-process", facts=FACTS)
SMALL_FRAME = 64 * 1024


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true. Fails the test if that takes longer than the time-out."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition never became true"
        await asyncio.sleep(0.0005)


async def turns(number: int = 5) -> None:
    """Wait for some turns of the event loop."""
    for _ in range(number):
        await asyncio.sleep(0)


@dataclass
class RecordingHandler:
    """A handler that records its calls, replies ``Done`` to ``Ping`` and closes on ``Goodbye``.

    Attributes:
        events: ``opened``, ``received`` or ``closed``, with the connection.
        received_messages: one-way messages, without ``Goodbye``.
        requests: requests without a reply, with connection and request id.
        reasons: reasons of the ends of connections.
        failing: the events at which it raises.
    """

    events: list[tuple[str, Connection]] = field(default_factory=list)
    received_messages: list[Message] = field(default_factory=list)
    requests: list[tuple[Connection, int, Message]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    failing: frozenset[str] = frozenset()

    def opened(self, connection: Connection) -> None:
        """Record it."""
        self._remember("opened", connection)

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Record it and reply or close."""
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
        """Record it."""
        self.reasons.append(reason)
        self._remember("closed", connection)

    @property
    def connections(self) -> list[Connection]:
        """All opened connections, in order."""
        return [connection for event, connection in self.events if event == "opened"]

    def history(self, connection: Connection) -> list[str]:
        """The events of one connection."""
        return [event for event, concerned in self.events if concerned is connection]

    def _remember(self, event: str, connection: Connection) -> None:
        self.events.append((event, connection))
        if event in self.failing:
            raise RuntimeError(f"the handler fails on purpose at {event}")


class RecordedAnswers:
    """An ``answered`` callback that records its calls."""

    def __init__(self) -> None:
        self.calls: list[Message | Exception | None] = []

    def __call__(self, reply: Message | None, error: Exception | None) -> None:
        """Record the call and check that it has either a reply or an error."""
        assert (reply is None) != (error is None)
        self.calls.append(reply if error is None else error)


@dataclass
class Pair:
    """A listening and a dialling transport with recording handlers."""

    server: Transport
    client: Transport
    listener: Listener
    server_handler: RecordingHandler
    client_handler: RecordingHandler
    address: str

    async def connect(self, hello: Hello = CLIENT, handler: Handler | None = None) -> Connection:
        """Open a connection; return its dialling end."""
        return await self.client.connect(self.address, hello, handler or self.client_handler, PATIENCE_SECONDS)

    async def both_ends(self) -> tuple[Connection, Connection]:
        """Open a connection; return the dialling and the accepting end."""
        before = len(self.server_handler.connections)
        near = await self.connect()
        await until(lambda: len(self.server_handler.connections) > before)
        return near, self.server_handler.connections[-1]


def opaque(number: int, size: int = 8) -> Opaque:
    """A numbered message."""
    return Opaque(str(number), b"x" * size)


def open_descriptors() -> int:
    """Number of file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


class TransportScene:
    """Makes pairs of the transport under test."""

    address = "127.0.0.1:0"
    """The address to listen on; port 0 is any free one."""

    def build(self, clock: Clock, limits: ChannelLimits) -> Transport:
        """A new transport. Called on the event loop. A subclass must override it.

        Args:
            clock: the clock of the transport.
            limits: the limits of its connections. Messages in flight may exceed those of the queue.
        """
        raise NotImplementedError

    def build_as(self, hello: Hello, clock: Clock, limits: ChannelLimits) -> Transport:
        """A new transport for who introduces itself so. Override it for a transport with keys."""
        return self.build(clock, limits)

    def dialled(self, address: str) -> str:
        """What others connect to that want a listener of :data:`SERVER` at this address."""
        return address

    def run(self, main: Coroutine[None, None, None]) -> None:
        """Run a test to its end on a new event loop. Override it to use another kind of loop."""
        asyncio.run(main)

    def check(self, scenario: Callable[[Pair], Awaitable[None]], limits: ChannelLimits | None = None) -> None:
        """Run a scenario on a new pair of transports, and check that both close."""

        async def main() -> None:
            async with self.pair(limits or ChannelLimits()) as pair:
                await scenario(pair)

        self.run(main())

    @asynccontextmanager
    async def pair(self, limits: ChannelLimits, client_limits: ChannelLimits | None = None) -> AsyncIterator[Pair]:
        """Two transports, of which the first listens. They are closed at the end."""
        clock = LoopClock()
        server = self.build_as(SERVER, clock, limits)
        client = self.build_as(CLIENT, clock, client_limits or limits)
        handler = RecordingHandler()
        try:
            listener = await server.listen(self.address, SERVER, handler)
            yield Pair(server, client, listener, handler, RecordingHandler(), self.dialled(listener.address))
        finally:
            await client.close()
            await server.close()
