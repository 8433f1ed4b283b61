"""What one statement can do to the election when it stalls or is lost: each case on a real PostgreSQL and MariaDB.

Every node reaches its database through a proxy that holds, delays or cuts single statements and answers.
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from slotreeve.errors import NotLeader
from slotreeve.ports import Versioned
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_conformance.sql_schedule import Moment, Stop

from tests.election_mysql.scheduled_nodes import (
    HOLD_ROW,
    LOOK,
    PUT,
    RELEASE,
    RENEW,
    STEADY,
    TAKE_OVER,
    ScheduledNodes,
    play,
    until,
)

pytestmark = pytest.mark.processes

LONG_LEASE = {"lease_ms": 4_000, "renew_ms": 300, "timeout_ms": 300}
STALL_SECONDS = 0.75
"""Two and a half times the time after which a statement is given up."""
UNKNOWN = "may or may not be stored"


async def stall_next_commit(nodes: ScheduledNodes, leader: str, dialect: str) -> asyncio.Task[None]:
    """The leader's next COMMIT succeeds long after the node gave it up; the task ends then.

    It stalls within PostgreSQL, and on its way to MariaDB: the one rolls a transaction back whose COMMIT does not come,
    the other one whose client is gone while its COMMIT waits.
    """
    sent = nodes.schedule.hold(nodes.stop_at(leader, PUT))

    async def stall() -> None:
        halt = await sent.reached()
        if dialect == "postgres":
            await asyncio.to_thread(nodes.watched.close_gate)
            halt.go_on()
        await asyncio.sleep(STALL_SECONDS)
        if dialect == "postgres":
            await asyncio.to_thread(nodes.watched.open_gate)
        halt.go_on()

    return asyncio.get_running_loop().create_task(stall())


def test_a_write_whose_commit_stalls_and_succeeds_is_read_before_the_next_one_is_made(
    dialect: str, server: SqlServer
) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        leader = await ensemble.agreed()
        election = ensemble.election(leader)
        term = election.leadership().term
        await ensemble.write(leader, "before", b"1")
        stall = await stall_next_commit(nodes, leader, dialect)
        with pytest.raises(NotLeader, match=UNKNOWN):
            await ensemble.write(leader, "view", b"stalled")
        while not stall.done():  # each waits for the row, until the stalled write is committed
            with contextlib.suppress(NotLeader):
                await ensemble.write(leader, "other", b"next")
        await stall
        await ensemble.write(leader, "other", b"last")
        assert election.state.read("view") == Versioned(b"stalled", 1, term)
        assert election.leadership().term == term

    play(scenario, server, LONG_LEASE)


def test_a_write_whose_commit_stalls_and_fails_is_never_seen(server: SqlServer) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        leader = await ensemble.agreed()
        await ensemble.write(leader, "before", b"1")
        sent = nodes.schedule.hold(nodes.stop_at(leader, PUT))
        stalled = asyncio.ensure_future(ensemble.write(leader, "view", b"stalled"))
        halt = await sent.reached()
        with pytest.raises(NotLeader, match=UNKNOWN):
            await stalled
        following = asyncio.ensure_future(ensemble.write(leader, "other", b"next"))
        await asyncio.sleep(STALL_SECONDS - 0.3)
        halt.cut()
        await asyncio.gather(following, return_exceptions=True)
        await ensemble.write(leader, "last", b"2")
        assert ensemble.election(leader).state.read("view") is None

    play(scenario, server, LONG_LEASE)


def test_a_write_whose_connection_ends_at_its_commit_is_stored_or_not_and_known_before_the_next(
    server: SqlServer,
) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        leader = await ensemble.agreed()
        term = ensemble.election(leader).leadership().term
        for number, moment in enumerate(Moment):
            nodes.schedule.cut(nodes.stop_at(leader, PUT, moment))
            with pytest.raises(NotLeader, match=UNKNOWN):
                await ensemble.write(leader, f"view {number}", b"lost")
            await ensemble.write(leader, "other", b"next")
            held = ensemble.election(leader).state.read(f"view {number}")
            assert held == (Versioned(b"lost", 1, term) if moment is Moment.ANSWER else None)
        assert ensemble.election(leader).leadership().term == term, "a lost answer costs the leader nothing"

    play(scenario, server, STEADY)


def test_a_write_whose_connection_ends_within_its_transaction_is_not_stored(server: SqlServer) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        leader = await ensemble.agreed()
        for moment in Moment:
            nodes.schedule.cut(nodes.stop_at(leader, HOLD_ROW, moment))
            with pytest.raises(NotLeader, match=UNKNOWN):
                await ensemble.write(leader, "view", b"lost")
            await ensemble.write(leader, "other", b"next")
            assert ensemble.election(leader).state.read("view") is None
            nodes.schedule.clear()

    play(scenario, server, STEADY, nodes=1)


def test_a_take_over_whose_answer_is_lost_ends_in_one_leader_of_a_later_term(server: SqlServer) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        for number, moment in enumerate(Moment):
            lost = nodes.schedule.cut(Stop(None, TAKE_OVER, moment))
            if number == 0:
                await ensemble.start()
            else:
                await ensemble.election(await ensemble.agreed()).resign()
            node = (await lost.reached()).statement.node
            term = ensemble.election(node).leadership().term + 1
            leader = await ensemble.agreed()
            if moment is Moment.ANSWER:
                led = {report.term for report in ensemble.reports(node) if report.leading}
                assert term not in led, "whoever does not know that it took the row must not lead by it"
            await ensemble.write(leader, "k", moment.name.encode())

    play(scenario, server, STEADY)


def test_a_leader_whose_renewal_is_lost_keeps_its_term(server: SqlServer) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        leader = await ensemble.agreed()
        election = ensemble.election(leader)
        term = election.leadership().term
        for moment in Moment:
            await nodes.schedule.cut(Stop(leader, RENEW, moment)).reached()
            until_then = election.leadership().valid_until
            await until(lambda known=until_then: election.leadership().valid_until > known)  # type: ignore[misc]
            assert (election.leadership().leading, election.leadership().term) == (True, term)
        await ensemble.write(leader, "k", b"v")

    play(scenario, server, STEADY)


def test_a_renewal_whose_answer_comes_late_counts_from_its_sending(server: SqlServer) -> None:
    """The answer is held for most of a statement's time, and then the node reaches the database no more."""

    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble, schedule = nodes.ensemble, nodes.schedule
        await ensemble.start()
        leader = await ensemble.agreed()
        election = ensemble.election(leader)
        term, before = election.leadership().term, election.leadership().valid_until
        answer = await schedule.hold(nodes.stop_at(leader, RENEW, Moment.ANSWER)).reached()
        row_expires_at = ensemble.now(leader) + 1.0
        await asyncio.sleep(0.35)
        schedule.hold(Stop(leader, "", times=None))
        answer.go_on()
        await until(lambda: election.leadership().valid_until > before)
        assert election.leadership().valid_until < row_expires_at
        other = await ensemble.leader(among=[name for name in ensemble.names if name != leader])
        assert ensemble.election(other).leadership().term == term + 1

    play(scenario, server, {"lease_ms": 1_000, "renew_ms": 150, "timeout_ms": 650})


def test_a_resignation_whose_answer_is_lost_is_one_all_the_same(server: SqlServer) -> None:
    """Who has resigned stands again after a lease, which is long here: a starved machine takes its time. Where the
    request is lost, the row lasts for what is left of its lease, and others are ahead by a moment only."""

    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        for moment in Moment:
            leader = await ensemble.agreed()
            term = ensemble.election(leader).leadership().term
            nodes.schedule.cut(Stop(leader, RELEASE, moment))
            async with asyncio.timeout(5.0):
                await ensemble.election(leader).resign()
            assert not ensemble.election(leader).leadership().leading
            successor = await ensemble.agreed()
            assert ensemble.election(successor).leadership().term == term + 1
            assert successor != leader or moment is Moment.REQUEST

    play(scenario, server, {**STEADY, "lease_ms": 6_000})


def test_a_take_over_that_comes_a_leadership_too_late_changes_nothing(server: SqlServer) -> None:
    """It is held after the look on which it rests, until another node leads."""

    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble, schedule = nodes.ensemble, nodes.schedule
        await ensemble.start()
        first = await ensemble.agreed()
        both = schedule.hold(Stop(None, TAKE_OVER, times=2))
        ensemble.kill(first)
        early, late = await both.reached(), await both.reached()
        early.go_on()
        second = await ensemble.leader(among=[early.statement.node])
        term = ensemble.election(second).leadership().term
        await ensemble.write(second, "k", b"v")
        late.go_on()
        await schedule.hold(Stop(late.statement.node, LOOK, Moment.ANSWER)).reached()
        schedule.clear()
        assert await ensemble.agreed() == second
        assert ensemble.election(second).leadership().term == term

    play(scenario, server, {"lease_ms": 1_200, "renew_ms": 100, "timeout_ms": 600}, nodes=3)
