"""The flight recorder: what it remembers, and what it answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from slotreeve.errors import ElectionError
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Leadership, Message, MetaState
from slotreeve_conformance.virtual_time import START_WALL_MS, VirtualClock, run
from slotreeve_protocol.general_messages import Done, Failed
from slotreeve_protocol.meta_messages import GetHistory, History, LeaderChange, LeaderIs, Resign
from slotreeve_servers.meta.recorder import KEPT_CHANGES, LeadershipRecorder
from slotreeve_servers.node.dispatch import Dispatcher
from slotreeve_transport_memory.transport import MemoryTransport


class Throne:
    """An election that a test decides."""

    def __init__(self) -> None:
        self.now = Leadership(None, 0, False, 0.0, "not started")
        self.refusal: ElectionError | None = None

    @property
    def state(self) -> MetaState:
        raise NotImplementedError

    def leadership(self) -> Leadership:
        return self.now

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """Nothing to start."""

    async def resign(self) -> None:
        await asyncio.sleep(0.1)
        if self.refusal is not None:
            raise self.refusal
        self.now = Leadership(None, self.now.term, False, 0.0, "resigned")

    async def stop(self) -> None:
        """Nothing to stop."""


class Scene:
    """A recorder behind a dispatcher, and a tool that asks it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.throne = Throne()
        self.recorder = LeadershipRecorder(
            "meta-1", self.throne, self.clock, lambda: LeaderIs(7, "meta-2", "there:7710")
        )

    def set(self, leader: str | None, term: int, cause: str, lease: float | None = None) -> None:
        until = 0.0 if lease is None else self.clock.now() + lease
        self.throne.now = Leadership(leader, term, lease is not None, until, cause)
        self.recorder.record(self.throne.now)

    async def ask(self, message: Message) -> Message:
        quiet = Dispatcher({}, lambda connection: None, lambda connection, reason: None)
        server = Dispatcher(self.recorder.methods, lambda connection: None, lambda connection, reason: None)
        listener = await MemoryTransport(self.clock, "meta-1").listen("meta-1:0", hello("meta-1", Role.META), server)
        tool = MemoryTransport(self.clock, "tool")
        connection: Connection = await tool.connect(listener.address, hello("tool", Role.TOOL), quiet, 1.0)
        reply = await connection.ask(message, 1.0)
        await listener.close()
        return reply


def hello(name: str, role: Role) -> Hello:
    return Hello("test", name, role, f"{name}@1")


def play(scenario: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def main(_rng: random.Random) -> None:
        scene = Scene()
        await scenario(scene)
        scene.recorder.close()

    run(main)


def test_every_change_is_told_in_order_with_its_time_term_and_cause() -> None:
    async def scenario(scene: Scene) -> None:
        scene.set("meta-2", 3, "elected")
        await asyncio.sleep(2.0)
        scene.set(None, 3, "connection lost")
        reply = await scene.ask(GetHistory())
        assert reply == History(
            "meta-1",
            [
                LeaderChange(START_WALL_MS, "meta-2", 3, "elected"),
                LeaderChange(START_WALL_MS + 2000, None, 3, "connection lost"),
            ],
        )

    play(scenario)


def test_the_least_margin_of_the_own_lease_is_kept_and_no_others() -> None:
    async def scenario(scene: Scene) -> None:
        scene.set("meta-1", 4, "elected", lease=0.5)
        await asyncio.sleep(0.35)  # sampled at 0.5, 0.4, 0.3 and 0.2 seconds before the end
        scene.throne.now = Leadership("meta-1", 4, True, scene.clock.now() + 0.5, "elected")
        await asyncio.sleep(0.2)
        scene.set(None, 4, "quorum lost")
        await asyncio.sleep(5.0)
        led, lost = scene.recorder.changes
        assert led.least_margin_seconds is not None
        assert abs(led.least_margin_seconds - 0.2) < 1e-6
        assert lost.least_margin_seconds is None

    play(scenario)


def test_a_server_that_needs_no_lease_has_no_margin() -> None:
    async def scenario(scene: Scene) -> None:
        scene.set("meta-1", 1, "elected", lease=float("inf"))
        await asyncio.sleep(1.0)
        assert scene.recorder.changes[0].least_margin_seconds is None

    play(scenario)


def test_the_oldest_changes_are_forgotten() -> None:
    async def scenario(scene: Scene) -> None:
        for term in range(KEPT_CHANGES + 10):
            scene.set("meta-2", term, "elected")
        assert [change.term for change in scene.recorder.changes] == list(range(10, KEPT_CHANGES + 10))

    play(scenario)


def test_a_leader_that_is_asked_resigns_and_then_says_so() -> None:
    async def scenario(scene: Scene) -> None:
        scene.set("meta-1", 5, "elected", lease=0.5)
        assert await scene.ask(Resign()) == Done()
        assert not scene.throne.now.leading

    play(scenario)


def test_who_does_not_lead_says_who_does_instead_of_resigning() -> None:
    async def scenario(scene: Scene) -> None:
        scene.set("meta-2", 7, "elected")
        assert await scene.ask(Resign()) == LeaderIs(7, "meta-2", "there:7710")

    play(scenario)


def test_a_resignation_that_fails_is_answered_with_the_reason() -> None:
    async def scenario(scene: Scene) -> None:
        scene.set("meta-1", 5, "elected", lease=0.5)
        scene.throne.refusal = ElectionError("the database is away")
        assert await scene.ask(Resign()) == Failed("SR300", "the database is away")

    play(scenario)
