"""The port of transports: they carry messages between processes and report the end of a connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import msgspec

from slotreeve.keys import KeyPair, KeyRing, Principal, with_name
from slotreeve.model.nodes import Role
from slotreeve.model.slots import SlotFacts

PROTOCOL_VERSION = 3
"""Version of the messages of this build."""
OLDEST_PROTOCOL_VERSION = 3
"""Oldest version that this build understands: 1 had no learners in the slot table, 2 had four questions instead of
``Confirm``."""


class Message(msgspec.Struct, array_like=True, frozen=True):
    """Base class of every message. The package ``slotreeve_protocol`` defines the messages."""


class Hello(Message, frozen=True, tag=1):
    """The first message of both ends of a connection: it identifies its sender.

    ``oldest_version`` and ``newest_version`` bound the protocol versions that the sender understands. ``facts`` is None
    for processes that do not use slots: clients, tools, elections. ``application`` is what the program of a client is
    called, for people; empty: it does not say. ``pause_seconds`` is how long a client may wait before it connects again
    if this connection ends soon.
    """

    cluster: str
    node: str
    role: Role
    process_id: str
    address: str = ""
    oldest_version: int = OLDEST_PROTOCOL_VERSION
    newest_version: int = PROTOCOL_VERSION
    facts: SlotFacts | None = None
    application: str = ""
    pause_seconds: float = 0.0


@runtime_checkable
class Connection(Protocol):
    """One established connection, seen from one of its two ends."""

    @property
    def peer(self) -> Hello:
        """The peer's hello."""

    @property
    def proven(self) -> Principal | None:
        """Who the peer has proven to be by its key; None where no keys are used."""

    @property
    def address(self) -> str:
        """The address of the peer, for messages to people."""

    @property
    def closed(self) -> bool:
        """True once the connection has ended. It never opens again."""

    @property
    def ended_here(self) -> bool:
        """Whether this end has closed it, and the peer may come back: it may live, and not know yet that it has
        ended."""

    @property
    def is_expelled(self) -> bool:
        """Whether this end has ended it because the key of the peer is trusted no more: the peer does not come back."""

    @property
    def heard_at(self) -> float:
        """When the last packet of the peer arrived, in seconds on the transport's clock."""

    @property
    def has_room(self) -> bool:
        """Whether less than half of the bytes wait for the peer that may wait for it. Without room, whatever can be
        sent later should be: the rest of the queue is for what cannot."""

    def send(self, message: Message) -> None:
        """Queue a one-way message. Messages of one connection arrive in order (a transport may let urgent ones overtake
        others) and once, or the connection is lost.

        Raises:
            Backpressure: the queue to this peer is full; nothing was queued.
            ConnectionLost: the connection has ended.
            FrameTooLarge: the encoded message exceeds the transport's limit.
        """

    def send_encoded(self, frame: bytes) -> None:
        """As :meth:`send`, for a message that is encoded once, by :func:`slotreeve_protocol.codec.encode_message`, and
        sent to many peers."""

    def request(
        self,
        message: Message,
        answered: Callable[[Message | None, Exception | None], None],
        timeout_seconds: float,
    ) -> None:
        """Send a request. ``answered`` is called exactly once on the event loop, after this method has returned, with
        the reply or with an error (RequestTimeout, ConnectionLost). ``math.inf``: no time-out.

        Raises:
            Backpressure, ConnectionLost, FrameTooLarge: as :meth:`send`; ``answered`` is then not called.
        """

    async def ask(self, message: Message, timeout_seconds: float) -> Message:
        """Send a request and wait for the reply.

        Raises:
            RequestTimeout, ConnectionLost, Backpressure, FrameTooLarge.
        """

    def reply(self, request_id: int, message: Message) -> None:
        """Reply to a request that this connection received; once, at any later time. Does nothing if the connection has
        ended: the peer's request has then failed with ConnectionLost."""

    def close(self, reason: str) -> None:
        """End the connection. Messages sent before still go out if the peer reads them. The handlers of both ends get
        ``closed``, that of this end on a later turn of the event loop."""


class Handler(Protocol):
    """Receives the events of connections. Called on the event loop; must not block or raise. An exception is logged and
    counted, and ends the connection."""

    def opened(self, connection: Connection) -> None:
        """The hellos were exchanged and accepted. Always the first call for a connection."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """A message arrived. If ``request_id`` is not None, ``connection.reply(request_id, ...)`` must be called."""

    def closed(self, connection: Connection, reason: str) -> None:
        """The connection ended: one end closed it, or the peer's process died (reported within milliseconds). Always
        the last call for a connection, exactly once."""


class Listener(Protocol):
    """An open listening address."""

    @property
    def address(self) -> str:
        """``host:port`` that was bound; never port 0."""

    @property
    def has_unread(self) -> bool:
        """True while packets that have arrived over connections accepted here were not handed to the handler."""

    async def close(self) -> None:
        """Stop listening and end every connection that was accepted here."""


@dataclass
class TransportCounters:
    """Failures below the level of messages, counted since the start."""

    malformed_frames: int = 0
    oversize_frames: int = 0
    refused_hellos: int = 0
    refused_keys: int = 0
    backpressure: int = 0
    handler_errors: int = 0


@runtime_checkable
class Transport(Protocol):
    """Carries messages and requests between processes, and reports the end of a connection."""

    @property
    def counters(self) -> TransportCounters:
        """The counters of this transport. Not a copy: it changes."""

    async def listen(self, address: str, hello: Hello, handler: Handler) -> Listener:
        """Accept connections at ``host:port`` (port 0: any free one). Peers get ``hello``; ``handler`` gets a
        connection only if :func:`slotreeve_protocol.hello.refusal` accepts the peer's hello, and with keys only if the
        peer holds a trusted one that lets it be who its hello says.

        Raises:
            AddressInUse: the address cannot be bound.
        """

    async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
        """Connect once. The connection is never restored after it ends.

        With keys the address is ``name@host:port``, and only the holder of a trusted key of that name counts as an
        answer; without, the name means nothing.

        Raises:
            Unreachable: no process answered within ``timeout_seconds``.
            Refused: the peer refused the key or the hello; the message holds its reason.
        """

    async def close(self) -> None:
        """End every connection and listener of this transport."""


@runtime_checkable
class SignsOfLife(Protocol):
    """What a transport offers besides if it can tell a late process from a frozen one."""

    def has_answered(self, address: str) -> bool:
        """Whether, in an attempt to connect to ``address`` that has not failed, the peer's transport has answered. It
        answers while its process is busy, not while the process is frozen and only its kernel accepts."""


@runtime_checkable
class KeyHolder(Protocol):
    """What a transport offers besides if it can use keys."""

    @property
    def keys(self) -> KeyRing | None:
        """What it proves and checks identities with; None: it does not."""


@runtime_checkable
class KeyMaker(Protocol):
    """What a transport offers besides if it can make the keys that it uses."""

    def new_key_pair(self) -> KeyPair:
        """A new key, drawn at random."""


def own_name(transport: Transport) -> str:
    """Whose key a transport uses; empty where it uses none."""
    return transport.keys.name if isinstance(transport, KeyHolder) and transport.keys is not None else ""


def dialled(transport: Transport | None, name: str, address: str) -> str:
    """What a process must connect to over ``transport`` to reach the process ``name``: with keys, an address that says
    whose it is."""
    has_keys = isinstance(transport, KeyHolder) and transport.keys is not None
    return with_name(name, address) if has_keys else address
