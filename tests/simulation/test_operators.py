"""The operator of a simulated cluster, and the probes of orders and of servers that end together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from slotreeve_client.configuration import ConfigWatch
from slotreeve_conformance import virtual_time
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.orders import Orders
from slotreeve_simulator.configs_watch import CONFIG_KEYS, ConfigsWatch
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.order_probes import OrderProbes
from slotreeve_simulator.server_probes import ServerProbes
from slotreeve_simulator.simulated_operator import Operator
from slotreeve_simulator.spared import NO_CORE, Core, Spared
from slotreeve_simulator.trace import Trace
from slotreeve_simulator.verdict import RunVerdict

from tests.simulation import planted_operator_bugs  # noqa: F401 - it adds its bugs
from tests.simulation.planting import BUGS
from tests.simulation.test_injector import SMALL, Scene, play

WITH_OPERATOR = SMALL.workload.model_copy(update={"operator": True})
OPERATED = SMALL.model_copy(update={"workload": WITH_OPERATOR})
THREE_DATA = SMALL.nodes.model_copy(update={"data": 3})
KEY = CONFIG_KEYS[0]


def operators(scene: Scene) -> Operator:
    found = Operator(OPERATED, 1, scene.cluster, (scene.watch, scene.configs_watch), scene.trace, scene.verdict)
    found.come()
    return found


def order_probes(scene: Scene) -> OrderProbes:
    watches = scene.clients_watch, scene.watch
    return OrderProbes(scene.cluster, scene.clients, operators(scene), watches, 20.0, scene.trace, scene.verdict)


def server_probes(scene: Scene) -> ServerProbes:
    return ServerProbes(scene.cluster, scene.watch, scene.configs_watch, 0.003, scene.trace, scene.verdict)


def broken(story: Callable[[ConfigsWatch], None]) -> str:
    async def scenario(_rng: random.Random) -> str:
        verdict = RunVerdict(Trace(lambda: 0.0))
        story(ConfigsWatch(verdict))
        return str(verdict.violation)

    return virtual_time.run(scenario)


def watch_of(version: int, value: bytes | None) -> ConfigWatch:
    watch = ConfigWatch(KEY, None, lambda _: None)
    watch.apply(ConfigEntry(KEY, value, version))
    return watch


def test_two_values_of_one_version_break_an_invariant() -> None:
    def story(watch: ConfigsWatch) -> None:
        watch.written(ConfigEntry(KEY, b"a", 1), "operator")
        watch.seen("client-1", watch_of(1, b"a"))
        watch.seen("client-2", watch_of(1, b"b"))

    assert broken(story) == f"I20: client-2 has b'b' as version 1 of {KEY}; operator has b'a'"


def test_a_write_below_one_that_was_acknowledged_breaks_an_invariant() -> None:
    def story(watch: ConfigsWatch) -> None:
        watch.written(ConfigEntry(KEY, b"a", 2), "operator")
        watch.written(ConfigEntry(KEY, b"b", 2), "operator")

    assert "wrote version 2" in broken(story)


def test_a_client_must_see_what_was_acknowledged_and_what_anybody_has_seen() -> None:
    def story(watch: ConfigsWatch) -> None:
        watch.written(ConfigEntry(KEY, b"a", 1), "operator")
        watch.seen("client-1", watch_of(2, b"b"))
        assert watch.difference("client-1", [watch_of(2, b"b")]) is None
        for version in (0, 1):
            assert "client-2 sees version" in (watch.difference("client-2", [watch_of(version, b"a")]) or "")
        watch.counted_anew()
        assert watch.difference("client-2", [watch_of(0, None)]) is None
        assert watch.difference("client-2", [watch_of(2, b"b")]) is not None, "it counts on"

    assert broken(story) == "None"


def test_an_operator_does_much_in_a_storm_and_takes_all_of_it_back() -> None:
    async def story(scene: Scene) -> None:
        operator = operators(scene)
        scene.clients_watch.core = NO_CORE
        operator.storm_begins(0, NO_CORE)
        await asyncio.sleep(60)
        await operator.storm_ends()
        await asyncio.sleep(2)
        settings = [server.settings_in_force.report() for server in scene.cluster.servers.values()]
        assert not any(setting.is_live for report in settings for setting in report.settings)
        assert scene.cluster.meta("meta-1").core.configs.orders == Orders()

    lines = " ".join(play(story, workload=WITH_OPERATOR, nodes=THREE_DATA).trace.lines(last_details=100_000))
    for what in ("writes b", "bans", "stops pushes", "switches client-", "freezes", "sets ", "removes the setting"):
        assert f"operator-tool {what}" in lines
    assert "does not succeed" not in lines


def test_an_operator_spares_the_core() -> None:
    spared = frozenset({"data-1", "session-2"})

    async def story(scene: Scene) -> None:
        operator = operators(scene)
        scene.clients_watch.core = core = Core(Spared.DATA, spared, frozenset({"client-1"}), ())
        operator.storm_begins(0, core)
        for _ in range(600):
            await asyncio.sleep(0.1)
            orders = scene.cluster.meta("meta-1").core.configs.orders
            assert not orders.banned & spared
            assert "client-1" not in orders.clients_off
        await operator.storm_ends()

    play(story, workload=WITH_OPERATOR)


def test_an_operator_who_cannot_take_an_order_back_breaks_an_invariant_and_does_not_wait_for_ever() -> None:
    async def scenario(_rng: random.Random) -> str:
        scene = Scene(OPERATED)
        async with scene.cluster:
            operator = operators(scene)
            operator.storm_begins(0, NO_CORE)
            scene.cluster.freeze("meta-1")
            await operator.storm_ends()
            scene.cluster.thaw("meta-1")
        return str(scene.verdict.violation)

    assert virtual_time.run(scenario).startswith(
        "convergence: operator-tool takes back the orders, and did not succeed"
    )


PROBES_OF_ORDERS: list[Callable[[OrderProbes, random.Random], Awaitable[None]]] = [
    OrderProbes.ends_frozen,
    OrderProbes.pushes_stopped,
    OrderProbes.client_off,
    OrderProbes.server_banned,
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("probe", PROBES_OF_ORDERS, ids=lambda probe: probe.__name__)
def test_in_a_calm_cluster_an_order_comes_about(
    probe: Callable[[OrderProbes, random.Random], Awaitable[None]], seed: int
) -> None:
    async def story(scene: Scene) -> None:
        probes = order_probes(scene)
        await probe(probes, random.Random(seed))
        await probes._operator.order(lambda _: Orders())
        await asyncio.sleep(3)

    play(story, workload=WITH_OPERATOR)


def test_an_order_that_nobody_follows_is_noticed() -> None:
    async def scenario(_rng: random.Random) -> list[str]:
        found = []
        for probe in (OrderProbes.client_off, OrderProbes.server_banned):
            scene = Scene(SMALL.model_copy(update={"workload": WITH_OPERATOR}))
            async with scene.cluster:
                scene.clients.come_all()
                await asyncio.sleep(2)
                probes = order_probes(scene)
                probes._order = _nothing  # type: ignore[method-assign]
                await probe(probes, random.Random(1))
            found.append(str(scene.verdict.violation))
        return found

    for text in virtual_time.run(scenario):
        assert text.startswith("order: ")


async def _nothing(**_orders: object) -> None:
    """The order is not given."""


@pytest.mark.parametrize("seed", range(4))
def test_data_servers_end_together_and_each_slot_is_served(seed: int) -> None:
    async def story(scene: Scene) -> None:
        await server_probes(scene).holders_die(random.Random(seed))
        await scene.cluster.ready()
        await server_probes(scene).two_stop(random.Random(seed))

    lines = " ".join(play(story, nodes=THREE_DATA).trace.lines(last_details=0))
    assert "killed, of the holders" in lines
    assert "stop" in lines


@pytest.mark.parametrize("has_copies", [False, True])
def test_a_cluster_whose_meta_state_is_lost_or_set_back_goes_on_above_its_newest_view(has_copies: bool) -> None:
    async def story(scene: Scene) -> None:
        probes = server_probes(scene)
        if has_copies:
            probes.back_up()
        scene.begin(FaultKind.CRASH_DATA, "data-1", seconds=1.0)
        await asyncio.sleep(5)
        before = scene.cluster.views()[0].revision
        await probes.state_is_lost(random.Random(1))
        await scene.cluster.until(lambda: scene.cluster.views()[0].revision > before, "there is a newer view", 60)

    lines = " ".join(play(story, meta=3).trace.lines(last_details=0))
    assert ("set back to copies" in lines) is has_copies


def test_a_slot_that_nobody_serves_in_time_breaks_an_invariant() -> None:
    async def scenario(_rng: random.Random) -> str:
        scene = Scene(SMALL.model_copy(update={"nodes": THREE_DATA}))
        async with scene.cluster:
            await asyncio.sleep(2)
            scene.cluster.freeze("session-1")
            await server_probes(scene).holders_die(random.Random(1))
            scene.cluster.thaw("session-1")
        return str(scene.verdict.violation)

    assert virtual_time.run(scenario).startswith("I15: ")


def test_a_slot_that_is_not_handed_over_by_servers_that_stop_breaks_an_invariant() -> None:
    async def scenario(_rng: random.Random) -> str:
        scene = Scene(SMALL.model_copy(update={"nodes": THREE_DATA}))
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_time.VirtualLoop)
        async with scene.cluster:
            await asyncio.sleep(2)
            loop.after_every_turn(scene.watch.look_at_views)
            await server_probes(scene).two_stop(random.Random(1))
            loop.after_every_turn(lambda: None)
        return str(scene.verdict.violation)

    assert virtual_time.run(scenario) == "None"
    with BUGS["goes_at_once"].make():
        assert virtual_time.run(scenario).startswith("I20: ")
