"""Blocking queries: they wake, they end, their index never falls, and nothing is missed between two gateways."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve_face_consul.blocking import JITTER, wait_seconds
from slotreeve_face_consul.queries import LONGEST_WAIT_SECONDS, ConsulQuery

from tests.faces.gateway_on_trial import GatewayOnTrial, Trial, play

PAGES = ["/v1/health/service/web", "/v1/catalog/service/web", "/v1/health/checks/web"]
SERVICE = "web#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


@pytest.mark.parametrize("page", PAGES)
def test_a_query_with_the_index_waits_for_a_change_and_without_it_does_not(page: str) -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        empty = await gateway.get(page)
        assert (empty.json, empty.index > 0) == ([], True)
        waiting = asyncio.ensure_future(gateway.get(f"{page}?index={empty.index}&wait=60s"))
        await asyncio.sleep(20)
        assert not waiting.done()
        await gateway.register("web")
        found = await waiting
        assert (len(found.json), found.index > empty.index) == (1, True)
        assert found.seconds < 20.1
        assert (await gateway.get(f"{page}?index={empty.index}")).seconds < 0.1
        assert (await gateway.get(f"{page}?index=0&wait=60s")).seconds < 0.1

    play(scenario)


@pytest.mark.parametrize("wait", ["1s", "1m30s", "250ms", "8h"])
def test_a_query_ends_after_its_wait_with_some_jitter_and_what_is_there(wait: str) -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", Check=None)
        index = (await gateway.get(PAGES[0])).index
        answer = await gateway.get(f"{PAGES[0]}?index={index}&wait={wait}")
        seconds = min({"1s": 1.0, "1m30s": 90.0, "250ms": 0.25, "8h": 8 * 3600.0}[wait], LONGEST_WAIT_SECONDS)
        assert seconds <= answer.seconds <= seconds * (1 + 1 / JITTER) + 0.01
        assert (answer.index, len(answer.json)) == (index, 1)
        assert gateway.face.counters()["consul_waiting"] == 0

    play(scenario)


def test_waits_differ() -> None:
    query, rng = ConsulQuery.parse(b"index=1&wait=10s", "dc"), random.Random(1)
    assert len({wait_seconds(query, rng) for _ in range(100)}) == 100


def test_a_caller_that_goes_away_frees_its_place_and_others_go_on_waiting() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        index = (await gateway.get(PAGES[0])).index
        stays = asyncio.ensure_future(gateway.get(f"{PAGES[0]}?index={index}"))
        goes = asyncio.ensure_future(gateway.get(f"{PAGES[0]}?index={index}", leave=5))
        await asyncio.sleep(4)
        assert gateway.face.counters()["consul_waiting"] == 2
        await asyncio.sleep(2)
        assert (await goes).status == 0
        assert gateway.face.counters()["consul_waiting"] == 1
        await gateway.register("web")
        assert len((await stays).json) == 1

    play(scenario)


def test_the_list_of_services_and_nodes_waits_for_a_change_of_names_or_numbers() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        for page, name in (("/v1/catalog/services", "one"), ("/v1/catalog/nodes", "two")):
            index = (await gateway.get(page)).index
            waiting = asyncio.ensure_future(gateway.get(f"{page}?index={index}&wait=60s"))
            await asyncio.sleep(5)
            assert not waiting.done()
            await gateway.register(name, Check=None, Address=f"{name}.example")
            answer = await waiting
            assert answer.index > index
            assert name.encode() in answer.body
            assert answer.seconds < 8

    play(scenario)


async def watch(gateways: list[GatewayOnTrial], rng: random.Random, seen: list[tuple[int, str]]) -> None:
    """What a client behind a load balancer sees: each query goes to any gateway."""
    index = 0
    while True:
        answer = await rng.choice(gateways).get(f"{PAGES[0]}?index={index}&wait=30s")
        if answer.status == 200:
            entries = answer.json
            seen.append((answer.index, entries[0]["Service"]["Meta"].get("v", "") if entries else ""))
            index = answer.index


@pytest.mark.parametrize("seed", range(4))
def test_between_gateways_and_over_deaths_of_leaders_no_index_falls_and_no_change_is_missed(seed: int) -> None:
    async def scenario(trial: Trial) -> None:
        rng, seen = random.Random(seed), [(0, "")]
        gateways = [await trial.gateway() for _ in range(3)]
        watching = asyncio.ensure_future(watch(gateways, rng, seen))
        for version in range(12):
            if version % 4 == 2:
                victim = rng.choice(["data-1", "data-2", "data-3"])
                trial.cluster.kill(victim)
                await asyncio.sleep(6)
                await trial.cluster.start(victim)
                await trial.cluster.ready()
                gateways[0] = await trial.gateway()
            writer = rng.choice(gateways)
            while True:
                body = {"Name": "web", "Address": "10.0.0.1", "Meta": {"v": str(version)}, "Check": {"TTL": "120s"}}
                if (await writer.put("/v1/agent/service/register", body)).status == 200:
                    break
            await trial.cluster.until(lambda version=version: seen[-1][1] == str(version), "seen", 2)  # type: ignore[misc]
            await asyncio.sleep(rng.choice([0, 0.01, 3, 40]))
        watching.cancel()
        indexes = [index for index, _ in seen]
        assert indexes == sorted(indexes)

    play(scenario, seed)


def test_the_index_does_not_fall_when_everything_starts_again() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", Check=None)
        before = await gateway.get(PAGES[0])
        names = list(trial.cluster.servers)
        for name in names:
            trial.cluster.kill(name)
        await asyncio.sleep(5)
        for name in names:
            await trial.cluster.start(name)
        await trial.cluster.ready(60)
        other = await trial.gateway()
        for one in (gateway, other):
            await one.register("web", Check=None)
            after = await one.get(PAGES[0])
            assert after.index >= before.index
            assert len(after.json) == 1

    play(scenario)


@pytest.mark.parametrize("page", PAGES)
def test_an_index_of_another_cluster_is_waited_for_once_and_then_it_is_ours(page: str) -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", Check=None)
        ours = (await gateway.get(page)).index
        answer = await gateway.get(f"{page}?index={ours + 2**33}&wait=10s")
        assert (answer.index, answer.seconds >= 10) == (ours, True)
        waiting = asyncio.ensure_future(gateway.get(f"{page}?index={answer.index}&wait=60s"))
        await asyncio.sleep(5)
        await gateway.register("web", Check=None, Tags=["new"])
        assert (await waiting).seconds < 6

    play(scenario)
