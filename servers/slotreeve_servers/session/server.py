"""The shell of a session server: listens, keeps its links, and leaves in order."""

from __future__ import annotations

from slotreeve_protocol.meta_messages import Stopping

from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.history_requests import add_history
from slotreeve_servers.node.readiness import Condition
from slotreeve_servers.node.server import STOP_POLL_SECONDS, MemberServer
from slotreeve_servers.node.timings import Timing
from slotreeve_servers.session.core import SessionCore


class SessionServer(MemberServer):
    """One session process. ``start`` listens and joins; ``stop`` leaves and ends the connections of its clients."""

    core: SessionCore

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.core = SessionCore(
            self._peers,
            environment.node,
            environment.settings.session,
            environment.settings.meta.heartbeat_seconds,
            environment.slot_function,
            environment.events,
            environment.history,
        )
        self.core.objective.follow(environment.settings.objective)
        add_history(self.core.handlers, self._peers, environment.history)
        self.settings_in_force.follow(lambda settings: self.core.rules_changed(settings.session))

    def timings(self) -> dict[str, Timing]:
        """What every server times, and the stages of the way of changes."""
        return {**super().timings(), **self.core.delays.timings}

    def readiness(self) -> list[Condition]:
        """The checks of every member, that this server takes clients, and that it reaches the slots' leaders."""
        cut_off = "" if self.core.isolation.since is None else "this server does not reach the leaders of some slots"
        return [*super().readiness(), Condition("clients", self.core.why_closed), Condition("leaders", cut_off)]

    async def stop(self, how: Stopping = Stopping.FOR_GOOD) -> None:
        """Redirect the clients (``how`` NO: do not), leave the cluster, close every connection.

        The clients are served here until they have another server. They have ``session.drain_seconds`` for that, and
        again as long from each of them that has moved: ten thousand do not move in the time of ten.
        """
        if how is not Stopping.NO and len(self.view.sessions) > 1:
            self.core.redirect_clients()
            left, deadline = len(self.core.clients), self._drained_by()
            while self.core.clients and self._clock.now() < deadline:
                await self._clock.sleep(STOP_POLL_SECONDS)
                if len(self.core.clients) < left:
                    left, deadline = len(self.core.clients), self._drained_by()
        if how is Stopping.FOR_A_RESTART:
            await self._leave("stopped for a restart", self._environment.settings.meta.restart_seconds)
        else:
            await self._leave("stopped")
        await self._close()

    def _drained_by(self) -> float:
        return self._clock.now() + self.settings_in_force.settings.session.drain_seconds
