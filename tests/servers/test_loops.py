"""Supervised loops of a server."""

from __future__ import annotations

import asyncio

from slotreeve.clock import LoopClock
from slotreeve.errors import ConfigError
from slotreeve_servers.node.peers import Peers
from slotreeve_servers.node.supervisor import Supervisor, Wake

from tests.servers.node_scene import play


def test_a_loop_that_fails_starts_again_and_one_that_returns_has_ended() -> None:
    async def scenario() -> None:
        supervisor, runs = Supervisor(LoopClock()), list[str]()

        async def fails_twice() -> None:
            runs.append("run")
            if len(runs) < 3:
                raise RuntimeError("made up by this test")

        supervisor.start("fails twice", fails_twice)
        await asyncio.sleep(5.0)
        assert (len(runs), supervisor.failures) == (3, {"fails twice": 2})
        await supervisor.stop()

    play(scenario)


def test_an_action_that_is_run_once_is_not_repeated_when_it_fails() -> None:
    async def scenario() -> None:
        supervisor, runs = Supervisor(LoopClock()), list[int]()

        async def fails() -> None:
            runs.append(1)
            raise RuntimeError("made up by this test")

        def fails_at_once() -> None:
            raise RuntimeError("made up by this test")

        supervisor.once("commit", fails)
        peers = Peers(LoopClock(), supervisor)
        peers.after(1.0, fails_at_once)
        peers.at_turns_end(fails_at_once)
        await asyncio.sleep(5.0)
        assert (len(runs), supervisor.failures) == (1, {"commit": 1, "timer": 1, "end of turn": 1})
        assert not supervisor._tasks, "a finished task is kept"
        await supervisor.stop()

    play(scenario)


def test_the_first_reason_to_give_up_counts() -> None:
    async def scenario() -> None:
        supervisor = Supervisor(LoopClock())
        supervisor.give_up(ConfigError("first"))
        supervisor.give_up(ConfigError("second"))
        assert str(supervisor.given_up.result()) == "first"

    play(scenario)


def test_a_wake_is_remembered_and_a_sleeper_wakes_by_itself() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        wake, began = Wake(clock), clock.now()
        wake.set()
        wake.set()
        await wake.wait(60.0)
        assert clock.now() == began
        await wake.wait(2.0)
        assert clock.now() == began + 2.0

    play(scenario)
