"""Gateways of a run, and the checks of what they answer, which can fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from slotreeve.errors import ClientError, ConfigError
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.copies_watch import CopiesWatch
from slotreeve_simulator.gateway_watch import GatewayWatch
from slotreeve_simulator.http_dialects import HTTP_DIALECTS, HttpCall
from slotreeve_simulator.lease_watch import LeaseWatch
from slotreeve_simulator.plan import plan
from slotreeve_simulator.scenario import Scenario, load_scenario
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.simulated_gateway import GatewayAnswer
from slotreeve_simulator.simulated_gateways import SimulatedGateways
from slotreeve_simulator.trace import Trace
from slotreeve_simulator.verdict import RunVerdict

SERVICE, REST = "leased-1", HTTP_DIALECTS["rest"]
SMALL = Scenario.model_validate({"nodes": {"meta": 1, "data": 2, "session": 2, "gateway": 2}})


class Scene:
    """A settled cluster with two gateways."""

    def __init__(self) -> None:
        self.cluster = ScenarioCluster(SMALL, 1)
        self.gateways = SimulatedGateways(SMALL.nodes.gateway, 1, self.cluster)
        trace = Trace(lambda: 0.0)
        self.verdict = RunVerdict(trace)
        servers = ServersWatch(self.cluster, 2, lambda: 0.0, trace, self.verdict)
        copies = CopiesWatch(2, servers, self.verdict)
        leases = LeaseWatch(self.cluster, copies, lambda: 0.0, trace, self.verdict)
        self.watch = GatewayWatch(self.gateways, leases, self.verdict)

    @property
    def found(self) -> str:
        return str(self.verdict.violation or "")


def play(story: Callable[[Scene], Awaitable[None]]) -> Scene:
    async def body(_rng: random.Random) -> Scene:
        scene = Scene()
        async with scene.cluster:
            scene.gateways.come_all()
            await asyncio.sleep(1)
            await story(scene)
            await scene.gateways.leave_all()
        return scene

    return run(body)


@pytest.mark.parametrize("face", HTTP_DIALECTS)
def test_what_one_face_registers_all_faces_of_all_gateways_show_until_it_ends(face: str) -> None:
    async def story(scene: Scene) -> None:
        writes = HTTP_DIALECTS[face]
        assert (await scene.gateways.ask(writes.register(SERVICE, "leased-1.1", 60), "gateway-1")).status < 300
        assert (await scene.gateways.ask(writes.renew(SERVICE, "leased-1.1"), "gateway-2")).status < 300
        await asyncio.sleep(1)
        for name in scene.gateways.running:
            for reads in HTTP_DIALECTS.values():
                assert reads.shown(await scene.gateways.ask(reads.read(SERVICE, 0, 0), name)) == {"leased-1.1"}
        assert await scene.watch.problem([SERVICE]) is None

        assert (await scene.gateways.ask(writes.end(SERVICE, "leased-1.1"), "gateway-2")).status < 300
        assert (await scene.gateways.ask(writes.renew(SERVICE, "leased-1.1"), "gateway-1")).status == 404
        await asyncio.sleep(1)
        assert await scene.watch.problem([SERVICE]) is None

    assert play(story).found == ""


def test_a_gateway_that_does_not_run_is_a_problem_and_its_callers_are_told() -> None:
    async def story(scene: Scene) -> None:
        index = REST.index(await scene.gateways.ask(REST.read(SERVICE, 0, 0), "gateway-2"))
        waiting = asyncio.create_task(scene.gateways.ask(REST.read(SERVICE, index, 20), "gateway-2"))
        await asyncio.sleep(1)
        scene.gateways.ended("gateway-2")
        scene.cluster.kill("gateway-2")
        with pytest.raises(ClientError, match="gateway-2 does not answer"):
            await waiting
        assert await scene.watch.problem([SERVICE]) == "gateway-2 does not run"
        for _ in range(20):
            assert (await scene.gateways.ask(REST.read(SERVICE, 0, 0))).status == 200, "the other one is asked"

        scene.gateways.come("gateway-2")
        await asyncio.sleep(1)
        assert await scene.watch.problem([SERVICE]) is None

    play(story)


def test_a_gateway_that_is_paused_answers_when_it_goes_on() -> None:
    async def story(scene: Scene) -> None:
        scene.cluster.freeze("gateway-1")
        asked = asyncio.create_task(scene.gateways.ask(REST.read(SERVICE, 0, 0), "gateway-1"))
        await asyncio.sleep(5)
        assert not asked.done()
        scene.cluster.thaw("gateway-1")
        assert (await asked).status == 200

        scene.cluster.freeze("gateway-1")
        with pytest.raises(ClientError):
            await scene.gateways.ask(REST.read(SERVICE, 0, 0), "gateway-1")
        scene.cluster.thaw("gateway-1")

    play(story)


def test_a_gateway_that_shows_something_else_than_the_leader_has_is_a_problem() -> None:
    async def story(scene: Scene) -> None:
        await scene.gateways.ask(REST.read(SERVICE, 0, 0), "gateway-2")
        scene.cluster.network.partition(["gateway-2"], ["session-1", "session-2"])
        await scene.gateways.ask(REST.register(SERVICE, "leased-1.1", 60), "gateway-1")
        problem = await scene.watch.problem([SERVICE])
        assert problem is not None
        assert problem.startswith("gateway-2 ")

    play(story)


def test_one_index_for_two_states_and_a_good_request_that_is_refused_are_violations() -> None:
    async def one_index(scene: Scene) -> None:
        scene.watch.seen(SERVICE, REST, 7, set(), {"a"})
        scene.watch.seen(SERVICE, REST, 8, {"a"}, {"a", "b"})
        scene.watch.seen("leased-2", REST, 7, set(), {"b"})
        assert scene.found == ""
        scene.watch.seen(SERVICE, REST, 7, set(), {"a", "b"})

    async def refused(scene: Scene) -> None:
        call = HttpCall("GET", "/v1/services")
        scene.watch.refused(call, GatewayAnswer(503, {}, b"", 0.0))
        assert scene.found == ""
        scene.watch.refused(call, GatewayAnswer(400, {}, b"what?", 0.0))

    assert "I19: index 7 of leased-1 is given to two states: b" in play(one_index).found
    assert "I19: GET /v1/services is refused: 400 b'what?'" in play(refused).found


def test_a_plan_strikes_gateways_where_there_are_some_and_is_refused_where_there_are_none(tmp_path: Path) -> None:
    loaded = load_scenario("gateways")
    struck = {fault.first[0] for seed in range(20) for storm in plan(loaded, seed, 1) for fault in storm.faults}
    assert {"gateway-1", "gateway-2", "gateway-3"} < struck
    file = tmp_path / "mine.toml"
    file.write_text("[faults.kinds]\ncrash_gateway = 1.0\n")
    with pytest.raises(ConfigError, match=r"crash_gateway needs gateways: \[nodes\] gateway = 2"):
        load_scenario(str(file))
