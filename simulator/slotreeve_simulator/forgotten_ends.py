"""Ends of registrations that no server knows any more.

The slot's leader acknowledges an end; its followers and the session server know of it too, soon. Where all of those die
that do, a follower that lacks it still has the registration. It is removed once the grace of the dead session server is
over, as for a client that is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slotreeve_servers.data.server import DataServer
from slotreeve_servers.node.records import SlotStore
from slotreeve_servers.session.server import SessionServer

from slotreeve_simulator.clients_watch import Registration
from slotreeve_simulator.cluster import ScenarioCluster


class ForgottenEnds:
    """Looks in the servers themselves, each time that one has died."""

    def __init__(self, cluster: ScenarioCluster) -> None:
        self._cluster = cluster
        self._processes: set[tuple[str, int]] = set()

    def look(self, registrations: Iterable[Registration]) -> None:
        """Mark the ended registrations that a data server has, and whose end no server knows."""
        before = self._processes
        self._processes = {(name, self._cluster.lives[name]) for name in self._cluster.servers}
        if before <= self._processes:
            return
        known: set[str] = set()
        held: set[str] = set()
        for store in self._stores():
            known.update(store.tombstones)
            for service in store.services.values():
                held.update(service)
        for registration in registrations:
            register_id = registration.publication.register_id
            if registration.has_ended and register_id in held and register_id not in known:
                registration.is_end_forgotten = True

    def _stores(self) -> Iterator[SlotStore]:
        for server in self._cluster.servers.values():
            if isinstance(server, DataServer):
                yield from (held.store for held in server.core.slots.held.values())
            elif isinstance(server, SessionServer):
                yield from server.core.registrations.stores.values()
