"""Take-overs and writes interleaved statement by statement, on a real PostgreSQL and MariaDB.

``SLOTREEVE_ORDERS`` is the number of orders of a take-over and a write that are played; there are 10. All of the two
take-overs' orders are.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Protocol, cast

import pytest
from slotreeve.errors import ElectionError
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_conformance.sql_interleaving import Interleaving, orders

from tests.election_mysql.scheduled_nodes import OF_TABLE, ScheduledNodes, play, until

pytestmark = pytest.mark.processes

SLOW = {"lease_ms": 8_000, "renew_ms": 2_000, "timeout_ms": 2_000}
"""No renewal comes into the orders, or rarely."""
TAKE_OVER_STATEMENTS, WRITE_STATEMENTS = 3, 2
ORDERS = int(os.environ.get("SLOTREEVE_ORDERS", "12"))


class Notifiable(Protocol):
    def row_changed(self) -> None: ...


def notify(nodes: ScheduledNodes, name: str) -> None:
    """Let the node look at the row."""
    cast(Notifiable, nodes.ensemble.election(name)).row_changed()


def follows_since(nodes: ScheduledNodes, name: str, term: int) -> bool:
    """Whether the node knows the leader of a term after this one."""
    known = nodes.ensemble.election(name).leadership()
    return known.leader is not None and known.term > term


async def take_over_together(nodes: ScheduledNodes, order: tuple[bool, ...]) -> None:
    """One race of two take-overs."""
    ensemble = nodes.ensemble
    await ensemble.agreed()
    first, second = ensemble.names
    term = ensemble.election(first).leadership().term + 1
    await asyncio.to_thread(nodes.watched.give_away)
    race = Interleaving(nodes.schedule, (first, second), OF_TABLE)
    for name in ensemble.names:
        notify(nodes, name)
    await race.play(order, lambda name: follows_since(nodes, name, term))
    leader = await ensemble.agreed()
    assert ensemble.election(leader).leadership().term == term + 1, "there was one change of owner"
    await ensemble.write(leader, "k", repr(order).encode())
    ensemble.check()


def test_two_take_overs_in_any_order_of_their_statements_make_one_leader(server: SqlServer) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        await nodes.ensemble.start()
        for order in orders(TAKE_OVER_STATEMENTS, TAKE_OVER_STATEMENTS):
            await take_over_together(nodes, order)

    play(scenario, server, SLOW, clock_may_jump=True)


async def take_over_during_a_write(nodes: ScheduledNodes, order: tuple[bool, ...]) -> None:
    """The row expires by the database's clock, although its owner holds its lease and writes."""
    ensemble = nodes.ensemble
    writer = await ensemble.agreed()
    other = next(name for name in ensemble.names if name != writer)
    term = ensemble.election(writer).leadership().term
    await asyncio.to_thread(nodes.watched.expire)
    race = Interleaving(nodes.schedule, (writer, other), OF_TABLE)
    writing = asyncio.ensure_future(ensemble.write(writer, "k", repr(order).encode()))
    notify(nodes, other)
    await race.play(
        order, lambda name: writing.done() if name == writer else ensemble.election(name).leadership().leading
    )
    await asyncio.gather(writing, return_exceptions=True)
    error = writing.exception()
    assert error is None or isinstance(error, ElectionError), error
    await until(lambda: ensemble.election(other).leadership().leading)
    assert ensemble.election(other).leadership().term == term + 1
    held = ensemble.election(other).state.read("k")
    assert (held is not None and held.value == repr(order).encode()) == (error is None), "stored, and acknowledged"
    notify(nodes, writer)
    await ensemble.agreed()
    ensemble.check()


def test_a_take_over_and_a_write_of_the_old_leader_in_any_order_of_their_statements_lose_nothing(
    server: SqlServer,
) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        await nodes.ensemble.start()
        every = list(orders(WRITE_STATEMENTS, TAKE_OVER_STATEMENTS))
        for order in random.Random(1).sample(every, min(ORDERS, len(every))):
            await take_over_during_a_write(nodes, order)

    play(scenario, server, SLOW, clock_may_jump=True)
