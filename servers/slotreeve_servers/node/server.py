"""The shells that the roles share: a process that listens, and a member that keeps its place in the cluster."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

from slotreeve.errors import Refused, SlotreeveError
from slotreeve.ports import Listener, Message
from slotreeve_protocol.meta_messages import Leave, Stopping, View
from slotreeve_protocol.people_messages import GetSettings

from slotreeve_servers.node.counted import LOOP_LAG
from slotreeve_servers.node.dispatch import CountersSource, Dispatcher, Handlers, PeerOwner
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.links import LinkMaker, Links, Target
from slotreeve_servers.node.membership import NO_VIEW, Membership
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.peers import Peers
from slotreeve_servers.node.readiness import Condition, membership_check
from slotreeve_servers.node.settings_in_force import SettingsInForce
from slotreeve_servers.node.supervisor import Supervisor
from slotreeve_servers.node.timings import Timing

log = logging.getLogger("slotreeve.server")

STOP_POLL_SECONDS = 0.02
LEAVE_TIMEOUT_SECONDS = 1.0


class NodeServer(ABC):
    """A process that listens. Use it on its event loop only.

    Attributes:
        settings_in_force: its settings, which an operator may change.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment, self._clock = environment, environment.clock
        self._supervisor = Supervisor(environment.clock)
        self._peers = Peers(environment.clock, self._supervisor, environment.settings.node.part_bytes)
        self.settings_in_force = SettingsInForce(environment.settings, environment.origins, environment.node.role)
        self._listener: Listener | None = None
        self._dispatchers: list[Dispatcher] = []
        self._closed = False

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """See :class:`slotreeve_servers.node.readiness.Inspected`."""

    def timings(self) -> dict[str, Timing]:
        """See :class:`slotreeve_servers.node.readiness.Inspected`."""
        return {LOOP_LAG: self._peers.attention.lag}

    def readiness(self) -> list[Condition]:
        """See :class:`slotreeve_servers.node.readiness.Inspected`."""
        problem = "" if self._listener is not None else "this server has not started to listen"
        return [Condition("listens", "this server has stopped" if self._closed else problem)]

    @property
    def is_leading(self) -> bool:
        """See :class:`slotreeve_servers.node.readiness.Inspected`."""
        return False

    @property
    def failure(self) -> str:
        """See :class:`slotreeve_servers.node.readiness.Inspected`."""
        return str(self.given_up.result()) if self.given_up.done() else ""

    @property
    def given_up(self) -> asyncio.Future[SlotreeveError]:
        """Done once this server cannot go on, with the error for its operator."""
        return self._supervisor.given_up

    @property
    def process_id(self) -> str:
        """Of this life of the server."""
        return self._environment.node.process_id

    @property
    def address(self) -> str:
        """Where this server listens."""
        return self._listener.address if self._listener is not None else self._environment.bind

    def _on_get_settings(self, peer: Peer, message: GetSettings) -> Message:
        return self.settings_in_force.report()

    def _dispatcher(
        self, handlers: Handlers, peer_owner: PeerOwner, source: CountersSource | None = None
    ) -> Dispatcher:
        dispatcher = Dispatcher(self._peers, self._environment.node.role, handlers, peer_owner, source)
        self._dispatchers.append(dispatcher)
        return dispatcher

    def _common_counters(self) -> dict[str, int]:
        """What every server counts."""
        return {
            **self._environment.common_counters(self._supervisor),
            **self._peers.attention.counters(),
            "unexpected_messages": sum(dispatcher.unexpected for dispatcher in self._dispatchers),
        }

    async def _listen(self, dispatcher: Dispatcher) -> None:
        """Raises AddressInUse."""
        environment = self._environment
        self._listener = await environment.transport.listen(environment.bind, environment.hello(), dispatcher)
        self._peers.listener, self._peers.history = self._listener, environment.history
        self._peers.attend()
        if environment.history is not None:
            environment.history.start()

    async def _close(self) -> None:
        """End the loops, every connection that was accepted, the event log and the history."""
        self._peers.silence()
        await self._supervisor.stop()
        self._closed = True
        if self._listener is not None:
            await self._listener.close()
        if self._environment.events is not None:
            await self._environment.events.close()
        if self._environment.history is not None:
            self._peers.denials.tell()
            self._environment.history.note("stopped")
            await self._environment.history.close()


class _MetaLinks:
    """The links to the meta servers: at their configured addresses, but one that leads elsewhere is linked to there."""

    def __init__(self, links: Links, configured: Mapping[str, str]) -> None:
        self._links, self._configured = links, configured
        self._moved: dict[str, str] = {}
        self._aim()

    def found(self, name: str, moved_to: str | None) -> None:
        """See :class:`slotreeve_servers.node.membership.MetaPlaces`."""
        if name not in self._configured or self._moved.get(name) == moved_to:
            return
        if moved_to is None:
            del self._moved[name]
        else:
            log.warning("meta server %s is at %s; change its address in [cluster.meta]", name, moved_to)
            self._moved[name] = moved_to
        self._aim()

    def _aim(self) -> None:
        addresses = {**self._configured, **self._moved}
        self._links.aim({name: Target(address) for name, address in addresses.items()})


class LinkedCore(PeerOwner, Protocol):
    """The part of a core that takes what comes over links of one kind."""

    handlers: Handlers


class MemberCore(LinkedCore, CountersSource, Protocol):
    """The core of a data or session server."""

    membership: Membership

    @property
    def leaders(self) -> LinkedCore:
        """The links to the data servers that lead slots."""

    def start(self) -> None:
        """Begin the upkeep."""


class MemberServer(NodeServer):
    """A data or session server: links to every meta server and to data servers, and a planned way out."""

    core: MemberCore

    def counters(self) -> dict[str, int]:
        """What the core counts, and what every server counts."""
        return {**self.core.counters(), **self._common_counters()}

    async def start(self) -> None:
        """Listen, then join the cluster.

        Raises:
            AddressInUse: the address cannot be bound.
        """
        core, membership, environment = self.core, self.core.membership, self._environment
        core.handlers.requests[GetSettings] = self._on_get_settings
        await self._listen(self._dispatcher(core.handlers, core, self))
        meta_servers = self._dispatcher(membership.handlers, membership)
        data_servers = self._dispatcher(core.leaders.handlers, core.leaders)
        maker = LinkMaker(environment.transport, self._clock, environment.hello, self._peers.attention)
        self._peers.links = Links(maker, self._supervisor, data_servers)
        meta_links = Links(maker, self._supervisor, meta_servers, self._refused)
        membership.settings = self.settings_in_force
        membership.places = _MetaLinks(meta_links, environment.meta_servers)
        membership.start()
        core.start()

    @property
    def view(self) -> View:
        """The newest view of the cluster that this server knows."""
        return self.core.membership.view

    def readiness(self) -> list[Condition]:
        """The checks of every server, and that the meta leader counts this process as a member."""
        refusal = self.core.membership.refusal
        return [*super().readiness(), membership_check(self.view, self._environment.node.process_id, refusal)]

    def _refused(self, error: Refused) -> None:
        # A server that was never a member is configured wrongly, and its operator looks at it now. A member works on
        # with what it has until the meta servers are mended.
        if self.view is NO_VIEW:
            self._supervisor.give_up(error)

    async def _wait_until_it_may_leave(self, stopping: Stopping, seconds: float) -> None:
        """Announce the stop and wait until the leader agrees: at most ``seconds``, and only while a leader answers."""
        if self._listener is None:
            return
        membership, interval = self.core.membership, self._environment.settings.meta.heartbeat_seconds
        membership.announce_stop(stopping)
        deadline = self._clock.now() + seconds
        unanswered = self._clock.now() + 2 * interval
        while not membership.may_leave and self._clock.now() < min(
            deadline, max(unanswered, membership.granted_at + 3 * interval)
        ):
            await self._clock.sleep(STOP_POLL_SECONDS)

    async def _leave(self, reason: str, back_in_seconds: float = 0.0) -> None:
        """Tell the leader that this server stops on purpose; a leader that is not reached notices it by itself."""
        leader = self.core.membership.leader
        if leader is None:
            return
        self.core.membership.leave()
        try:
            leave = Leave(self._environment.node, reason, back_in_seconds)
            await self._peers.ask_and_wait(leader, leave, LEAVE_TIMEOUT_SECONDS)
        except SlotreeveError as error:
            log.warning("the meta leader does not know yet that this server leaves: %s", error)
