"""The port of transports: messages between processes, and the news that a peer has gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import msgspec

from slotreeve.model.nodes import Role
from slotreeve.model.slots import SlotFacts


class Message(msgspec.Struct, array_like=True, frozen=True):
    """Anything that travels over a connection. The protocol room derives every message from this class."""


class Hello(Message, frozen=True, tag=1):
    """Both ends send this first: who the sender is. ``facts`` is None for processes that do not shard: clients, tools,
    elections.

    ``oldest_version`` and ``newest_version`` bound the protocol versions that the sender speaks.
    """

    cluster: str
    node: str
    role: Role
    process_id: str
    address: str = ""
    oldest_version: int = 1
    newest_version: int = 1
    facts: SlotFacts | None = None


@runtime_checkable
class Connection(Protocol):
    """One established connection, seen from one of its two ends."""

    @property
    def peer(self) -> Hello:
        """What the other side said of itself."""

    @property
    def address(self) -> str:
        """Where the other side is, for messages to people."""

    @property
    def closed(self) -> bool:
        """True once the connection has ended; it never comes back."""

    def send(self, message: Message) -> None:
        """Queue a one-way message. Messages of one connection arrive in order, once, or the connection is lost.

        Raises:
            Backpressure: the queue to this peer is full; nothing was queued.
            ConnectionLost: the connection has ended.
            FrameTooLarge: the encoded message exceeds the transport's limit.
        """

    def send_encoded(self, frame: bytes) -> None:
        """As :meth:`send`, for a message encoded once by :func:`slotreeve_protocol.codec.encode_message` and sent to
        many."""

    def request(
        self,
        message: Message,
        answered: Callable[[Message | None, Exception | None], None],
        timeout_seconds: float,
    ) -> None:
        """Send a request; ``answered`` is called exactly once on the event loop, with the reply or with an error
        (RequestTimeout, ConnectionLost). It is never called before this method has returned.

        Raises:
            Backpressure, ConnectionLost, FrameTooLarge: as :meth:`send`; then ``answered`` is not called.
        """

    async def ask(self, message: Message, timeout_seconds: float) -> Message:
        """As :meth:`request`, awaited.

        Raises:
            RequestTimeout, ConnectionLost, Backpressure, FrameTooLarge.
        """

    def reply(self, request_id: int, message: Message) -> None:
        """Answer a request received on this connection; any time later, once. A reply to a connection that has
        ended is dropped: the asker has been told ConnectionLost."""

    def close(self, reason: str) -> None:
        """End the connection. What was sent before still goes out if the peer reads it. The handler of this end
        gets ``closed`` on a later turn of the event loop; the peer's gets it too."""


class Handler(Protocol):
    """What the owner of a listener or a connection is told. Called on the event loop; must not block or raise.

    An exception out of a handler is logged, counted, and ends that one connection.
    """

    def opened(self, connection: Connection) -> None:
        """The hello was accepted; always the first call for a connection."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """A message arrived; where ``request_id`` is not None it wants ``connection.reply(request_id, ...)``."""

    def closed(self, connection: Connection, reason: str) -> None:
        """The connection ended: closed by either side, or the peer died (known within milliseconds of its death).
        Always the last call for a connection, exactly once."""


class Listener(Protocol):
    """An address being listened on."""

    @property
    def address(self) -> str:
        """``host:port`` actually bound (a port of 0 has been replaced)."""

    async def close(self) -> None:
        """Stop listening and end every connection accepted here."""


@dataclass
class TransportCounters:
    """What went wrong below the level of messages, since start."""

    malformed_frames: int = 0
    oversize_frames: int = 0
    refused_hellos: int = 0
    backpressure: int = 0
    handler_errors: int = 0


@runtime_checkable
class Transport(Protocol):
    """Carries messages between processes: one-way, request/reply, and the news that a peer has gone."""

    @property
    def counters(self) -> TransportCounters:
        """Live counters of this transport."""

    async def listen(self, address: str, hello: Hello, handler: Handler) -> Listener:
        """Accept connections at ``host:port`` (port 0: any free one). ``hello`` is what peers are told; theirs is
        checked by :func:`slotreeve_protocol.hello.refusal` before ``handler`` hears of them.

        Raises:
            AddressInUse: the address cannot be bound.
        """

    async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
        """Connect once; no automatic reconnection.

        Raises:
            Unreachable: nobody answered within ``timeout_seconds``.
            Refused: the other side refused the hello, with its reason.
        """

    async def close(self) -> None:
        """End every connection and listener of this transport."""
