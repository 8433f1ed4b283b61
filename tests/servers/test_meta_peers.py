"""What the core of a meta server begins is carried out: commits, configuration, resignation, hooks of plugins."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine

import pytest
from slotreeve.catalogue import Catalogue
from slotreeve.errors import ElectionError, NotLeader, RequestTimeout
from slotreeve.hookspecs import hookimpl
from slotreeve.model.nodes import Role
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Connection, Hello, Leadership, Message
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, EvenBalancerOptions
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_machines.beside import InTurn, Work, Worked
from slotreeve_protocol.general_messages import Done, Failed
from slotreeve_protocol.meta_messages import ConfigEntry, Configs, PutConfig, Resign, View
from slotreeve_servers.launch import Launcher
from slotreeve_servers.meta.effects import LONGEST_WORK_SECONDS
from slotreeve_servers.meta.peers import MetaPeers
from slotreeve_servers.meta.server import MetaServer
from slotreeve_servers.settings import load_settings
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

from tests.servers.scripted_election import ScriptedElection


class RefusingElection(ScriptedElection):
    """An election that refuses what the test tells it to refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.refusal: Exception | None = None
        self.changed: Callable[[Leadership], None] = lambda leadership: None

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        self.changed = changed

    async def resign(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        await super().resign()


class Tool:
    """A handler that needs nothing."""

    def opened(self, connection: Connection) -> None:
        """Nothing to do."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Nothing to do."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Nothing to do."""


class Observer:
    """A plugin that writes down the leaders it learns of."""

    def __init__(self) -> None:
        self.leaders: list[str | None] = []

    @hookimpl
    def slotreeve_leader_changed(self, leadership: Leadership) -> None:
        self.leaders.append(leadership.leader)


class Scene:
    """A meta server that leads by an election that the test sets, and a tool connected to it."""

    def __init__(self) -> None:
        clock, catalogue = VirtualClock(), Catalogue.load()
        self.observer, self.election, self.network = Observer(), RefusingElection(), MemoryNetwork()
        catalogue.manager.register(self.observer)
        launcher = Launcher(load_settings(None, {}, {}), catalogue, clock, random.Random(1))
        environment = launcher.environment(Role.META, MemoryTransport(clock, "meta-1", self.network), InTurn(clock))
        assigner, balancer = DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions())
        self.server = MetaServer(environment, self.election, assigner, balancer)
        self.tool = MemoryTransport(clock, "tool", self.network)

    async def ask(self, message: Message) -> Message:
        hello = Hello("slotreeve", "tool", Role.TOOL, "tool@1")
        connection = await self.tool.connect(self.server.address, hello, Tool(), 1.0)
        return await connection.ask(message, 5.0)

    def lead(self) -> None:
        self.election.current = Leadership("meta-1", 1, True, float("inf"), "elected")
        self.election.changed(self.election.current)

    @property
    def peers(self) -> MetaPeers:
        peers = self.server._peers
        assert isinstance(peers, MetaPeers)
        return peers


def play(scenario: Callable[[Scene], Coroutine[None, None, None]]) -> None:
    async def main(_rng: random.Random) -> None:
        scene = Scene()
        await scene.server.start()
        scene.lead()
        await scenario(scene)
        await scene.server.stop()

    run(main)


def test_a_committed_view_is_reported_to_the_core_and_hooks_are_called() -> None:
    async def scenario(scene: Scene) -> None:
        view = View(1, 1, SlotTable(), [], [])
        scene.peers.commit(view, 0)
        await asyncio.sleep(0.1)
        assert scene.server.core.view.read() == view
        assert scene.observer.leaders == ["meta-1"]
        assert scene.server.leadership().leading

    play(scenario)


def test_a_view_that_cannot_be_committed_is_reported_and_any_other_failure_is_counted_too() -> None:
    async def scenario(scene: Scene) -> None:
        for error, failures in ((NotLeader("meta-2 leads"), 0), (ZeroDivisionError("made up by this test"), 1)):

            async def refuse(*_: object, error: Exception = error) -> int:
                raise error

            vars(scene.election.state)["write"] = refuse
            scene.peers.commit(View(1, 1, SlotTable(), [], []), 0)
            await asyncio.sleep(0.1)
            assert scene.server.core.view.read().revision == 0
            assert scene.server.counters()["loop_failures"] == failures

    play(scenario)


def test_configuration_is_written_and_answered_with_the_entry_or_the_reason() -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.ask(PutConfig("k", b"v", None)) == Configs([ConfigEntry("k", b"v", 1)])
        refused = await scene.ask(PutConfig("", b"v", None))
        assert isinstance(refused, Failed)
        assert refused.code == "SR120"

    play(scenario)


def test_a_leader_that_no_member_reaches_resigns_and_stays_where_the_election_refuses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.election.refusal = ElectionError("the database is away")
        scene.peers.resign(None)
        await asyncio.sleep(0.1)
        assert scene.election.current.leading
        assert "this leader did not resign: the database is away" in caplog.text
        scene.election.refusal = None
        scene.peers.resign(None)
        await asyncio.sleep(0.1)
        assert not scene.election.current.leading

    play(scenario)


def test_a_resignation_is_answered_once_it_is_done_or_with_the_reason() -> None:
    async def scenario(scene: Scene) -> None:
        scene.election.refusal = ElectionError("the database is away")
        assert await scene.ask(Resign()) == Failed("SR300", "the database is away")
        scene.election.refusal = None
        assert await scene.ask(Resign()) == Done()
        assert not scene.election.current.leading

    play(scenario)


def test_a_plan_that_does_not_come_to_an_end_is_given_up_and_its_late_result_is_dropped() -> None:
    class Later:
        """Ends the work when the test says so."""

        def __init__(self) -> None:
            self.end: Callable[[], None] = lambda: None

        def run(self, work: Work, worked: Worked) -> None:
            self.end = lambda: worked(work(), None)

    async def scenario(scene: Scene) -> None:
        later = scene.peers._beside = Later()
        told: list[tuple[object, Exception | None]] = []
        scene.peers.compute(lambda: "found", lambda result, error: told.append((result, error)))
        await asyncio.sleep(LONGEST_WORK_SECONDS - 1)
        assert told == []
        await asyncio.sleep(2)
        again: list[Exception | None] = []
        scene.peers.compute(lambda: "another", lambda _result, error: again.append(error))
        await asyncio.sleep(1)
        assert [type(error) for error in again] == [RequestTimeout], "one thread at a time"
        later.end()
        ((result, error),) = told
        assert result is None
        assert isinstance(error, RequestTimeout)
        scene.peers.compute(lambda: "found", lambda result, error: told.append((result, error)))
        later.end()
        await asyncio.sleep(2 * LONGEST_WORK_SECONDS)
        assert told[1:] == [("found", None)]

    play(scenario)
