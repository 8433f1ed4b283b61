"""Session servers of a registry under test that programs outside of its event loop reach, too.

Among themselves the servers talk over the memory transport. A door is a listener on a real socket beside it, at the
same address, so that what a client learns of other session servers is true for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from slotreeve.errors import AddressInUse
from slotreeve.ports import Connection, Handler, Hello, Listener, Message, Transport, TransportCounters
from slotreeve_protocol.channel import Channel
from slotreeve_transport_memory.transport import MemoryTransport

Event = Callable[[], None]


class Door:
    """What one process has of real sockets, over the life of the process.

    Args:
        sockets: the transport on real sockets. Its clock is that of the registry, and not of the process.
    """

    def __init__(self, sockets: Transport) -> None:
        self._sockets = sockets
        self._guarded: list[_Doorkeeper] = []

    async def listen(self, address: str, hello: Hello, handler: Handler) -> Listener:
        """Raises AddressInUse."""
        keeper = _Doorkeeper(handler)
        self._guarded.append(keeper)
        return await self._sockets.listen(address, hello, keeper)

    @property
    def clients(self) -> set[str]:
        """The ids of the clients that are connected."""
        return {connection.peer.node for keeper in self._guarded for connection in keeper.connections}

    def stay_awake(self, now: float) -> None:
        """Time is skipped: programs outside, whose time is real, count as heard."""
        for keeper in self._guarded:
            keeper.stay_awake(now)

    def freeze(self) -> None:
        """Nothing that comes in is handed to the process."""
        for keeper in self._guarded:
            keeper.frozen = True

    def thaw(self) -> None:
        """The process gets what has waited, in order."""
        for keeper in self._guarded:
            keeper.thaw()

    def kill(self) -> None:
        """The process hears nothing more."""
        for keeper in self._guarded:
            keeper.dead = True

    async def close(self) -> None:
        """End every connection."""
        self.kill()
        await self._sockets.close()


class _Doorkeeper:
    """A handler that hands on to another one, unless the process is frozen or killed."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._waiting: list[Event] = []
        self.connections: dict[Connection, None] = {}
        self.frozen = self.dead = False

    def opened(self, connection: Connection) -> None:
        """See Handler."""
        self.connections[connection] = None
        self._pass(lambda: self._handler.opened(connection))

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """See Handler."""
        self._pass(lambda: self._handler.received(connection, message, request_id))

    def closed(self, connection: Connection, reason: str) -> None:
        """See Handler."""
        self.connections.pop(connection, None)
        self._pass(lambda: self._handler.closed(connection, reason))

    def thaw(self) -> None:
        """Hand on what has waited."""
        self.frozen = False
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            event()

    def stay_awake(self, now: float) -> None:
        """See Door."""
        for connection in self.connections:
            if isinstance(connection, Channel):
                connection.heard_at = now

    def _pass(self, event: Event) -> None:
        if self.frozen:
            self._waiting.append(event)
        elif not self.dead:
            event()


class _TwoListeners:
    """Two listeners at one address, as one."""

    def __init__(self, listeners: tuple[Listener, Listener]) -> None:
        self._listeners = listeners

    @property
    def address(self) -> str:
        """See Listener."""
        return self._listeners[0].address

    @property
    def has_unread(self) -> bool:
        """See Listener."""
        return any(listener.has_unread for listener in self._listeners)

    async def close(self) -> None:
        """See Listener."""
        await asyncio.gather(*(listener.close() for listener in self._listeners))


class TransportWithDoor:
    """A memory transport whose listeners are on a real socket, too; see :class:`slotreeve.ports.Transport`.

    Attributes:
        keys: none.
    """

    keys = None

    def __init__(self, inside: MemoryTransport, door: Door) -> None:
        self._inside, self._door = inside, door

    @property
    def counters(self) -> TransportCounters:
        """See Transport."""
        return self._inside.counters

    async def listen(self, address: str, hello: Hello, handler: Handler) -> Listener:
        """See Transport."""
        inside = await self._inside.listen(address, hello, handler)
        try:
            return _TwoListeners((inside, await self._door.listen(address, hello, handler)))
        except AddressInUse:
            await inside.close()
            raise

    async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
        """See Transport."""
        return await self._inside.connect(address, hello, handler, timeout_seconds)

    def has_answered(self, address: str) -> bool:
        """See SignsOfLife."""
        return self._inside.has_answered(address)

    async def close(self) -> None:
        """See Transport."""
        await self._inside.close()
        await self._door.close()
