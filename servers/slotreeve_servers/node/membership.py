"""A data or session server's place in the cluster: heartbeats to the meta leader, views from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from slotreeve.errors import Refused, SlotreeveError
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Connection, Message
from slotreeve_protocol.meta_messages import Heartbeat, LeaderIs, LeaseGranted, Leave, Stopping, View

from slotreeve_servers.node.dispatch import Dispatcher, Method
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.links import Links
from slotreeve_servers.node.supervisor import Supervisor, Wake

log = logging.getLogger("slotreeve.membership")

STOP_POLL_SECONDS = 0.02

NO_VIEW = View(0, 0, SlotTable(), [], [])


class Membership:
    """Keeps a connection to every meta server, beats to the one that leads, and applies newer views only.

    ``changed`` is called with (old view, new view) on the event loop. ``unsettled`` tells which slots this server
    does not yet hold completely (always empty on a session server). ``beaten`` hears of the leader's answers to
    heartbeats, ``methods`` take what else meta servers send.
    """

    def __init__(
        self,
        environment: Environment,
        supervisor: Supervisor,
        changed: Callable[[View, View], None],
        unsettled: Callable[[], list[int]],
        beaten: Callable[[Connection, LeaseGranted], None] = lambda _connection, _beat: None,
        methods: Mapping[type, Method] | None = None,
    ) -> None:
        self._environment, self._supervisor = environment, supervisor
        self._changed, self._unsettled, self._beaten = changed, unsettled, beaten
        self._wake = Wake(environment.clock)
        self._leader: str | None = None
        self._term = 0
        self._stopping = Stopping.NO
        self._may_leave = False
        self.view = NO_VIEW
        self.last_beat = -float("inf")
        own: dict[type, Method] = {View: self._on_view, LeaderIs: self._on_leader_is}
        handler = Dispatcher({**own, **(methods or {})}, self._opened, self._closed)
        self._links = Links(
            environment.transport, environment.clock, supervisor, environment.hello, handler, self._refused
        )
        self._links.aim(environment.settings.cluster.meta)
        supervisor.start("heartbeat", self._beat)

    def beat_soon(self) -> None:
        """Send a heartbeat now: something in it changed that the leader waits for."""
        self._wake.set()

    async def may_leave(self, stopping: Stopping, seconds: float) -> None:
        """Announce that this server stops, and wait until the leader says that it may: at most ``seconds``, and not
        where no leader answers."""
        clock, interval = self._environment.clock, self._environment.settings.meta.heartbeat_seconds
        self._stopping = stopping
        deadline = clock.now() + seconds
        unheard = clock.now() + 2 * interval
        self.beat_soon()
        while not self._may_leave and clock.now() < min(deadline, max(unheard, self.last_beat + 3 * interval)):
            await clock.sleep(STOP_POLL_SECONDS)

    async def leave(self, reason: str, back_in_seconds: float = 0.0) -> None:
        """Tell the leader that this server stops on purpose; a leader that cannot be told will notice by itself."""
        connection = self._links.connected.get(self._leader or "")
        if connection is None:
            return
        try:
            await connection.ask(Leave(self._environment.node, reason, back_in_seconds), 1.0)
        except SlotreeveError as error:
            log.warning("could not tell the meta leader that this server leaves: %s", error)

    def _opened(self, connection: Connection) -> None:
        # A server that knows no leader asks whomever it reaches first: the answer is a Beat or names the leader.
        self._wake.set()

    def _refused(self, error: Refused) -> None:
        # One that was never a member is configured wrongly, and its operator looks at it now; a member goes on with
        # what it has while somebody mends the meta servers.
        if self.view is NO_VIEW:
            self._supervisor.give_up(error)

    def _closed(self, connection: Connection, reason: str) -> None:
        if connection.peer.node == self._leader:
            self._leader = None
            self._wake.set()

    def _on_view(self, connection: Connection, view: View, request_id: int | None) -> None:
        self._follow(view.term, connection.peer.node)
        self._apply(view)

    def _on_leader_is(self, connection: Connection, message: LeaderIs, request_id: int | None) -> None:
        if message.leader is not None and self._follow(message.term, message.leader):
            self._wake.set()

    def _follow(self, term: int, leader: str) -> bool:
        """Believe only equal or higher terms (I3); True when the leader is another now."""
        if term < self._term or (term == self._term and leader == self._leader):
            return False
        self._term, self._leader = term, leader
        return True

    def _apply(self, view: View) -> None:
        if view.revision <= self.view.revision:
            return
        old, self.view = self.view, view
        self._changed(old, view)
        self._wake.set()

    async def _beat(self) -> None:
        interval = self._environment.settings.meta.heartbeat_seconds
        while True:
            await self._wake.wait(interval)
            leader = self._links.connected.get(self._leader or "")
            targets = [leader] if leader is not None else list(self._links.connected.values())
            for connection in targets:
                self._send_beat(connection, interval)

    def _send_beat(self, connection: Connection, interval: float) -> None:
        sent = self._environment.clock.now()

        def answered(reply: Message | None, error: Exception | None) -> None:
            if isinstance(reply, LeaseGranted):
                self._follow(reply.term, connection.peer.node)
                self._may_leave = reply.may_leave
                self.last_beat = sent
                if reply.view is not None:
                    self._apply(reply.view)
                self._beaten(connection, reply)
            elif isinstance(reply, LeaderIs):
                self._on_leader_is(connection, reply, None)
            elif error is not None and connection.peer.node == self._leader:
                log.warning("no answer to a heartbeat from %s: %s", connection.peer.node, error)
                self._leader = None

        view = self.view
        beat = Heartbeat(self._environment.node, view.revision, view.table.epoch, self._unsettled(), self._stopping)
        try:
            connection.request(beat, answered, timeout_seconds=2 * interval)
        except SlotreeveError as error:
            log.warning("heartbeat to %s not sent: %s", connection.peer.node, error)
