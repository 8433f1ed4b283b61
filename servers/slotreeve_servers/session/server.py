"""The shell of a session server: listens, keeps its links, and leaves in order."""

from __future__ import annotations

from slotreeve_protocol.meta_messages import Stopping
from slotreeve_protocol.people_messages import GetSettings

from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.history_requests import add_history
from slotreeve_servers.node.readiness import Condition
from slotreeve_servers.node.server import STOP_POLL_SECONDS, MemberServer
from slotreeve_servers.node.timings import Timing
from slotreeve_servers.session.core import SessionCore
from slotreeve_servers.settings import Settings


class SessionServer(MemberServer):
    """One session process. ``start`` listens and joins; ``stop`` leaves and ends the connections of its clients."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._rules = environment.settings.session
        self.core = SessionCore(
            self._peers,
            environment.node,
            self._rules,
            environment.settings.meta.heartbeat_seconds,
            environment.slot_function,
            environment.events,
            environment.history,
        )
        self.core.objective.follow(environment.settings.objective)
        add_history(self.core.handlers, self._peers, environment.history)
        self.core.handlers.requests[GetSettings] = self._on_get_settings
        self.settings_in_force.follow(self._settings_changed)

    def _settings_changed(self, settings: Settings) -> None:
        self._rules = settings.session
        self.core.rules_changed(settings.session)

    def counters(self) -> dict[str, int]:
        """What the core counts, and what every server counts."""
        return {**self.core.counters(), **self._common_counters()}

    def timings(self) -> dict[str, Timing]:
        """What every server times, and the stages of the way of changes."""
        return {**super().timings(), **self.core.delays.timings}

    def readiness(self) -> list[Condition]:
        """The checks of every member, that this server takes clients, and that it reaches the slots' leaders."""
        cut_off = "" if self.core.isolation.since is None else "this server does not reach the leaders of some slots"
        return [*super().readiness(), Condition("clients", self.core.why_closed), Condition("leaders", cut_off)]

    async def start(self) -> None:
        """Listen, then join the cluster.

        Raises:
            AddressInUse: the address cannot be bound.
        """
        core = self.core
        await self._listen(self._dispatcher(core.handlers, core, self))
        self._link_up(
            core.membership,
            self._dispatcher(core.membership.handlers, core.membership),
            self._dispatcher(core.leaders.handlers, core.leaders),
        )
        core.start()

    async def stop(self, how: Stopping = Stopping.FOR_GOOD) -> None:
        """Redirect the clients (``how`` NO: do not), leave the cluster, close every connection.

        The clients are served here until they have another server. They have ``session.drain_seconds`` for that, and
        again as long from each of them that has moved: ten thousand do not move in the time of ten.
        """
        if how is not Stopping.NO and len(self.view.sessions) > 1:
            self.core.redirect_clients()
            left = len(self.core.clients)
            deadline = self._clock.now() + self._rules.drain_seconds
            while self.core.clients and self._clock.now() < deadline:
                await self._clock.sleep(STOP_POLL_SECONDS)
                if len(self.core.clients) < left:
                    left, deadline = len(self.core.clients), self._clock.now() + self._rules.drain_seconds
        await self._leave("stopped")
        await self._close()
