"""Health and metrics of servers in a simulated cluster: what a load balancer and Prometheus would get."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from slotreeve.errors import StorageError
from slotreeve.model.nodes import Node, Role
from slotreeve_conformance.virtual_time import run
from slotreeve_console.health import HealthPages
from slotreeve_servers.node.counted import COUNTED, GATEWAY, LOOP_LAG, PUSH_WAIT, STORE, TIMED, CounterKind
from slotreeve_servers.node.readiness import Condition, Inspected
from slotreeve_servers.node.timings import BOUNDS_SECONDS, Timing
from slotreeve_simulator.simulated_cluster import SimulatedCluster

Get = Callable[[str, str], Coroutine[Any, Any, httpx.Response]]
NODE = Node("session-1", Role.SESSION, "127.0.0.1:7730", "session-1@1", "east", 1.0)


async def ask(server: Inspected, path: str, node: Node = NODE) -> httpx.Response:
    """The answer of one server's pages."""
    transport = httpx.ASGITransport(HealthPages(server, node, "east-1").application())
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        return await client.get(path)


def play(scenario: Callable[[SimulatedCluster], Coroutine[Any, Any, None]]) -> None:
    async def main(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            await scenario(cluster)

    run(main, seed=1)


def test_every_server_of_a_settled_cluster_lives_and_is_ready_and_one_leads() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leading = []
        for name, server in cluster.servers.items():
            assert (await ask(server, "/livez")).text == "ok\n"
            ready = await ask(server, "/readyz?verbose")
            assert ready.status_code == 200, (name, ready.text)
            assert ready.text.startswith("[+] listens\n")
            assert ready.text.endswith("\nready\n")
            if (await ask(server, "/leader")).status_code == 200:
                leading.append(name)
        assert leading == [cluster.leader]

    play(scenario)


def test_a_data_server_is_not_ready_while_it_takes_over_slots_or_is_no_member() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        seen: set[str] = set()
        cluster.kill("data-1")
        cluster.freeze("data-3")
        for _ in range(100):
            await asyncio.sleep(0.1)
            seen.update((await ask(cluster.data("data-2"), "/readyz")).text.splitlines())
        assert any(line.startswith("[-] slots: ") and line.endswith(" are being taken over or copied") for line in seen)
        assert "not ready" in seen
        cluster.thaw("data-3")
        await cluster.start("data-1")
        await cluster.ready()
        assert (await ask(cluster.data("data-2"), "/readyz")).text == "ready\n"
        await cluster.data("data-2").stop()
        answer = await ask(cluster.data("data-2"), "/readyz")
        assert answer.status_code == 503
        assert "[-] listens: this server has stopped\n" in answer.text

    play(scenario)


def test_a_session_server_that_sends_its_clients_away_is_not_ready() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        session = cluster.session("session-1")
        session.core.redirect_clients()
        answer = await ask(session, "/readyz")
        assert answer.status_code == 503
        assert answer.text == "[-] clients: this session server stops\nnot ready\n"

    play(scenario)


def test_a_meta_server_without_a_leader_is_not_ready_and_one_that_gave_up_does_not_live() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = cluster.leader
        assert leader is not None
        (left, *others) = [name for name in cluster.servers if name.startswith("meta")]
        for name in others:
            cluster.kill(name)
        await asyncio.sleep(5)
        answer = await ask(cluster.meta(left), "/readyz")
        assert answer.status_code == 503
        assert "[-] leader: no meta server leads, as far as this one knows: connection lost\n" in answer.text
        assert (await ask(cluster.meta(left), "/leader")).status_code == 503
        assert (await ask(cluster.meta(left), "/livez")).status_code == 200
        cluster.meta(left).given_up.set_result(StorageError("the disk is gone"))
        answer = await ask(cluster.meta(left), "/livez")
        assert (answer.status_code, answer.text) == (503, "the disk is gone\n")
        for name in others:
            await cluster.start(name)

    play(scenario)


def test_every_counter_is_a_metric_of_its_kind() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        client = cluster.client()
        client.publish("s", "x")
        await client.flush()
        found: dict[str, str] = {}
        of_the_process = set()
        for name, server in cluster.servers.items():
            node = Node(name, Role(name.partition("-")[0]), "", "", "east", 1.0)
            answer = await ask(server, "/metrics", node)
            assert answer.headers["content-type"].startswith("text/plain; version=")
            for family in text_string_to_metric_families(answer.text):
                if family.name.startswith("process_"):
                    of_the_process.add(family.name)
                    continue
                found[family.name] = family.type
                for sample in family.samples:
                    assert sample.labels["server"] == name
                    assert sample.labels["zone"] == "east"
                    assert sample.labels["role"] == node.role
                    assert sample.labels["cluster"] == "east-1"
                    if family.name in ("slotreeve_ready", "slotreeve_build_info"):
                        assert sample.value == 1
                    elif family.type != "histogram":
                        counter = family.name.removeprefix("slotreeve_")
                        assert sample.value == server.counters()[counter]
        assert found.pop("slotreeve_ready") == found.pop("slotreeve_build_info") == "gauge"
        assert {"process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds"} <= of_the_process
        assert {found.pop(f"slotreeve_{name}") for name in TIMED} == {"histogram"}
        of_servers = COUNTED.keys() - GATEWAY.keys()
        assert found == {f"slotreeve_{name}": str(COUNTED[name].kind) for name in of_servers}

    play(scenario)


def test_stages_are_timed_in_ranges_that_add_up() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        client = cluster.client()
        await cluster.client().subscribe("s").ready()
        for number in range(30):
            client.publish("s", str(number))
            await client.flush()
            await asyncio.sleep(0.1)
        sessions = [cluster.session(name) for name in cluster.servers if name.startswith("session")]
        for name, least in ((STORE, 30), (PUSH_WAIT, 30), (LOOP_LAG, 60)):
            total = 0
            for server in sessions:
                text = (await ask(server, "/metrics")).text
                family = next(f for f in text_string_to_metric_families(text) if f.name == f"slotreeve_{name}")
                ranges = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
                (count,) = (sample.value for sample in family.samples if sample.name.endswith("_count"))
                (seconds,) = (sample.value for sample in family.samples if sample.name.endswith("_sum"))
                assert len(ranges) == len(BOUNDS_SECONDS) + 1
                assert ranges == sorted(ranges)
                assert ranges[-1] == count
                assert 0 <= seconds <= count * BOUNDS_SECONDS[6], name
                total += int(count)
            assert total >= least, name

    play(scenario)


class OfAPlugin:
    """A server whose election counts something of its own."""

    is_leading = False
    failure = ""

    def counters(self) -> dict[str, int]:
        return {"my_elections": 7}

    def timings(self) -> dict[str, Timing]:
        return {}

    def readiness(self) -> list[Condition]:
        return [Condition("listens", "")]


def test_a_counter_of_a_foreign_plugin_is_a_gauge() -> None:
    async def scenario() -> None:
        text = (await ask(OfAPlugin(), "/metrics")).text
        assert 'slotreeve_my_elections{cluster="east-1",role="session",server="session-1",zone="east"} 7.0\n' in text
        assert "# TYPE slotreeve_my_elections gauge\n" in text

    asyncio.run(scenario())


def test_what_only_rises_is_never_seen_to_fall_over_faults() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        seen: dict[tuple[str, str], int] = {}
        client = cluster.client()
        for number in range(60):
            client.publish(f"s{number}", "x")
            if number == 20:
                cluster.freeze("data-1")
            if number == 40:
                cluster.thaw("data-1")
                cluster.network.cut("session-1", "data-2")
            await asyncio.sleep(0.5)
            for name, server in cluster.servers.items():
                for counter, value in server.counters().items():
                    if COUNTED[counter].kind is CounterKind.COUNTER:
                        assert value >= seen.get((name, counter), 0), (name, counter)
                        seen[name, counter] = value
        assert any(value > 0 for value in seen.values())

    play(scenario)
