"""A transport of a process that asks servers for somebody else."""

from __future__ import annotations

import msgspec
from slotreeve.ports import Connection, Handler, Hello, Listener, Transport
from slotreeve.ports.transport import TransportCounters


class OnBehalf:
    """Connects over ``transport`` in the name of ``who``: servers that log who asks for something log that name.
    Nobody has to prove it. Implements :class:`slotreeve.ports.Transport`; closing it closes nothing."""

    def __init__(self, transport: Transport, who: str) -> None:
        self._transport, self._who = transport, who

    @property
    def counters(self) -> TransportCounters:
        """See Transport."""
        return self._transport.counters

    async def listen(self, address: str, hello: Hello, handler: Handler) -> Listener:
        """See Transport."""
        return await self._transport.listen(address, hello, handler)

    async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
        """See Transport."""
        named = msgspec.structs.replace(hello, node=self._who)
        return await self._transport.connect(address, named, handler, timeout_seconds)

    async def close(self) -> None:
        """The transport belongs to another one."""
