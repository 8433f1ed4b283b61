"""Nodes of a lock election on a real database, and what tests do to its connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine

from slotreeve.errors import ElectionError
from slotreeve.ports import Leadership
from slotreeve_election_mysql.connection import Session
from slotreeve_election_mysql.election import LockElection

Build = Callable[..., LockElection]
LEASE_SECONDS = 0.6
PATIENCE_SECONDS = 30.0


class Node:
    """A started election, and what it reported."""

    def __init__(self, election: LockElection) -> None:
        self.election, self.reports = election, list[Leadership]()

    @property
    def leads(self) -> bool:
        known = self.election.leadership()
        return known.leading and known.valid_until > asyncio.get_running_loop().time()

    @property
    def term(self) -> int:
        return self.election.leadership().term

    @property
    def causes(self) -> str:
        return "; ".join(report.cause for report in self.reports)


@contextlib.asynccontextmanager
async def started(*elections: LockElection) -> AsyncIterator[list[Node]]:
    nodes = [Node(election) for election in elections]
    try:
        for node in nodes:
            await node.election.start(node.reports.append)
        yield nodes
    finally:
        for node in nodes:
            await node.election.stop()


async def until(condition: Callable[[], bool], within_seconds: float = PATIENCE_SECONDS) -> float:
    began = asyncio.get_running_loop().time()
    while not condition():
        assert asyncio.get_running_loop().time() - began < within_seconds, "it did not happen in time"
        await asyncio.sleep(0.002)
    return asyncio.get_running_loop().time() - began


def end_connections(dialect: str, admin: Session) -> int:
    if dialect == "postgres":
        ended = admin.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return len(ended)
    ids = admin.query("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
    for (number,) in ids:
        with contextlib.suppress(ElectionError):  # it ended meanwhile
            admin.execute(f"KILL {number}")
    return len(ids)


def play(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(scenario())
