"""Clients write and read while random statements are held, delayed and cut: the history stays linearizable.

``SLOTREEVE_SQL_STORMS`` is the number of seeds, ``SLOTREEVE_SQL_STORM_SECONDS`` the length of each storm.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence

import pytest
from slotreeve.ports import Election
from slotreeve_chaos.sql_backends import TIMES
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_conformance.linearizability import StoreWrite
from slotreeve_conformance.recorded_clients import KEYS, RecordedClient, RecordedHistory
from slotreeve_conformance.sql_storm import SqlStorm

from tests.election_mysql.scheduled_nodes import (
    HOLD_ROW,
    LOAD,
    LOOK,
    PUT,
    RELEASE,
    RENEW,
    TAKE_OVER,
    ScheduledNodes,
    play,
)

pytestmark = pytest.mark.processes

STORMS = int(os.environ.get("SLOTREEVE_SQL_STORMS", "2"))
SECONDS = float(os.environ.get("SLOTREEVE_SQL_STORM_SECONDS", "1"))
PATTERNS = (PUT, PUT, PUT, HOLD_ROW, LOAD, LOOK, RELEASE, RENEW, TAKE_OVER, "")
RARE_RENEWALS = {"lease_ms": 1_500, "renew_ms": 500, "timeout_ms": 200}
"""Writes follow writes, with no renewal between them that would wait for the row."""
CLIENTS = 4
HELD_SECONDS = 0.2


@pytest.mark.timeout(60 + 10 * STORMS * SECONDS)
@pytest.mark.parametrize("seed", range(STORMS))
def test_the_meta_state_stays_linearizable_whatever_happens_to_single_statements(seed: int, server: SqlServer) -> None:
    rng, history = random.Random(seed), RecordedHistory()

    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        await ensemble.agreed()

        def leaders() -> Sequence[Election]:
            return [ensemble.election(name) for name in ensemble.leading()]

        clients = [
            RecordedClient(f"client-{number}", leaders, history, random.Random(rng.random()))
            for number in range(CLIENTS)
        ]
        tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(client.run(0.02, 1.0)) for client in clients]
        tasks.append(asyncio.ensure_future(resign_now_and_then(nodes, random.Random(rng.random()))))
        if server.dialect == "postgres":
            tasks.append(asyncio.ensure_future(stall_commits_now_and_then(nodes, random.Random(rng.random()))))
        try:
            await SqlStorm(nodes.schedule, ensemble.names, PATTERNS, rng, HELD_SECONDS).rage(SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await nodes.check()
        leader = ensemble.election(await ensemble.agreed())
        for key in KEYS:
            history.read(leader, key)
        problem = history.problem()
        assert problem is None, f"I18, seed {seed}: {problem}"
        assert any(isinstance(each.action, StoreWrite) for each in history.operations), "the clients wrote"

    play(scenario, server, (TIMES, RARE_RENEWALS)[seed % 2], nodes=3)


async def resign_now_and_then(nodes: ScheduledNodes, rng: random.Random) -> None:
    while True:
        await asyncio.sleep(rng.uniform(0.3, 1.5))
        for name in nodes.ensemble.leading():
            await nodes.ensemble.election(name).resign()


async def stall_commits_now_and_then(nodes: ScheduledNodes, rng: random.Random) -> None:
    """Within the server, also for longer than a statement may take."""
    try:
        while True:
            await asyncio.sleep(rng.uniform(0.1, 1.0))
            await asyncio.to_thread(nodes.watched.close_gate)
            await asyncio.sleep(rng.choice([0.1, 0.3, 0.45]))
            await asyncio.to_thread(nodes.watched.open_gate)
    finally:
        nodes.watched.open_gate()
