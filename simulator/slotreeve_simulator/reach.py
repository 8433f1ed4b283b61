"""Which clients could keep their registrations alive, from what the network lets pass and which processes run.

A registration may disappear only where its client could not reach a session server that serves it (I14). This is looked
up in the network itself at every instant, not concluded from the kind of a fault: whatever else is cut, frozen, late or
starved is no reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from slotreeve_client import ClientState
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.data.sessions import LINK_SILENCE_SECONDS
from slotreeve_servers.session.server import SessionServer

from slotreeve_simulator.cluster import ScenarioCluster

LOOK_EVERY_SECONDS = 0.02
STALE_SECONDS = 2.0
"""A session server that acts on an older slot table for so long does not reach the leaders of the newest one."""
LATE_SECONDS = LINK_SILENCE_SECONDS
"""A server that gets no processor for so long is as good as frozen: the data servers count it as not linked."""
LATE_WITHOUT_CONNECTION = 1 / 3
"""A client without a connection has ``session.linger_seconds`` to come back. It takes three turns of its processor: it
reads that its connection has ended, connects, and answers the greeting. If its processor is late by more than this part
of the linger, it cannot be back in time."""
WAYS = 4
"""A client without a connection comes back by so many packets, one after the other: it connects, is answered, sends its
hello, and its claim goes to the slot leaders. Where they may take longer than the linger, it cannot be back in time."""
LATE_WITH_CONNECTION = 1 / 2
"""A client that a session server holds a connection of must only send something within its lease. If its processor is
late by more than this part of the lease, it is as good as frozen."""
RECOVERY_SECONDS = 8.0
"""A client that reaches a session server again has so long to notice that, to connect, and to send everything again."""


class Reach:
    """Since when each client reaches a session server that serves it. ``now`` returns the virtual seconds of the run.

    A session server serves a client where packets pass between them in both directions, it runs and does not stop, and
    it has and reaches the leaders of the newest table. A data server that is cut off from every session server and from
    most meta servers loses its slots; that is no reason why registrations disappear. A session server that answers its
    clients and does not reach the leaders sends them away (docs/decisions/0013-a-session-server-that-is-cut-off.md).
    """

    def __init__(self, cluster: ScenarioCluster, now: Callable[[], float], held_seconds: float = 0.0) -> None:
        self._cluster, self._now = cluster, now
        self._held_seconds = held_seconds
        settings = cluster.settings
        self._slots, self._replicas = settings.cluster.slots, settings.cluster.replicas
        self._rules = settings.session
        self._unable: dict[str, tuple[float, float]] = {}
        self._stalled: set[str] = set()
        self._is_open = False
        self._data: set[tuple[str, int]] = set()
        self._data_lost = 0
        self._next_look = 0.0
        self._newest_epoch = 0
        self._newest_since = 0.0

    def look(self) -> None:
        """Look up what the network lets pass now."""
        now = self._now()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_EVERY_SECONDS
        clients = self._cluster.clients
        late = {name: wait for name, processor in self._cluster.processors.items() if (wait := processor.busy_for())}
        self._stalled = {name for name, wait in late.items() if wait > self._longest_wait(name)}
        self._note_lost_copies(now)
        self._is_open = self._cluster.network.is_open and not self._stalled
        serving = self._serving()
        if self._is_open and serving and not self._cluster.slowness:
            return  # everybody reaches everybody in time
        for name in clients:
            reached = [session for session in serving if self._both_ways(name, session)]
            if not reached or self._is_far(name):
                began, last = self._unable.get(name, (now, now))
                self._unable[name] = began if now < last + RECOVERY_SECONDS else now, now

    def _is_far(self, name: str) -> bool:
        """Whether a client without a connection may try a session server that is too far away to be back in time."""
        if not self._cluster.slowness or self._is_connected(name):
            return False
        sessions = [other for other, server in self._cluster.servers.items() if isinstance(server, SessionServer)]
        return any(WAYS * self._cluster.longest_delay(name, other) > self._rules.linger_seconds for other in sessions)

    def _longest_wait(self, name: str) -> float:
        """A process whose processor is late by more than this counts as frozen."""
        if name not in self._cluster.clients:
            return LATE_SECONDS
        if self._is_connected(name):
            return self._rules.client_lease_seconds * LATE_WITH_CONNECTION
        return self._rules.linger_seconds * LATE_WITHOUT_CONNECTION

    def _is_connected(self, name: str) -> bool:
        """Whether a session server holds a connection of this client."""
        client_id = self._cluster.clients[name].client_id
        servers = [server for server in self._cluster.servers.values() if isinstance(server, SessionServer)]
        return any(peer.node == client_id for server in servers for peer in server.core.clients)

    def _note_lost_copies(self, now: float) -> None:
        """Where as many data servers as a slot has copies have ended or lost their places since each slot had all of
        its copies, and none is left that has all of some slot, only the session servers have its records. Those of a
        client that has no connection at any of them, or is sending them again, are nowhere then: its former session
        server has dropped them, and the new one does not have them yet."""
        data = self._members()
        self._data_lost += len(self._data - data)
        self._data = data
        if not self._data_lost:
            return
        fewest = self._fewest_copies({name for name, _ in data})
        if fewest >= self._replicas:
            self._data_lost = 0
        if self._data_lost < self._replicas or fewest > 0:
            return
        for name, client in self._cluster.clients.items():
            is_held = client.state is ClientState.CONNECTED and self._is_connected(name)
            if not is_held or client.statistics().unacknowledged:
                self._unable[name] = now - self._held_seconds, now

    def _members(self) -> set[tuple[str, int]]:
        """The data processes that run and that the newest view names. One that it drops, because the meta leader did
        not hear it, loses its copies."""
        views = self._cluster.views()
        named = {node.name for node in max(views, key=lambda view: view.revision).data} if views else set[str]()
        running = (name for name, server in self._cluster.servers.items() if isinstance(server, DataServer))
        return {(name, self._cluster.lives[name]) for name in running if name in named}

    def _fewest_copies(self, members: set[str]) -> int:
        """Of the slot with the fewest complete copies at these data servers: how many it has."""
        copies = Counter[int]()
        for name, server in self._cluster.servers.items():
            if name in members and isinstance(server, DataServer) and self._cluster.network.passes(name, name):
                copies.update(number for number, held in server.core.slots.held.items() if held.settled)
        return min(copies[number] for number in range(self._slots))

    def tolerates_loss(self, client: str) -> bool:
        """Whether registrations of ``client`` may be missing."""
        return self._was_unable(client, self._held_seconds)

    def tolerates_age(self, client: str) -> bool:
        """Whether registrations of ``client`` may be seen in an old state or after their end."""
        return self._was_unable(client, 0.0)

    def _was_unable(self, client: str, seconds: float) -> bool:
        began, last = self._unable.get(client, (0.0, -RECOVERY_SECONDS))
        return self._now() < last + RECOVERY_SECONDS and last - began >= seconds

    def recovered(self) -> None:
        """All faults have ended and the cluster has settled: from now on no registration may be missing."""
        self._unable.clear()

    def _serving(self) -> list[str]:
        """The session servers that serve the clients which reach them."""
        servers, views = self._cluster.servers, self._cluster.views()
        if not views:
            return []
        newest = max(views, key=lambda view: view.table.epoch)
        if newest.table.epoch > self._newest_epoch:
            self._newest_epoch, self._newest_since = newest.table.epoch, self._now()
        sessions = [name for name, server in servers.items() if isinstance(server, SessionServer)]
        leaders = {row.leader for row in newest.table.slots if row.leader is not None and row.leader in servers}
        may_lead = [name for name in leaders if self._may_lead(name, sessions)]
        return [name for name in sessions if self._serves(name, may_lead)]

    def _may_lead(self, data: str, sessions: list[str]) -> bool:
        """Whether a leader is not cut off from all session servers and most meta servers: then it loses its slots."""
        metas = [name for name in self._cluster.names if name.startswith("meta-")]
        return (
            any(self._both_ways(data, session) for session in sessions)
            or sum(self._both_ways(data, meta) for meta in metas) > len(metas) // 2
        )

    def _serves(self, name: str, leaders: list[str]) -> bool:
        server = self._cluster.servers[name]
        assert isinstance(server, SessionServer)
        table = server.view.table
        if not self._cluster.network.passes(name, name) or server.core.why_closed or not table.slots:
            return False
        is_stale = table.epoch < self._newest_epoch and self._now() > self._newest_since + STALE_SECONDS
        return not is_stale and all(self._both_ways(name, leader) for leader in leaders)

    def _both_ways(self, one: str, other: str) -> bool:
        if self._is_open:
            return True
        network, stalled = self._cluster.network, self._stalled
        return one not in stalled and other not in stalled and network.passes(one, other) and network.passes(other, one)
