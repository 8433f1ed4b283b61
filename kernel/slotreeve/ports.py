"""The ports: what a plugin must provide, in types and in prose.

All methods are called on the event loop of the node that built the plugin, never from two threads at once.
A plugin takes time, chance, the network and the disk from the context it was built with, and from nowhere else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import msgspec

from slotreeve.clock import Clock
from slotreeve.model.nodes import Server
from slotreeve.model.slots import Limits, Move, SlotTable
from slotreeve.wire.messages import Hello, Message

# --- slot function -----------------------------------------------------------------------------------------------


@runtime_checkable
class SlotFunction(Protocol):
    """Maps a key to a slot. Pure, and called for every publish: build it for speed."""

    def slot_of(self, key: str) -> int:
        """The slot of ``key`` (a data info id): an integer in 0 .. slots - 1, the same on every machine and run.

        Never fails for any text. Keys should spread evenly for every number of slots.
        """


@runtime_checkable
class BatchSlotFunction(SlotFunction, Protocol):
    """A slot function that takes many keys at once, too: jobs over millions of keys use that where it is offered."""

    def slots_of(self, keys: Sequence[bytes]) -> Sequence[int]:
        """The slot of each key, in order: what :meth:`slot_of` says of the text that ``keys`` have in UTF-8."""


# --- assigner and balancer ---------------------------------------------------------------------------------------


class Plan(msgspec.Struct, frozen=True):
    """A changed table and how it came about.

    Attributes:
        table: same number of slots; epochs as in the input (whoever commits the plan raises them).
        moves: every change from the input to ``table``, in order, each with its reason.
    """

    table: SlotTable
    moves: tuple[Move, ...]


@runtime_checkable
class Assigner(Protocol):
    """Fills slots that lack a leader or followers. A pure function; ties are broken by name, never by hash order."""

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """Give every slot a leader and ``min(limits.replicas, len(servers)) - 1`` followers among ``servers``.

        ``table`` may name servers that are gone: they are removed first. Slots that are complete stay as they are.
        Returns None when nothing is to be done. A result that is not valid (invariant I5) is rejected by the
        caller, logged and counted, and the old table stays. Raising counts as an invalid result. ``servers`` is
        never empty and may be in any order.
        """


@runtime_checkable
class Balancer(Protocol):
    """Evens out a complete table, one step a call. A pure function; ties are broken by name."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """One step towards balance, or None when the table is good enough.

        ``table`` is complete and names only ``servers``. The next step is asked for once every slot of this one is
        reported in sync, so a step should be small enough not to disturb and large enough to end soon. Repeated
        calls must reach None. A leader should move to a server that already follows the slot; where it does not,
        the slot cannot be read until it is copied. Invalid results are treated as the assigner's.
        """


# --- transport ---------------------------------------------------------------------------------------------------


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
        """As :meth:`send`, for a message encoded once by :func:`slotreeve.wire.codec.encode_message` and sent to
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
        checked by :func:`slotreeve.wire.hello.refusal` before ``handler`` hears of them.

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


# --- storage -----------------------------------------------------------------------------------------------------


@runtime_checkable
class Storage(Protocol):
    """A directory that one process owns. Blocking; meant for small, rare writes. Names are plain file names."""

    def read(self, name: str) -> bytes | None:
        """The whole of a file, or None if there is none.

        Raises:
            StorageError: it exists but cannot be read.
        """

    def replace(self, name: str, content: bytes) -> None:
        """Put ``content`` in the place of the file, atomically and durably: after the return it survives a power
        cut, and at no time can a mixture or an empty file be read.

        Raises:
            StorageError: not done; the old content is still there.
        """

    def append(self, name: str, content: bytes) -> None:
        """Add to the end of a file (created if missing), durably. After a crash a part of it may be there.

        Raises:
            StorageError: the content may be there in part.
        """

    def remove(self, name: str) -> None:
        """Remove a file durably; nothing happens if there is none."""

    def names(self) -> Sequence[str]:
        """The names of the files, sorted."""

    def close(self) -> None:
        """Give up the ownership (the lock) of the directory."""


# --- election and the fenced meta state --------------------------------------------------------------------------


class Leadership(msgspec.Struct, frozen=True):
    """Who leads, as one node knows it.

    Attributes:
        leader: name of the leading node; None while there is none known.
        term: the fencing number: rises with every change of leader, never goes back (I1). 0 before the first.
        leading: True when it is this node, and only once it may act (epoch handshake done, state in sync).
        valid_until: while ``leading``: this node's lease on the local monotonic clock, counted from before the
            renewal was sent (I2); nothing may be done in the leader's name after it. Otherwise 0.
        cause: why it last changed, for a person: ``elected``, ``connection lost``, ``quorum lost``, ``resigned``...
    """

    leader: str | None
    term: int
    leading: bool
    valid_until: float
    cause: str


class Versioned(msgspec.Struct, frozen=True):
    """A value of the meta state.

    Attributes:
        value: the bytes.
        version: 1 at the first write, +1 a write; goes on after a deletion.
        term: the term under which it was written.
    """

    value: bytes
    version: int
    term: int


@runtime_checkable
class MetaState(Protocol):
    """A small durable key-value store that the cluster keeps together; writes are fenced by term (I3)."""

    def read(self, key: str) -> Versioned | None:
        """The committed value as this node knows it; on the leader: the newest. None if never written."""

    def keys(self) -> Sequence[str]:
        """All keys that have a value, sorted."""

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        """Store and return the new version once it is durable (a quorum's disks, or the database).

        ``expected_version`` 0 means "must not exist", None means "whatever is there". ``term`` is the writer's.

        Raises:
            NotLeader: this node does not lead, or stopped leading before the write was sure; it may or may not be
                stored.
            StaleTerm: ``term`` is lower than the highest seen.
            VersionConflict: the stored version is another.
        """

    def watch(self, changed: Callable[[str, Versioned], None]) -> Callable[[], None]:
        """Call ``changed`` for every committed change from now on, in order; returns how to stop it."""


@runtime_checkable
class Election(Protocol):
    """Decides which of the meta nodes leads, and keeps their common state."""

    @property
    def state(self) -> MetaState:
        """The fenced meta state; on a follower it may lag behind."""

    def leadership(self) -> Leadership:
        """Who leads now. ``valid_until`` must be looked at again before every act in the leader's name."""

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """Take part; ``changed`` is called on the event loop whenever leader, term or ``leading`` changes.

        When ``leading`` becomes true, ``state`` already holds every acknowledged write of all earlier terms.

        Raises:
            StorageError, TransportError, ElectionError: cannot take part at all; the message says why.
        """

    async def resign(self) -> None:
        """Give up leadership so that another node takes over at once; nothing happens if this node does not lead."""

    async def stop(self) -> None:
        """Resign and stop taking part. Idempotent."""


# --- what a plugin is built with ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Context:
    """What the kernel hands to ``Offer.build``; a plugin uses what its port needs.

    Attributes:
        cluster: name of the cluster.
        slots: number of slots.
        clock, rng: time and chance.
        node: this node's name; ``members``: election address of every meta node by name, this node included.
        transport: for elections that talk over the network.
        open_storage: opens (and locks) a directory given by an option; raises StorageError.
        observe_only: the election must not stand as a candidate.
        listen: where this node's election listens; empty: its own address among ``members``.
    """

    cluster: str
    slots: int
    clock: Clock
    rng: random.Random
    node: str = ""
    members: Mapping[str, str] = field(default_factory=dict)
    transport: Transport | None = None
    open_storage: Callable[[str], Storage] | None = None
    observe_only: bool = False
    listen: str = ""
