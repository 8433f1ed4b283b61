"""What a server's core knows of the world: peers by identity, and one outbox through which it acts.

A core keeps no connection, loop, timer or disk. The shell calls it with events; the core acts through the outbox.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from slotreeve.clock import Timer
from slotreeve.keys import Principal
from slotreeve.model.nodes import Node, Role
from slotreeve.ports import Message
from slotreeve_protocol.codec import encode_message

Work = Callable[..., Iterator[None]]
"""A generator. Each ``yield`` ends a step, after which anything else may happen before the next one."""
Answered = Callable[[Message | None, Exception | None], None]
"""Called once with the reply to a request, or with the error that came instead of it."""


MOST_COMPLAINTS = 10
"""Warnings about what one connection sends."""


@dataclass(eq=False, slots=True, repr=False)
class Peer:
    """One connection as a core knows it. Two connections of one process are two peers.

    Attributes:
        node: name of the process at the other end.
        role: its role.
        process_id: unique for each life of that process.
        address: where it is, for messages to people and for orders that name an IP address.
        application: what the program of a client is called, as it says; for people.
        pause_seconds: how long a client may wait before it connects again if this connection ends soon, as it says.
        proven: who it is by its key; None where no keys are used.
        complaints: how often the log was told of something wrong that came from it.
        is_expelled: this server has ended the connection, because the key of the peer is trusted no more.
        silence_at_close: None, unless this server has closed the connection, for instance because the peer did not
            read. Then: for how long nothing had arrived from the peer, in attended seconds.
    """

    node: str
    role: Role
    process_id: str
    address: str = ""
    application: str = ""
    proven: Principal | None = None
    silence_at_close: float | None = None
    pause_seconds: float = 0.0
    is_expelled: bool = False
    complaints: int = 0

    def __repr__(self) -> str:
        return self.node

    def complain(self, log: logging.Logger, text: str, *details: object) -> None:
        """Log a warning about what it sends. Of one that goes on sending such things only the first are logged."""
        self.complaints += 1
        if self.complaints <= MOST_COMPLAINTS:
            more = " (no more of its like is logged)" if self.complaints == MOST_COMPLAINTS else ""
            log.warning(text + more, *details)

    @property
    def holder(self) -> Hashable:
        """Whose share it takes where there is not enough for all: that of the holder of its key, who may connect as
        often as it likes; without a key its own."""
        return self if self.proven is None else self.proven.name

    @property
    def author(self) -> str:
        """Who it is, for the history: whose key it has, and then what it says of itself."""
        if self.proven is None:
            return self.node
        return f"key {self.proven.name}" if self.proven.name == self.node else f"key {self.proven.name}, {self.node}"


class Request(NamedTuple):
    """A request that is answered later, through :meth:`Outbox.reply`."""

    peer: Peer
    number: int


class Outbox(Protocol):
    """All that a core can do. Every call is made on the server's event loop and returns at once.

    A message to a peer that has gone is dropped: the core receives ``closed`` for that peer. A peer whose queue is full
    is closed, because its state would have a gap; it may connect and ask again.
    """

    @property
    def part_bytes(self) -> int:
        """What travels whole - a service, the differences of a slot - is cut into messages of about so many bytes."""

    @property
    def has_unread(self) -> bool:
        """Whether anything has arrived from those that connected to this server, and was not handled yet."""

    def now(self) -> float:
        """Seconds on the server's monotonic clock."""

    def attended(self) -> float:
        """Seconds on a clock that stands still while this process is frozen or gets no processor. Deadlines that are
        held against others use it, see :class:`slotreeve_servers.node.attention.AttendedClock`."""

    def steady_seconds(self) -> float:
        """For how long this process has run without standing still, see
        :meth:`slotreeve_servers.node.attention.AttendedClock.steady_seconds`."""

    def silent_for(self, peer: Peer) -> float:
        """Attended seconds since the last packet of the peer arrived; infinite if it has gone."""

    def has_room(self, peer: Peer) -> bool:
        """False if half of what may wait for the peer waits: then whatever can be sent later should be. True where the
        peer has gone, because nothing that is sent to it waits."""

    def send(self, peer: Peer, message: Message) -> bool:
        """Send a one-way message. False: it was not sent, and the peer is gone or about to be closed."""

    def send_encoded(self, peer: Peer, frame: bytes, what: str) -> bool:
        """As :meth:`send`, for a message that was encoded once for many peers; ``what`` names it in the log."""

    def ask(self, peer: Peer, message: Message, answered: Answered, timeout_seconds: float) -> bool:
        """Send a request. ``answered`` is called once, never before this method has returned. False: the request was
        not sent, and ``answered`` is not called."""

    def reply(self, request: Request, message: Message) -> None:
        """Answer a request; dropped where the peer has gone."""

    def close(self, peer: Peer, reason: str) -> None:
        """End the connection; the core receives ``closed`` on a later turn of the event loop."""

    def denied(self, peer: Peer, reason: str) -> None:
        """Write down in the history that a peer lacks the right or the role for something."""

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Call ``action`` after ``seconds``. An action that raises is logged and counted as a failure."""

    def at_turns_end(self, action: Callable[[], None]) -> None:
        """Call ``action`` when the current turn of the event loop has ended."""

    def pace(self, work: Work, *about: Hashable, is_patient: bool = False) -> None:
        """Do ``work(*about)`` in parts, from the end of this turn on: see
        :meth:`slotreeve_servers.node.paced_work.PacedWork.run`. ``is_patient``: it may take longer while there is much
        to read."""

    def when_read(self, action: Callable[[], None]) -> None:
        """Call ``action`` once everything has been handled that had arrived when this was called, after 2 s at the
        latest, and not before the end of this turn. It tells apart what was not sent from what was not read."""

    def repeat(self, name: str, seconds: float, action: Callable[[], float | None]) -> None:
        """Call ``action`` every ``seconds``, or after as many seconds as it returned the last time, until the server
        stops. An action that raises is logged and counted under ``name``, and is called again."""

    def keep_links(self, nodes: Iterable[Node]) -> None:
        """Keep connections to exactly these data servers; lost ones are made again."""


class TurnEnd:
    """Runs one action when the current turn of the event loop ends, however often the turn asks for it."""

    __slots__ = ("_action", "_is_due", "_outbox")

    def __init__(self, outbox: Outbox, action: Callable[[], None]) -> None:
        self._outbox, self._action = outbox, action
        self._is_due = False

    def soon(self) -> None:
        """Run the action at the end of this turn."""
        if not self._is_due:
            self._is_due = True
            self._outbox.at_turns_end(self._run)

    def _run(self) -> None:
        self._is_due = False
        self._action()


class Retry:
    """Runs one action a fixed time after it was first asked for; further requests before that change nothing."""

    __slots__ = ("_action", "_is_due", "_outbox", "_seconds")

    def __init__(self, outbox: Outbox, seconds: float, action: Callable[[], None]) -> None:
        self._outbox, self._seconds, self._action = outbox, seconds, action
        self._is_due = False

    def later(self) -> None:
        """Run the action after the fixed time, once."""
        if not self._is_due:
            self._is_due = True
            self._outbox.after(self._seconds, self._run)

    def _run(self) -> None:
        self._is_due = False
        self._action()


def send_to_all(outbox: Outbox, peers: Iterable[Peer], message: Message) -> None:
    """Send one message, encoded once, to each of ``peers``."""
    frame, what = encode_message(message), type(message).__name__
    for peer in peers:
        outbox.send_encoded(peer, frame, what)
