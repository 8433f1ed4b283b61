"""The notifier's lock: held by the leader, waited for by the others, and a notification to the one that gets it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_election_mysql.notification import NotificationLoop
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_simulator.simulated_database import SimulatedDatabase
from slotreeve_simulator.simulated_lock_table import SimulatedNotifier

TIMING = LockTiming(lease=0.6, renew=0.1, timeout=0.3)


class Node:
    """One node's loop; ``leads`` is set by the test, ``notified`` counts."""

    def __init__(self, database: SimulatedDatabase, name: str) -> None:
        clock, self.leads, self.notified = VirtualClock(), False, 0
        notifier = SimulatedNotifier(database, clock, name)
        self.loop = NotificationLoop(notifier, clock, random.Random(name), TIMING, lambda: self.leads, self._count)

    def _count(self) -> None:
        self.notified += 1

    def change(self, leads: bool) -> None:
        self.leads = leads
        self.loop.leadership_changed()


def play(scenario: Callable[[SimulatedDatabase, Node, Node], Coroutine[Any, Any, None]]) -> None:
    async def main(_rng: random.Random) -> None:
        database = SimulatedDatabase(VirtualClock())
        nodes = [Node(database, name) for name in ("a", "b")]
        tasks = [asyncio.get_running_loop().create_task(node.loop.run()) for node in nodes]
        await scenario(database, *nodes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main, 1)


def test_the_node_that_waits_is_notified_at_once_when_the_leader_stops_leading() -> None:
    async def scenario(_database: SimulatedDatabase, leader: Node, follower: Node) -> None:
        leader.leads = True
        await asyncio.sleep(30.0)
        assert (leader.notified, follower.notified) == (1, 0)
        leader.change(leads=False)
        await asyncio.sleep(0.001)
        assert follower.notified == 1

    play(scenario)


def test_a_leader_that_dies_releases_the_lock_with_its_connection() -> None:
    async def scenario(database: SimulatedDatabase, leader: Node, follower: Node) -> None:
        leader.leads = True
        await asyncio.sleep(1.0)
        database.hang_up("a")
        await asyncio.sleep(0.001)
        assert follower.notified == 1

    play(scenario)


def test_two_followers_do_not_pass_the_lock_to_and_fro_without_a_pause() -> None:
    async def scenario(_database: SimulatedDatabase, one: Node, other: Node) -> None:
        await asyncio.sleep(60.0)
        assert 1 < one.notified + other.notified < 2 * 60 / (0.8 * TIMING.lease)

    play(scenario)


def test_an_outage_of_the_database_ends_and_notifications_go_on() -> None:
    async def scenario(database: SimulatedDatabase, leader: Node, follower: Node) -> None:
        database.is_down = True
        await asyncio.sleep(5.0)
        assert leader.notified == follower.notified == 0
        database.is_down = False
        await asyncio.sleep(5.0)
        assert leader.notified + follower.notified > 0

    play(scenario)
