"""Clients of the meta state: they write and read it all the time through whichever meta server leads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from slotreeve.ports import Election
from slotreeve_conformance.recorded_clients import RecordedClient, RecordedHistory
from slotreeve_servers.meta.server import MetaServer

from slotreeve_simulator.cluster import ScenarioCluster

PAUSE_SECONDS = 0.1
"""Longest pause of a client between two operations."""
GIVE_UP_SECONDS = 2.0
"""A write without an answer after so long may have been stored, or may be stored later."""


class StateClients:
    """The clients of one run, and the history of what they did and saw, which must be linearizable (I18)."""

    def __init__(self, count: int, seed: int, cluster: ScenarioCluster) -> None:
        self._cluster = cluster
        self._history = RecordedHistory()
        self._clients = [
            RecordedClient(
                f"writer-{number}", self._leaders, self._history, random.Random(f"{seed}/meta state/{number}")
            )
            for number in range(count)
        ]
        self._tasks: list[asyncio.Task[None]] = []

    def come_all(self) -> None:
        """Start them."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(client.run(PAUSE_SECONDS, GIVE_UP_SECONDS)) for client in self._clients]

    def problem(self) -> str | None:
        """Why the history so far is not linearizable; None if it is. Raises what ended a client."""
        for task in self._tasks:
            if task.done():
                task.result()
        return self._history.problem()

    async def leave_all(self) -> None:
        """End them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _leaders(self) -> Sequence[Election]:
        """The meta servers that take themselves for the leader and hold its lease."""
        return [
            server.election
            for name, server in self._cluster.servers.items()
            if isinstance(server, MetaServer)
            and (leadership := server.leadership()).leading
            and self._cluster.clock(name).now() < leadership.valid_until
        ]
