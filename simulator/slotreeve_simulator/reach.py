"""Which clients could keep their registrations alive, from what the network lets pass and which processes run.

A registration may disappear only where its client could not reach a session server that serves it (I14). This is looked
up in the network itself at every instant, not concluded from the kind of a fault: whatever else is cut, frozen, late or
starved is no reason.
"""

from __future__ import annotations

from collections.abc import Callable

from slotreeve_servers.data.server import DataServer
from slotreeve_servers.session.server import SessionServer

from slotreeve_simulator.cluster import ScenarioCluster

LOOK_EVERY_SECONDS = 0.02
RECOVERY_SECONDS = 8.0
"""A client that reaches a session server again has so long to notice that, to connect, and to send everything again."""


class Reach:
    """Since when each client reaches a session server that serves it. ``now`` returns the virtual seconds of the run.

    A session server serves a client where packets pass between them in both directions, it runs and does not stop, and
    it reaches the leaders of its table. A data server that is cut off from every session server is that data server's
    fault, and no reason why registrations disappear.
    """

    def __init__(self, cluster: ScenarioCluster, now: Callable[[], float]) -> None:
        self._cluster, self._now = cluster, now
        self._unable_at: dict[str, float] = {}
        self._next_look = 0.0

    def look(self) -> None:
        """Look up what the network lets pass now."""
        now = self._now()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_EVERY_SECONDS
        serving = self._serving()
        for client in self._cluster.clients:
            if not any(self._both_ways(client, session) for session in serving):
                self._unable_at[client] = now

    def tolerates(self, client: str) -> bool:
        """Whether registrations of ``client`` may be missing, or may be seen in an old state or after their end."""
        unable_at = self._unable_at.get(client)
        return unable_at is not None and self._now() < unable_at + RECOVERY_SECONDS

    def recovered(self) -> None:
        """All faults have ended and the cluster has settled: from now on no registration may be missing."""
        self._unable_at.clear()

    def _serving(self) -> list[str]:
        """The session servers that serve the clients which reach them."""
        servers = self._cluster.servers
        sessions = [name for name, server in servers.items() if isinstance(server, SessionServer)]
        data = [name for name, server in servers.items() if isinstance(server, DataServer)]
        reachable = [name for name in data if any(self._both_ways(name, session) for session in sessions)]
        return [name for name in sessions if self._serves(name, reachable)]

    def _serves(self, name: str, reachable: list[str]) -> bool:
        server = self._cluster.servers[name]
        assert isinstance(server, SessionServer)
        if not self._cluster.network.passes(name, name) or server.core.is_closed_to_clients:
            return False
        leaders = {row.leader for row in server.view.table.slots}
        return bool(leaders) and all(
            leader in self._cluster.servers and (leader not in reachable or self._both_ways(name, leader))
            for leader in leaders
            if leader is not None
        )

    def _both_ways(self, one: str, other: str) -> bool:
        network = self._cluster.network
        return network.passes(one, other) and network.passes(other, one)
