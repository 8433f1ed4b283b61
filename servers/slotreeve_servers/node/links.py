"""Outgoing connections that are made again when they are lost, or when nothing arrives over them any more."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from slotreeve.clock import Clock
from slotreeve.errors import Refused, TransportError
from slotreeve.ports import Connection, Handler, Hello, Message, Transport
from slotreeve_protocol.general_messages import Ping

from slotreeve_servers.node.attention import AttendedClock
from slotreeve_servers.node.supervisor import Supervisor, Wake

log = logging.getLogger("slotreeve.links")

FIRST_ATTEMPT_SECONDS = 1.0
LONGEST_ATTEMPT_SECONDS = 16.0
"""Time-out of an attempt to connect: it doubles with each one that fails, because a busy server answers late."""
FIRST_RETRY_SECONDS = 0.02
LONGEST_RETRY_SECONDS = 1.0
PING_SECONDS = 1.0
"""Over each link a ping is sent this often, unless the one before it has no reply yet."""
SILENCE_SECONDS = 10.0
"""A link over which nothing arrives for this long, while this process attends, is closed and made again."""


@dataclass(frozen=True)
class LinkMaker:
    """What it takes to make links: the transport, the hello of this process, and its clocks."""

    transport: Transport
    clock: Clock
    hello: Callable[[], Hello]
    attention: AttendedClock

    async def connect(self, address: str, handler: Handler, timeout_seconds: float) -> Connection:
        """Connect once; raises as :meth:`slotreeve.ports.Transport.connect`."""
        return await self.transport.connect(address, self.hello(), handler, timeout_seconds)


class Target(NamedTuple):
    """Where a peer is, and which process of it is the present one, if that is known."""

    address: str
    process_id: str = ""


class Links:
    """One connection to each of a changing set of processes; a lost one is made again, quickly at first.

    The end of a connection does not show everything: the process at the other end may be frozen, or the network may
    drop what is sent. So each link carries pings, and one over which nothing arrives is closed.

    ``inner`` is called for every connection as the transport would call it; ``refused`` is called for every refusal.
    All calls are made on the event loop.
    """

    def __init__(
        self,
        maker: LinkMaker,
        supervisor: Supervisor,
        inner: Handler,
        refused: Callable[[Refused], None] = lambda _error: None,
    ) -> None:
        self._maker, self._supervisor = maker, supervisor
        self._inner, self._refused = inner, refused
        self._targets: dict[str, Target] = {}
        self._wakes: dict[str, Wake] = {}
        self.connected: dict[str, Connection] = {}

    def aim(self, peers: Mapping[str, Target]) -> None:
        """Keep connections to exactly these peers (by name) from now on. One that has moved, or was started again, is
        connected to at once, however long nobody was there: an attempt at its former address may take very long."""
        before, self._targets = self._targets, dict(peers)
        for name in before:
            if name not in peers or peers[name].address != before[name].address:
                self._wakes.pop(name).set()
        for name in peers:
            if name not in self._wakes:
                wake = self._wakes[name] = Wake(self._maker.clock)
                self._supervisor.start(f"link to {name}", lambda name=name, wake=wake: self._keep(name, wake))  # type: ignore[misc]
            elif peers[name] != before[name]:
                self._wakes[name].set()

    async def _keep(self, name: str, wake: Wake) -> None:
        pause, patience = FIRST_RETRY_SECONDS, FIRST_ATTEMPT_SECONDS
        while (target := self._targets.get(name)) is not None and self.wants(name, wake):
            address = target.address
            try:
                connection = await self._maker.connect(address, _LinkHandler(self, name, wake), patience)
            except TransportError as error:
                if isinstance(error, Refused):
                    log.error("%s at %s refuses this server: %s", name, address, error)
                    self._refused(error)
                else:
                    log.debug("no link to %s at %s: %s", name, address, error)
                await self._rest(name, target, wake, pause)
                pause = min(2 * pause, LONGEST_RETRY_SECONDS)
                patience = min(2 * patience, LONGEST_ATTEMPT_SECONDS)
                continue
            patience, began = FIRST_ATTEMPT_SECONDS, self._maker.clock.now()
            pulse = _Pulse(connection, self._maker.attention)
            while not connection.closed and self.wants(name, wake):
                pulse.look()
                await wake.wait(PING_SECONDS)
            has_ended = connection.closed
            connection.close("no longer wanted")
            if self._maker.clock.now() - began >= LONGEST_RETRY_SECONDS:
                pause = FIRST_RETRY_SECONDS
            elif has_ended:  # the other side takes links, and ends them at once, or is another one
                await self._rest(name, target, wake, pause)
                pause = min(2 * pause, LONGEST_RETRY_SECONDS)

    async def _rest(self, name: str, target: Target, wake: Wake, seconds: float) -> None:
        """Sleep before the next attempt, unless the peer moves. The end of the last link may be heard meanwhile."""
        until = self._maker.clock.now() + seconds
        while (left := until - self._maker.clock.now()) > 0 and self._targets.get(name) == target:
            await wake.wait(left)

    def wants(self, name: str, wake: Wake) -> bool:
        """Whether the task that sleeps on ``wake`` still keeps the link to this peer."""
        return self._wakes.get(name) is wake

    def why_not(self, name: str, wake: Wake, connection: Connection) -> str:
        """Why a connection is not the link to this peer; empty if it is. Another server may have the address of one
        that has gone. Who is there is known of members only."""
        if not self.wants(name, wake):
            return "no longer wanted"
        if self._targets[name].process_id and connection.peer.node != name:
            return f"{connection.peer.node} is at {connection.address}; {name} was there"
        return ""

    def opened(self, name: str, connection: Connection) -> None:
        """A link is up."""
        self.connected[name] = connection
        self._inner.opened(connection)

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """A message came over a link."""
        self._inner.received(connection, message, request_id)

    def closed(self, name: str, connection: Connection, reason: str) -> None:
        """A link is down."""
        if self.connected.get(name) is connection:
            del self.connected[name]
        self._inner.closed(connection, reason)


class _Pulse:
    """Sends pings over one link, and closes it when nothing arrives."""

    def __init__(self, connection: Connection, attention: AttendedClock) -> None:
        self._connection, self._attention = connection, attention
        self._is_unanswered = False

    def look(self) -> None:
        """Close the link if it is silent. Otherwise send a ping, unless the last one is not answered yet.

        A ping that is not sent, because the queue is full, needs no retry: other frames wait to be read there.
        """
        if self._attention.since(self._connection.heard_at) >= SILENCE_SECONDS:
            log.warning("nothing arrives from %s; the link is made again", self._connection.address)
            self._connection.close(f"nothing arrived for {SILENCE_SECONDS:.0f} s")
        elif not self._is_unanswered:
            try:
                self._connection.request(Ping(), self._answered, math.inf)
                self._is_unanswered = True
            except TransportError as error:
                log.debug("no ping to %s: %s", self._connection.address, error)

    def _answered(self, reply: Message | None, error: Exception | None) -> None:
        self._is_unanswered = False


class _LinkHandler:
    """Handler of one attempt; knows which peer it is for.

    A peer that has moved, or was dropped and is wanted again, while an attempt is under way gets another attempt. Only
    that one may make the link: the first one may end later, and its connection is closed.
    """

    def __init__(self, links: Links, name: str, wake: Wake) -> None:
        self._links, self._name, self._wake = links, name, wake
        self._is_link = False
        self.received = links.received

    def opened(self, connection: Connection) -> None:
        reason = self._links.why_not(self._name, self._wake, connection)
        self._is_link = not reason
        if reason:
            connection.close(reason)
        else:
            self._links.opened(self._name, connection)

    def closed(self, connection: Connection, reason: str) -> None:
        if self._is_link:
            self._links.closed(self._name, connection, reason)
        self._wake.set()
