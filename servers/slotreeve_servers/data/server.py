"""The shell of a data server: listens, keeps its links, and leaves in order."""

from __future__ import annotations

from slotreeve_protocol.meta_messages import Stopping

from slotreeve_servers.data.core import DataCore
from slotreeve_servers.node.counted import UNREADABLE
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.history_requests import add_history
from slotreeve_servers.node.readiness import Condition
from slotreeve_servers.node.server import MemberServer
from slotreeve_servers.node.timings import Timing


class DataServer(MemberServer):
    """One data process. ``start`` listens and joins; ``stop`` hands over its slots and leaves."""

    core: DataCore

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        rules, heartbeat_seconds = environment.settings.data, environment.settings.meta.heartbeat_seconds
        self.core = DataCore(
            self._peers, environment.node, rules, heartbeat_seconds, environment.events, environment.history
        )
        add_history(self.core.handlers, self._peers, environment.history, of_services=True)
        self.settings_in_force.follow(lambda settings: self.core.rules_changed(settings.data))

    def timings(self) -> dict[str, Timing]:
        """What every server times, and the stages of the way of changes."""
        return {**super().timings(), **self.core.delays.timings, UNREADABLE: self.core.unreadable.times}

    def readiness(self) -> list[Condition]:
        """The checks of every member, and that all slots of this server are settled."""
        unsettled = self.core.slots.unsettled()
        problem = f"{len(unsettled)} slots are being taken over or copied" if unsettled else ""
        return [*super().readiness(), Condition("slots", problem)]

    async def stop(self, how: Stopping = Stopping.FOR_GOOD) -> None:
        """Hand over the slots (``how`` NO: do not), leave the cluster, close every connection.

        For good: until this server holds nothing. For a restart: until it leads nothing; it keeps its places as
        follower. Either way it takes at most ``data.drain_seconds``.
        """
        if how is not Stopping.NO:
            await self._wait_until_it_may_leave(how, self.settings_in_force.settings.data.drain_seconds)
        if how is Stopping.FOR_A_RESTART:
            await self._leave("stopped for a restart", self._environment.settings.meta.restart_seconds)
        else:
            await self._leave("stopped")
        await self._close()
