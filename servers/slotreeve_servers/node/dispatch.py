"""From a received message to the method of the core that handles it: the one place for requests and replies."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from slotreeve.errors import Forbidden, SlotreeveError
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Message
from slotreeve_protocol.general_messages import Counters, Done, Failed, GetCounters, Ping
from slotreeve_protocol.senders import senders_to

from slotreeve_servers.node.outbox import Peer, Request
from slotreeve_servers.node.peers import Peers

log = logging.getLogger("slotreeve.dispatch")

UNEXPECTED = "SR208"
"""Error code of the reply to a request that a role does not take, or not from the role of its sender."""
LONGEST_COMPLAINT = 300
"""Letters of an error about what a peer sent, in the log."""
_NOBODY: frozenset[Role] = frozenset()


@dataclass(eq=False, slots=True)
class Handlers:
    """What one kind of peers may send to a core, and which method takes it.

    Attributes:
        messages: one-way messages; the method gets (peer, message).
        requests: requests; the method gets (peer, message) and returns the reply.
        later: requests that are answered later; the method gets (peer, message, request) and answers through the
            outbox.
    """

    messages: dict[type, Callable[[Peer, Any], None]] = field(default_factory=dict)
    requests: dict[type, Callable[[Peer, Any], Message]] = field(default_factory=dict)
    later: dict[type, Callable[[Peer, Any, Request], None]] = field(default_factory=dict)


class PeerOwner(Protocol):
    """The part of a core that learns of connections of one kind."""

    def opened(self, peer: Peer) -> None:
        """A peer has connected."""

    def closed(self, peer: Peer, reason: str) -> None:
        """A peer's connection has ended; nothing comes from it any more."""


class CountersSource(Protocol):
    """What answers ``GetCounters``."""

    def counters(self) -> dict[str, int]:
        """Counters by name."""


class Dispatcher:
    """A transport handler that looks up a method by the type of the message.

    A message that the handlers do not take, or that a process of the sender's role may not send to one of this ``role``
    (:mod:`slotreeve_protocol.senders`), is logged and counted in ``unexpected``; a request among them is answered with
    Failed. ``Ping`` is answered for all handlers, and ``GetCounters`` where there is a source of counters. An error of
    ours out of a method becomes the reply Failed with its code.
    """

    def __init__(
        self, peers: Peers, role: Role, handlers: Handlers, peer_owner: PeerOwner, source: CountersSource | None = None
    ) -> None:
        self._peers, self._peer_owner = peers, peer_owner
        self._senders = senders_to(role)
        self._by_connection = peers.by_connection
        self._messages, self._later = handlers.messages, handlers.later
        self._requests: dict[type, Callable[[Peer, Any], Message]] = {Ping: lambda peer, message: Done()}
        if source is not None:
            self._requests[GetCounters] = lambda peer, message: Counters(source.counters())
        self._requests.update(handlers.requests)
        self.unexpected = 0

    def opened(self, connection: Connection) -> None:
        """The transport: a connection is open."""
        self._peer_owner.opened(self._peers.add(connection))

    def closed(self, connection: Connection, reason: str) -> None:
        """The transport: a connection has ended."""
        self._peer_owner.closed(self._peers.remove(connection), reason)

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """The transport: a message arrived. Hand it to its method, and send the reply that the method returns."""
        peer = self._by_connection[connection]
        kind = type(message)
        try:
            if peer.role not in self._senders.get(kind, _NOBODY):
                self._peers.denied(peer, f"a {peer.role} may not send {kind.__name__}")
                self._refuse(connection, peer, message, request_id)
            elif request_id is None and (take := self._messages.get(kind)) is not None:
                take(peer, message)
            elif request_id is not None and (answer := self._requests.get(kind)) is not None:
                connection.reply(request_id, answer(peer, message))
            elif request_id is not None and (begin := self._later.get(kind)) is not None:
                begin(peer, message, Request(peer, request_id))
            else:
                self._refuse(connection, peer, message, request_id)
        except SlotreeveError as error:
            if isinstance(error, Forbidden):
                self._peers.denied(peer, str(error))
            else:
                peer.complain(log, "%s from %s: %s", kind.__name__, peer.node, str(error)[:LONGEST_COMPLAINT])
            if request_id is not None:
                connection.reply(request_id, Failed(error.code, str(error)))

    def _refuse(self, connection: Connection, peer: Peer, message: Message, request_id: int | None) -> None:
        self.unexpected += 1
        name = type(message).__name__
        kind = "message" if request_id is None else "request"
        told = "%s from the %s %s is no %s that this server takes from it"
        peer.complain(log, told, name, peer.role, peer.node, kind)
        if request_id is not None:
            connection.reply(request_id, Failed(UNEXPECTED, f"this server does not take {name} from a {peer.role}"))
