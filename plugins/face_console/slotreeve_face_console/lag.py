"""Clients that do not keep up with the changes of their services."""

from __future__ import annotations

from collections.abc import Sequence

from slotreeve.clock import Clock
from slotreeve_client.audience import AllClients, connected_clients
from slotreeve_client.condition import ClusterCondition
from slotreeve_gateway import ClusterServers
from slotreeve_protocol.people_messages import LATE_SECONDS

from slotreeve_face_console.readings import SharedReadings
from slotreeve_face_console.rendering import counted

MOST_NAMED = 5
AGAIN_SECONDS = 5.0
"""Clients are asked for so often at most: there may be many."""


class LaggingClients:
    """Names the clients that lag. It asks for them where a session server has counted some only.

    Args:
        servers: the way to the session servers.
        clock: the source of time.
    """

    def __init__(self, servers: ClusterServers, clock: Clock) -> None:
        self._servers = servers
        self._named: SharedReadings[Sequence[str]] = SharedReadings(clock)

    async def stop(self) -> None:
        """End a question that is on its way."""
        await self._named.stop()

    async def sentences(self, condition: ClusterCondition) -> Sequence[str]:
        """Who lags, in sentences; none where nobody does."""
        counts = lagging(condition)
        if not any(held.get("clients_behind") or held.get("clients_late") for held in condition.held.values()):
            return counts

        async def ask() -> Sequence[str]:
            return named(await connected_clients(*self._servers.asked))

        # Who they are is told next time where the servers do not answer.
        return [*counts, *((await self._named.read("all", ask, AGAIN_SECONDS)).value or ())]


def lagging(condition: ClusterCondition) -> list[str]:
    """What session servers count of clients and writes that wait."""
    found = []
    for name, held in sorted(condition.held.items()):
        if behind := held.get("clients_behind", 0):
            read = "reads" if behind == 1 else "read"
            found.append(f"{counted(behind, 'client')} of {name} {read} more slowly than the services change.")
        if late := held.get("clients_late", 0):
            found.append(
                f"{counted(late, 'client')} of {name} {'runs its' if late == 1 else 'run their'} callbacks late."
            )
        if writes := held.get("writes_waiting", 0):
            wait = "waits for the leader of its slot" if writes == 1 else "wait for the leaders of their slots"
            found.append(f"{counted(writes, 'write')} of {name} {wait}.")
        if clients := held.get("clients_waiting", 0):
            found.append(f"{counted(clients, 'client')} {'waits' if clients == 1 else 'wait'} until {name} has time.")
    return found


def named(clients: AllClients) -> list[str]:
    """The clients with the most unread pushes, and those whose callbacks are latest."""
    rows = [(one, server) for server, ones in clients.clients.items() for one in ones]
    unread = sorted((row for row in rows if row[0].unread), key=lambda row: -row[0].unread)
    late = sorted((row for row in rows if row[0].late_seconds >= LATE_SECONDS), key=lambda row: -row[0].late_seconds)
    return [
        *(
            f"Client {one.id} at {one.address} has not read {counted(one.unread, 'push', 'pushes')} of {server}."
            for one, server in unread[:MOST_NAMED]
        ),
        *(
            f"Client {one.id} at {one.address} runs its callbacks {one.late_seconds:.0f} s late; it is at {server}."
            for one, server in late[:MOST_NAMED]
        ),
    ]
