"""The shell under a core: connections behind peers, and the outbox over clock, connections and supervised loops."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from functools import partial

from slotreeve.clock import Clock, Timer
from slotreeve.errors import ConnectionLost, TransportError
from slotreeve.model.nodes import Node
from slotreeve.model.text import in_a_line
from slotreeve.ports import Connection, Listener, Message
from slotreeve_events.history import ServerHistory
from slotreeve_protocol.history_messages import Denied
from slotreeve_protocol.people_messages import MAX_APPLICATION_LENGTH

from slotreeve_servers.node.attention import TICK_SECONDS, AttendedClock
from slotreeve_servers.node.deltas import PART_BYTES
from slotreeve_servers.node.denials import Denials
from slotreeve_servers.node.links import Links, Target
from slotreeve_servers.node.outbox import Answered, Peer, Request
from slotreeve_servers.node.paced_work import PacedWork
from slotreeve_servers.node.supervisor import Supervisor

log = logging.getLogger("slotreeve.peers")

LOOK_SECONDS = 0.001
LONGEST_READ_SECONDS = 2.0
"""``when_read`` waits at most so long, because new packets may come in as fast as others are read."""


class Peers:
    """All connections of one server, by peer. Implements :class:`slotreeve_servers.node.outbox.Outbox`.

    Args:
        part_bytes: see :attr:`slotreeve_servers.node.outbox.Outbox.part_bytes`.

    Attributes:
        by_connection: the peer at the other end of each open connection.
        attention: the time during which this process attends; it advances after :meth:`attend`.
        links: the links that :meth:`keep_links` aims; set by the shell before the core runs.
        listener: where this server listens; set by the shell once it does.
        denials: what was denied to peers.
        history: of this server, if it keeps one; set by the shell.
    """

    def __init__(self, clock: Clock, supervisor: Supervisor, part_bytes: int = PART_BYTES) -> None:
        self._clock, self._supervisor, self.part_bytes = clock, supervisor, part_bytes
        self._connections: dict[Peer, Connection] = {}
        self.by_connection: dict[Connection, Peer] = {}
        self._is_silent = False
        self._when_read: list[tuple[float, Callable[[], None]]] = []
        self._tick: Timer | None = None
        self.links: Links | None = None
        self.listener: Listener | None = None
        self.attention = AttendedClock(clock.now)
        self.now, self.reached, self.wall_ms = clock.now, clock.reached, clock.wall_ms
        self.attended, self.steady_seconds = self.attention.now, self.attention.steady_seconds
        self.pace = PacedWork(self).run
        self.denials = Denials(self.after, self.note_denial)
        self.history: ServerHistory | None = None

    def attend(self) -> None:
        """The server starts: from now on its attended clock advances."""
        self.attention.tick()
        self._tick = self._clock.call_later(TICK_SECONDS, self.attend)

    def silence(self) -> None:
        """The server has left the cluster: from now on nothing is sent, and no timer of the core runs."""
        self._is_silent = True
        if self._tick is not None:
            self._tick.cancel()

    # --- for the dispatchers -----------------------------------------------------------------------------------------

    def add(self, connection: Connection) -> Peer:
        """A connection has opened; returns its peer."""
        hello = connection.peer
        application = in_a_line(hello.application[:MAX_APPLICATION_LENGTH])
        peer = Peer(hello.node, hello.role, hello.process_id, connection.address, application, connection.proven)
        peer.pause_seconds = max(0.0, hello.pause_seconds)  # also where it is no number
        self.by_connection[connection] = peer
        self._connections[peer] = connection
        return peer

    def remove(self, connection: Connection) -> Peer:
        """A connection has ended; returns its peer."""
        peer = self.by_connection.pop(connection)
        del self._connections[peer]
        peer.is_expelled = connection.is_expelled
        if connection.ended_here:
            peer.silence_at_close = self.attention.since(connection.heard_at)
        return peer

    async def ask_and_wait(self, peer: Peer, message: Message, timeout_seconds: float) -> Message:
        """Send a request and wait for its reply.

        Raises:
            RequestTimeout, ConnectionLost, Backpressure, FrameTooLarge.
        """
        connection = self._connections.get(peer)
        if connection is None:
            raise ConnectionLost(f"{peer.node} has gone")
        return await connection.ask(message, timeout_seconds)

    # --- the outbox --------------------------------------------------------------------------------------------------

    @property
    def has_unread(self) -> bool:
        """See :attr:`slotreeve_servers.node.outbox.Outbox.has_unread`."""
        return self.listener is not None and self.listener.has_unread

    def silent_for(self, peer: Peer) -> float:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.silent_for`."""
        connection = self._connections.get(peer)
        return math.inf if connection is None else self.attention.since(connection.heard_at)

    def has_room(self, peer: Peer) -> bool:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.has_room`."""
        connection = self._connections.get(peer)
        return connection is None or connection.has_room

    def send(self, peer: Peer, message: Message) -> bool:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.send`."""
        connection = self._connections.get(peer)
        if connection is None or self._is_silent:
            return False
        try:
            connection.send(message)
        except TransportError as error:
            self._not_sent(peer, connection, type(message).__name__, error)
            return False
        return True

    def send_encoded(self, peer: Peer, frame: bytes, what: str) -> bool:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.send_encoded`."""
        connection = self._connections.get(peer)
        if connection is None or self._is_silent:
            return False
        try:
            connection.send_encoded(frame)
        except TransportError as error:
            self._not_sent(peer, connection, what, error)
            return False
        return True

    def _not_sent(self, peer: Peer, connection: Connection, what: str, error: TransportError) -> None:
        if not isinstance(error, ConnectionLost):  # after which the handler's ``closed`` follows
            log.warning("%s does not keep up with its %s messages: %s", peer.node, what, error)
            connection.close(f"it does not read its {what} messages; it may connect and ask again")

    def ask(self, peer: Peer, message: Message, answered: Answered, timeout_seconds: float) -> bool:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.ask`."""
        connection = self._connections.get(peer)
        if connection is None or self._is_silent:
            return False
        try:
            connection.request(message, answered, timeout_seconds)
        except ConnectionLost:
            return False
        except TransportError as error:
            log.warning("%s not sent to %s: %s", type(message).__name__, peer.node, error)
            return False
        return True

    def reply(self, request: Request, message: Message) -> None:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.reply`."""
        connection = self._connections.get(request.peer)
        if connection is not None:
            connection.reply(request.number, message)

    def close(self, peer: Peer, reason: str) -> None:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.close`."""
        connection = self._connections.get(peer)
        if connection is not None:
            connection.close(reason)

    def denied(self, peer: Peer, reason: str) -> None:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.denied`."""
        holder = f"key {peer.proven.name}" if peer.proven is not None else ""
        self.denials.note(peer.author, peer.address, reason, holder)

    def note_denial(self, denied: Denied, gateway: str | None = None) -> None:
        """Write down a denial, of this server or of a gateway."""
        log.info("%s at %s is denied %d times: %s", denied.author, denied.address, denied.count, denied.reason)
        if self.history is not None:
            event = self.history.note("denied", denied.reason)
            event.author, event.address, event.member = denied.author, denied.address, gateway
            event.count = denied.count

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.after`."""
        return self._clock.call_later(seconds, partial(self._run, "timer", action))

    def at_turns_end(self, action: Callable[[], None]) -> None:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.at_turns_end`."""
        self._clock.call_soon(partial(self._run, "end of turn", action))

    def when_read(self, action: Callable[[], None]) -> None:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.when_read`."""
        give_up = self.now() + LONGEST_READ_SECONDS

        def begin() -> None:
            if not self.has_unread:
                action()
                return
            if not self._when_read:
                self.after(LOOK_SECONDS, self._look_for_unread)
            self._when_read.append((give_up, action))

        self.at_turns_end(begin)

    def _look_for_unread(self) -> None:
        """Do what waits until everything was read, or has waited for too long: one look for all that wait."""
        now, has_unread = self.now(), self.has_unread
        waiting, self._when_read = self._when_read, []
        for give_up, action in waiting:
            if has_unread and now < give_up:
                self._when_read.append((give_up, action))
            else:
                self._run("what waits for reading", action)
        if self._when_read:
            self.after(LOOK_SECONDS, self._look_for_unread)

    def _run(self, name: str, action: Callable[[], None]) -> None:
        if self._is_silent:
            return
        try:
            action()
        except Exception:  # noqa: BLE001 - the supervisor logs and counts it
            self._supervisor.failed(name)

    def repeat(self, name: str, seconds: float, action: Callable[[], float | None]) -> None:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.repeat`."""

        async def loop() -> None:
            pause: float | None = seconds
            while True:
                await self._clock.sleep(seconds if pause is None else pause)
                pause = action()

        self._supervisor.start(name, loop)

    def keep_links(self, nodes: Iterable[Node]) -> None:
        """See :meth:`slotreeve_servers.node.outbox.Outbox.keep_links`."""
        if self.links is not None:
            self.links.aim({node.name: Target(node.address, node.process_id) for node in nodes})
