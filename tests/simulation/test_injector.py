"""Faults on a simulated cluster, one at a time, with its clients."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from slotreeve_conformance import virtual_time
from slotreeve_servers.data.server import DataServer
from slotreeve_simulator.clients_watch import ClientsWatch
from slotreeve_simulator.cluster import SLOW_FACTOR, ScenarioCluster
from slotreeve_simulator.configs_watch import ConfigsWatch
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.flapping import LONGEST_FLAP_SECONDS
from slotreeve_simulator.injector import LONGEST_DETOUR_SECONDS, Injector
from slotreeve_simulator.plan import Call, CallKind
from slotreeve_simulator.scenario import DiskPlan, NetworkPlan, Scenario
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.simulated_gateways import SimulatedGateways
from slotreeve_simulator.store import ELECTION, LockStore
from slotreeve_simulator.trace import Trace
from slotreeve_simulator.verdict import RunVerdict
from slotreeve_simulator.workload import Clients

SMALL = Scenario.model_validate(
    {
        "name": "small",
        "nodes": {"meta": 1, "data": 2, "session": 2, "clients": 2},
        "workload": {"publishers": 4, "subscriptions": 4, "services": 2},
    }
)


class Scene:
    """A cluster with its clients, its watches and an injector."""

    def __init__(self, scenario: Scenario) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()

        def now() -> float:
            return loop.time() - began

        self.now = now
        self.trace = Trace(now)
        self.verdict = RunVerdict(self.trace)
        self.cluster = ScenarioCluster(scenario, seed=1)
        self.watch = ServersWatch(self.cluster, 2, now, self.trace, self.verdict)
        self.clients_watch = ClientsWatch(self.trace, self.verdict)
        self.configs_watch = ConfigsWatch(self.verdict)
        self.clients = Clients(scenario, 1, self.cluster, self.clients_watch, self.configs_watch, self.trace)
        self.gateways = SimulatedGateways(scenario.nodes.gateway, 1, self.cluster)
        self.injector = Injector(self.cluster, self.clients, self.gateways, self.watch, self.trace, self.verdict, now)

    def begin(self, kind: FaultKind, *first: str, seconds: float = 1.0, others: tuple[str, ...] = ()) -> None:
        self.injector.begin(Fault(0, 0.0, kind, seconds, first, others, amount=1.0))


def play(story: Callable[[Scene], Awaitable[None]], meta: int = 1, **tables: object) -> Scene:
    """``tables``: of the scenario, in the place of the small one's."""

    async def scenario(_rng: random.Random) -> Scene:
        nodes = SMALL.nodes.model_copy(update={"meta": meta})
        scene = Scene(SMALL.model_copy(update={"nodes": nodes, **tables}))
        async with scene.cluster:
            scene.clients.come_all()
            await asyncio.sleep(2)
            await story(scene)
            await scene.injector.mend()
            await scene.cluster.ready()
            await asyncio.sleep(20)
            assert scene.clients.unconverged() is None
            assert await scene.clients.read_all() is None
        assert scene.verdict.violation is None
        return scene

    return virtual_time.run(scenario)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (FaultKind.CRASH_DATA, "data-1"),
        (FaultKind.CRASH_SESSION, "session-1"),
        (FaultKind.CRASH_META, "meta-1"),
        (FaultKind.CRASH_CLIENT, "client-1"),
    ],
)
def test_a_killed_process_is_away_for_the_duration_of_the_fault(kind: FaultKind, name: str) -> None:
    async def story(scene: Scene) -> None:
        lives = scene.cluster.lives[name]
        scene.begin(kind, name, seconds=3.0)
        assert name not in {*scene.cluster.servers, *scene.cluster.clients}
        scene.begin(kind, name)
        await asyncio.sleep(4)
        assert name in {*scene.cluster.servers, *scene.cluster.clients}
        assert scene.cluster.lives[name] == lives + 1

    lines = play(story).trace.lines(last_details=100_000)
    assert sum("not now" in line for line in lines) == 1


def test_a_meta_server_that_has_just_crashed_may_lose_its_disk_and_no_other_one_may() -> None:
    async def story(scene: Scene) -> None:
        scene.begin(FaultKind.CRASH_META, "meta-1", seconds=3.0)
        assert scene.cluster.disk("meta-1") is not None
        scene.begin(FaultKind.WIPE_META, "meta-2")
        assert "meta-2" in scene.cluster.servers
        scene.begin(FaultKind.WIPE_META, "meta-1")
        assert scene.cluster.disk("meta-1") is None
        assert scene.cluster.lives["meta-1"] == 1
        scene.begin(FaultKind.WIPE_META, "meta-3")
        await asyncio.sleep(4)
        assert "meta-1" in scene.cluster.servers

    lines = play(story, meta=3).trace.lines(last_details=100_000)
    assert sum("not now" in line for line in lines) == 2


def test_a_slow_server_is_slow_until_the_fault_ends() -> None:
    async def story(scene: Scene) -> None:
        scene.begin(FaultKind.SLOW, "data-1", seconds=1.0)
        assert 1 < scene.cluster.slowness["data-1"] <= SLOW_FACTOR
        await asyncio.sleep(1.5)
        assert scene.cluster.slowness == {}

    play(story)


def test_a_server_that_two_faults_add_at_once_starts_once() -> None:
    async def story(scene: Scene) -> None:
        scene.begin(FaultKind.ADD_DATA, "data-3", seconds=2.0)
        scene.begin(FaultKind.ADD_DATA, "data-3", seconds=1.0)
        await asyncio.sleep(1.5)
        assert scene.cluster.lives["data-3"] == 1
        assert "data-3" in scene.cluster.servers

    play(story)


def test_copies_between_two_data_servers_are_slow_until_the_fault_ends() -> None:
    async def story(scene: Scene) -> None:
        delay = scene.cluster.network.delay_seconds
        scene.begin(FaultKind.SLOW_COPIES, "data-1", seconds=1.0, others=("data-2",))
        assert delay("data-1", "data-2") > LONGEST_DETOUR_SECONDS
        assert delay("data-2", "data-1") > LONGEST_DETOUR_SECONDS
        assert delay("data-1", "session-1") < 0.1
        scene.begin(FaultKind.SLOW_COPIES, "data-2", seconds=5.0, others=("data-1",))
        await asyncio.sleep(1.5)
        assert delay("data-1", "data-2") < 0.1

    play(story)


def test_connections_that_flap_break_again_and_again_until_the_fault_ends() -> None:
    async def story(scene: Scene) -> None:
        client = scene.cluster.clients["client-1"]
        before = client.statistics().reconnections
        scene.begin(FaultKind.FLAP_CLIENT, "client-1", seconds=LONGEST_FLAP_SECONDS * 3.5)
        await asyncio.sleep(LONGEST_FLAP_SECONDS * 10)
        assert client.statistics().reconnections == before + 4
        link = next(
            peer for peer in scene.cluster.data("data-1").core._sessions.connections if peer.node == "session-1"
        )
        scene.begin(FaultKind.FLAP_LINK, "session-1", seconds=0.5, others=("data-1",))
        await asyncio.sleep(1.0)
        links = [peer for peer in scene.cluster.data("data-1").core._sessions.connections if peer.node == "session-1"]
        assert len(links) == 1
        assert link not in links

    play(story)


def test_a_client_that_is_cut_off_loses_its_connection_and_makes_none_until_the_fault_ends() -> None:
    async def story(scene: Scene) -> None:
        client = scene.cluster.clients["client-1"]
        scene.begin(FaultKind.CUT_OFF_CLIENT, "client-1", seconds=0.2, others=("session-1", "session-2"))
        await asyncio.sleep(0.19)
        assert client.server is None
        await asyncio.sleep(5.0)
        assert client.server is not None

    play(story)


def test_a_link_that_is_reset_passes_nothing_and_breaks_in_the_end() -> None:
    async def story(scene: Scene) -> None:
        sessions = scene.cluster.data("data-1").core._sessions
        (before,) = [peer for peer in sessions.connections if peer.node == "session-1"]
        scene.begin(FaultKind.RESET_LINK, "session-1", seconds=1.0, others=("data-1",))
        await asyncio.sleep(0.9)
        assert not scene.cluster.network.passes("session-1", "data-1")
        assert before in sessions.connections
        await asyncio.sleep(1.0)
        assert scene.cluster.network.passes("session-1", "data-1")
        (after,) = [peer for peer in sessions.connections if peer.node == "session-1"]
        assert after is not before

    play(story)


def test_a_zone_dies_at_one_moment_and_comes_back() -> None:
    async def story(scene: Scene) -> None:
        zone = ("data-1", "session-1", "client-1")
        scene.begin(FaultKind.CRASH_ZONE, *zone, seconds=3.0)
        assert not {*scene.cluster.servers, *scene.cluster.clients}.intersection(zone)
        scene.begin(FaultKind.CRASH_DATA, "data-1", seconds=1.0)
        await asyncio.sleep(10.0)
        assert {name: scene.cluster.lives[name] for name in zone} == dict.fromkeys(zone, 2)

    play(story)


def test_nobody_sees_a_lost_machine_go_and_its_server_joins_once_the_lease_of_the_former_process_is_over() -> None:
    async def story(scene: Scene) -> None:
        leases = scene.cluster.settings.meta.lease_seconds

        def is_member() -> bool:
            server = scene.cluster.servers["data-1"]
            return isinstance(server, DataServer) and server.view.revision > 0

        scene.begin(FaultKind.LOSE_MACHINE, "data-1", seconds=0.5)
        await asyncio.sleep(1.0)
        assert "data-1" in scene.cluster.servers
        assert "data-1" in scene.cluster.network.connections("data-2")
        assert not is_member()
        await scene.cluster.until(is_member, "the next process has joined", 2 * leases)

    play(story)


def test_a_partition_ends_when_everything_is_mended() -> None:
    async def story(scene: Scene) -> None:
        scene.begin(FaultKind.PARTITION, "data-1", seconds=100.0, others=("data-2", "meta-1"))
        assert not scene.cluster.network.passes("data-1", "meta-1")
        await scene.injector.mend()
        assert scene.cluster.network.passes("data-1", "meta-1")

    play(story)


def test_a_call_of_a_client_changes_what_must_be_seen() -> None:
    async def story(scene: Scene) -> None:
        for kind in CallKind:
            scene.clients.call(Call(0.0, 0, kind, 1))
        scene.clients.call(Call(0.0, 99, CallKind.PUBLISH, 1))  # there is no such client
        await asyncio.sleep(1)

    lines = play(story).trace.lines(last_details=100_000)
    assert sum("client-1: " in line for line in lines) == len(CallKind)
    assert not any("client-100: " in line for line in lines)


def test_an_election_by_lock_uses_a_database_in_memory() -> None:
    async def scenario(rng: random.Random) -> None:
        made = ScenarioCluster(Scenario.model_validate({"name": "l", "nodes": {"election": "lock", "meta": 3}}), 1)
        assert isinstance(made.store, LockStore)
        assert ELECTION in {entry.offer.name for entry in made.catalogue.listed}
        async with made:
            leader = made.leader
            assert leader is not None
            made.kill(leader)
            await made.until(lambda: made.leader not in (None, leader), "another meta server leads")
            await made.start(leader)

    virtual_time.run(scenario)


def test_a_disk_is_slow_until_the_fault_ends() -> None:
    async def story(scene: Scene) -> None:
        scene.begin(FaultKind.SLOW_DISK, "meta-1")
        disk = scene.cluster.disk("meta-1")
        assert disk is not None
        assert disk.sync_seconds == 0.5
        await asyncio.sleep(1.1)
        assert disk.sync_seconds == 0.0

    play(story)


def test_a_disk_that_is_well_takes_as_long_as_the_scenario_says() -> None:
    async def story(scene: Scene) -> None:
        disk = scene.cluster.disk("meta-1")
        assert disk is not None
        assert disk.sync_seconds == 0.005
        for _ in range(2):  # a slow disk does not get slower
            scene.begin(FaultKind.SLOW_DISK, "meta-1")
            assert disk.sync_seconds == 0.505
        await asyncio.sleep(1.1)
        assert disk.sync_seconds == 0.005
        scene.begin(FaultKind.CRASH_META, "meta-1")
        await asyncio.sleep(1.1)
        assert disk.sync_seconds == 0.005

    play(story, disks=DiskPlan(sync_ms=5.0))


def test_it_is_calm_once_what_a_slow_process_sent_has_arrived() -> None:
    async def story(scene: Scene) -> None:
        scene.begin(FaultKind.SLOW, "data-1")
        assert scene.watch.calm_since is None
        ends = scene.now() + 1.0
        await asyncio.sleep(1.1)
        assert scene.cluster.longest_travel() == 0.06
        assert scene.watch.calm_since == pytest.approx(ends + 6.0)

    play(story, network=NetworkPlan(delay_ms=(1.0, 60.0)))


def test_a_power_cut_strikes_all_meta_servers_at_once_and_they_come_back() -> None:
    async def story(scene: Scene) -> None:
        scene.begin(FaultKind.SLOW_DISK, "meta-1", seconds=3.0)
        scene.begin(FaultKind.POWER_CUT, "meta-1", "meta-2", "meta-3")
        assert not any(name.startswith("meta-") for name in scene.cluster.servers)
        await asyncio.sleep(2.0)
        assert {"meta-1", "meta-2", "meta-3"} <= scene.cluster.servers.keys()

    play(story, meta=3)
