"""Whole clusters on virtual time: slot leaders that do not reach every session server, or nobody."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve.errors import RequestTimeout
from slotreeve_client import Client, Subscription
from slotreeve_conformance.simulated import simulated
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.simulated_cluster import SimulatedCluster

SERVICES = [f"com.example.Service{number}" for number in range(40)]
DATA = ["data-1", "data-2", "data-3"]


class Watcher:
    """Sees one provider of each service at first; notes the fewest that it ever sees."""

    def __init__(self, client: Client) -> None:
        self.fewest = 1
        self._client = client
        self._subscriptions = [client.subscribe(service, self._changed) for service in SERVICES]

    async def begin(self) -> None:
        for subscription in self._subscriptions:
            await subscription.ready()
            assert len(subscription.instances) == 1

    def _changed(self, subscription: Subscription) -> None:
        self.fewest = min(self.fewest, len(subscription.instances))

    @property
    def now(self) -> int:
        return sum(len(subscription.instances) for subscription in self._subscriptions)

    async def reads(self) -> int:
        return sum([len(await self._client.get(service)) for service in SERVICES])


async def watched(cluster: SimulatedCluster, *sessions: str) -> tuple[Client, Watcher]:
    """A provider of every service, at the first of ``sessions`` for now, and a watcher at the second."""
    provider = cluster.client(name="provider")
    for service in SERVICES:
        provider.publish(service, "here")
    await provider.flush()
    while provider.server != cluster.address(sessions[0]):
        for session in cluster.names:
            if session.startswith("session-") and provider.server == cluster.address(session):
                cluster.network.cut("provider", session)
        await asyncio.sleep(0.1)
        await cluster.until(lambda: provider.server, "the provider is connected")
    await provider.flush()
    watcher = Watcher(cluster.client(sessions[1]))
    await watcher.begin()
    return provider, watcher


@simulated
async def test_who_comes_back_where_the_slot_leaders_hear_of_it_late_is_never_seen_to_go(rng: random.Random) -> None:
    """Found by simulation: the old session server's word that the client left overtook the new one's replay."""
    async with SimulatedCluster(rng) as cluster:
        provider, watcher = await watched(cluster, "session-1", "session-1")
        cluster.network.partition(["session-2"], DATA)
        cluster.network.cut("provider", "session-1")
        await cluster.until(lambda: provider.server == cluster.address("session-2"), "it is at session-2")
        await asyncio.sleep(1.5)
        cluster.network.heal()
        await provider.flush()
        await asyncio.sleep(5)
        assert watcher.fewest == 1
        assert watcher.now == await watcher.reads() == len(SERVICES)


@simulated
async def test_who_has_gone_goes_although_a_session_server_is_not_heard(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider, watcher = await watched(cluster, "session-1", "session-1")
        cluster.network.partition(["session-2"], DATA)
        await provider.close()
        await asyncio.sleep(1)
        assert watcher.now == len(SERVICES)
        await cluster.until(lambda: not watcher.now, "all are gone", 3)


@simulated
async def test_one_session_server_that_never_answers_holds_a_slot_up_for_a_while_only(rng: random.Random) -> None:
    async with SimulatedCluster(rng, session=3, settings={"data.emergency_seconds": 10}) as cluster:
        _, watcher = await watched(cluster, "session-1", "session-2")
        cluster.network.partition(["session-3"], DATA)
        cluster.kill("data-1")
        await asyncio.sleep(8)
        unserved = [cluster.data(name).counters()["slots_unsettled"] for name in DATA[1:]]
        assert any(unserved)
        await asyncio.sleep(4)
        assert not any(cluster.data(name).counters()["slots_unsettled"] for name in DATA[1:])
        assert sum(cluster.data(name).counters()["slots_served_incomplete"] for name in DATA[1:]) == sum(unserved)
        assert watcher.fewest == 1
        assert await watcher.reads() == len(SERVICES)
        await asyncio.sleep(12)  # a slot that moved meanwhile would not be served by its new leader
        assert not any(cluster.data(name).counters()["slots_unsettled"] for name in DATA[1:])
        assert any(cluster.data(name).core.holdings().unsettled for name in DATA[1:]), "nothing may move them yet"
        cluster.network.heal()
        await cluster.until(
            lambda: not any(cluster.data(name).core.holdings().unsettled for name in DATA[1:]),
            "the slots may be moved again",
            10,
        )


@simulated
async def test_two_session_servers_that_never_answer_hold_a_slot_up_for_ever(rng: random.Random) -> None:
    async with SimulatedCluster(rng, session=3, settings={"data.emergency_seconds": 10}) as cluster:
        _, watcher = await watched(cluster, "session-1", "session-1")
        cluster.network.partition(["session-2", "session-3"], DATA)
        cluster.kill("data-1")
        await asyncio.sleep(1)
        with pytest.raises(RequestTimeout):
            await cluster.until(
                lambda: not any(cluster.data(name).counters()["slots_unsettled"] for name in DATA[1:]), "served", 30
            )
        assert watcher.fewest == 1


@simulated
async def test_a_meta_leader_that_was_cut_off_from_everybody_does_not_take_them_for_dead(rng: random.Random) -> None:
    """Found by chaos: whoever came back first was given all slots, and served them before it knew of any session."""
    async with SimulatedCluster(rng, meta=1) as cluster:
        _, watcher = await watched(cluster, "session-1", "session-2")
        before = cluster.views()[0]
        others = [name for name in cluster.servers if name != "meta-1"]
        for name in others:
            cluster.network.cut(name, "meta-1")
        cluster.network.partition(["meta-1"], others)
        await asyncio.sleep(1.5)
        cluster.network.heal()
        await asyncio.sleep(5)
        assert cluster.views()[0].table == before.table
        assert watcher.fewest == 1
        assert watcher.now == len(SERVICES)


@simulated
async def test_a_slot_leader_compares_with_connected_sessions_that_are_no_members_before_it_serves(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng) as cluster:
        _, watcher = await watched(cluster, "session-1", "session-2")
        cluster.network.partition(["session-1"], ["meta-1", "meta-2", "meta-3"])
        lost = next(n.process_id for n in cluster.views()[0].sessions if n.name == "session-1")
        await cluster.until(
            lambda: lost not in {node.process_id for node in cluster.session("session-2").view.sessions}, "it has left"
        )
        cluster.kill("data-1")
        await asyncio.sleep(2)
        assert watcher.fewest == 1
        assert watcher.now == len(SERVICES)
        cluster.network.heal()
        await cluster.start("data-1")
        await cluster.ready(60)
        assert watcher.fewest == 1


def test_a_session_server_that_has_stopped_sends_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, settings={"session.drain_seconds": 0}) as cluster:
            provider, watcher = await watched(cluster, "session-1", "session-2")
            cluster.network.partition(["session-1"], DATA)
            for service in SERVICES:
                provider.publish(service, "more")
            await asyncio.sleep(0.2)
            assert cluster.session("session-1").core.writes.waiting
            await cluster.stop("session-1")
            await asyncio.sleep(1)
            caplog.clear()
            await asyncio.sleep(10)
            assert [record for record in caplog.records if record.name == "slotreeve.writes"] == []
            cluster.network.heal()
            await provider.flush()
            await cluster.until(lambda: watcher.now == 2 * len(SERVICES), "the other session server has taken over")

    run(scenario, 1)
