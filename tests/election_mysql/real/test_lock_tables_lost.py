"""Tables that are emptied, or set back to an older state, under nodes that run: on a real PostgreSQL and MariaDB.

What decision 16 promises is seen: the lead ends, nothing is written, an alarm is raised, and it ends by the newest
state or by an operator's consent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from slotreeve.errors import ElectionError, SlotreeveError
from slotreeve_chaos.sql_backends import ServerStore
from slotreeve_chaos.sql_servers import SqlServer

from tests.election_mysql.scheduled_nodes import HOLD_ROW, PUT, STEADY, ScheduledNodes, play, until

pytestmark = pytest.mark.processes

Restore = Callable[[], Coroutine[Any, Any, None]]


async def alarmed(nodes: ScheduledNodes, log: pytest.LogCaptureFixture) -> None:
    """No node leads, each has said why, and the state that each knows is the newest one still."""
    ensemble = nodes.ensemble
    await until(lambda: not ensemble.leading())
    await until(lambda: all("was set back" in ensemble.reports(name)[-1].cause for name in ensemble.running))
    assert log.text.count("ALARM") == len(ensemble.running)


@pytest.mark.parametrize(("loss", "end"), [("emptied", "accepted"), ("an older state", "brought back")])
def test_tables_that_lose_changes_end_the_lead_until_they_are_brought_back_or_accepted(
    loss: str, end: str, server: SqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        store = ServerStore(server, nodes.tables)
        await ensemble.start()
        leader = await ensemble.agreed()
        restore_empty = await store.back_up() if loss == "emptied" else None
        await ensemble.write(leader, "k", b"old")
        await ensemble.write(leader, "only", b"old")
        await until(lambda: all(len(nodes.state_of(name)) == 2 for name in ensemble.names))
        restore_old = restore_empty or await store.back_up()
        await ensemble.write(leader, "k", b"new")
        await until(lambda: all(nodes.state_of(name)["k"].value == b"new" for name in ensemble.names))
        restore_newest = await store.back_up()
        terms = {name: ensemble.election(name).leadership().term for name in ensemble.names}

        await restore_old()
        with pytest.raises(SlotreeveError):
            await ensemble.election(leader).state.write("k", b"over the older one", None, terms[leader])
        await alarmed(nodes, caplog)
        assert all(nodes.state_of(name)["k"].value == b"new" for name in ensemble.names)
        if end == "brought back":
            await restore_newest()
        else:
            ensemble.give_up("k")
            ensemble.give_up("only")
            await store.accept()
        await ensemble.agreed()
        assert all(ensemble.election(name).leadership().term > terms[name] for name in ensemble.names)
        expected = {} if end == "accepted" else {"k": b"new", "only": b"old"}
        await until(lambda: all({k: v.value for k, v in nodes.state_of(n).items()} == expected for n in ensemble.names))
        await ensemble.write(await ensemble.agreed(), "after", b"1")
        await until(lambda: all("after" in nodes.state_of(name) for name in ensemble.names))
        ensemble.check()

    play(scenario, server, STEADY, is_set_back=True)


@pytest.mark.parametrize("at", [HOLD_ROW, PUT])
def test_tables_that_are_emptied_during_a_write_get_no_change_that_follows_a_lost_one(
    at: str, server: SqlServer
) -> None:
    """The rows are deleted while the write stands between two statements; once the write holds the row, the deletion
    waits for its end."""

    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        leader = await ensemble.agreed()
        await ensemble.write(leader, "k", b"1")
        sent = nodes.schedule.hold(nodes.stop_at(leader, at))
        writing = asyncio.ensure_future(ensemble.election(leader).state.write("k", b"2", 1, 1))
        halt = await sent.reached()
        emptying = asyncio.ensure_future(asyncio.to_thread(nodes.watched.empty))
        if at == HOLD_ROW:
            await emptying
        halt.go_on()
        await emptying
        try:
            assert await writing == 2, "it was committed before the rows were deleted"
            assert at != HOLD_ROW
        except ElectionError:
            pass
        await until(lambda: not ensemble.leading() or ensemble.election(leader).leadership().term > 1)
        assert await asyncio.to_thread(nodes.watched.newest_revision) == 0

    play(scenario, server, STEADY, nodes=1, is_set_back=True)
