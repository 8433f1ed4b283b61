"""SOFARegistry's walk-through of its lock election, step by step, on both databases; and what it costs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from slotreeve.clock import LoopClock
from slotreeve.ports import Context, Election
from slotreeve_conformance.election_backend import Wires
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_election_mysql.connection import SqlResult, SqlStatement
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.mysql import MySqlSession
from slotreeve_election_mysql.postgres import PostgresSession
from slotreeve_election_mysql.table import Row

pytestmark = [pytest.mark.processes, pytest.mark.timed]

MEMBERS = ["meta-1", "meta-2", "meta-3"]


@pytest.fixture
def take_overs() -> list[tuple[int, bool]]:
    """Every compare-and-set that was sent: the term it was for, and whether it changed the row."""
    return []


@pytest.fixture
def build_watched(
    build: Callable[..., LockElection], take_overs: list[tuple[int, bool]]
) -> Callable[[Context], Election]:
    def make(context: Context) -> Election:
        election = build(context.node, cluster=context.cluster, clock=context.clock)
        take_over = election._table.take_over

        async def watched(seen: Row, owner: str, term: int, duration_ms: int) -> bool:
            won = await take_over(seen, owner, term, duration_ms)
            take_overs.append((term, won))
            return won

        election._table.take_over = watched  # type: ignore[method-assign]
        return election

    return make


def test_the_walk_through_of_sofaregistry(
    build_watched: Callable[[Context], Election], take_overs: list[tuple[int, bool]]
) -> None:
    async def main() -> None:
        async with Ensemble(build_watched, Wires(), MEMBERS, LoopClock(), random.Random(1)) as ensemble:
            # Three nodes start; one leads.
            await ensemble.start()
            first = await ensemble.agreed()
            assert ensemble.election(first).leadership().term == 1

            # It is killed. Of the two followers' compare-and-sets exactly one changes the row.
            ensemble.kill(first)
            second = await ensemble.agreed()
            assert ensemble.election(second).leadership().term == 2

            # So is its successor. The last one leads.
            ensemble.kill(second)
            third = await ensemble.agreed()
            assert ensemble.election(third).leadership().term == 3
            assert {first, second, third} == set(MEMBERS)

            # The dead come back as followers.
            await ensemble.start(first, second)
            assert await ensemble.agreed() == third
            assert ensemble.election(third).leadership().term == 3
            for term in (1, 2, 3):
                assert sum(won for attempted, won in take_overs if attempted == term) == 1
            ensemble.check()

    asyncio.run(main())


def test_three_idle_nodes_ask_at_most_twice_a_second_each(
    build: Callable[..., LockElection], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    def counting(session: type[PostgresSession] | type[MySqlSession]) -> None:
        original = session.run

        def counted(self: Any, *statements: SqlStatement) -> Sequence[SqlResult]:
            nonlocal count
            count += 1
            return original(self, *statements)

        monkeypatch.setattr(session, "run", counted)

    counting(PostgresSession)
    counting(MySqlSession)

    async def main() -> None:
        nodes = [build(name, lease_ms=5_000, renew_ms=1_000, timeout_ms=1_000) for name in MEMBERS]
        led = asyncio.Event()
        for node in nodes:
            await node.start(lambda leadership: led.set() if leadership.leading else None)
        await led.wait()
        await asyncio.sleep(2.0)  # the leader holds the notifier's lock
        before, seconds = count, 4.0
        await asyncio.sleep(seconds)
        # Two polls' worth of slack: a window of four seconds may hold five ticks of one second.
        assert 3 * (seconds - 1) <= count - before <= 2 * 3 * seconds
        for node in nodes:
            await node.stop()

    asyncio.run(main())
