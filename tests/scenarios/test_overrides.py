"""The operator's overrides of instances: apart from what providers say, and there whatever dies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from slotreeve.errors import ModelError
from slotreeve.model.data_info import DataInfo
from slotreeve_client import Filter, Instance, Provider, Subscription
from slotreeve_client.administration import change_overrides, put_config
from slotreeve_conformance.simulated import seeds
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.overrides import OVERRIDES_KEY, Override, Overrides
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

S = DataInfo.parse("com.example.S").id
EVERYTHING = ["meta-1", "meta-2", "meta-3", "session-1", "session-2", "data-1", "data-2", "data-3"]
DRAINED = Override(drain=True)


class Operator:
    """Overrides as the command line does, from a process of its own."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.transport = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
        self.metas = [cluster.address(f"meta-{number}") for number in (1, 2, 3)]

    async def override(self, instance_id: str, override: Override | None) -> None:
        await change_overrides(self.transport, "slotreeve", self.metas, lambda o: o.changed(S, instance_id, override))

    async def all(self) -> Overrides:
        return (await change_overrides(self.transport, "slotreeve", self.metas, lambda overrides: overrides))[1]


def on_a_cluster(story: Callable[[SimulatedCluster, Operator], Awaitable[None]], seed: int = 5) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            await story(cluster, Operator(cluster))

    run(scenario, seed)


def weights(providers: tuple[Provider, ...]) -> list[tuple[int, int]]:
    """What subscribers see, and what the provider said."""
    return [(p.instance.weight, p.said.weight) for p in providers if p.instance is not None and p.said is not None]


def test_an_override_is_seen_by_subscribers_and_readers_and_its_end_too() -> None:
    async def story(cluster: SimulatedCluster, operator: Operator) -> None:
        consumer = cluster.client()
        watched = consumer.subscribe(S)
        registered = cluster.client().register(S, Instance("10.0.0.1", 80))
        await registered.acknowledged()
        await cluster.until(lambda: weights(watched.instances) == [(100, 100)], "it is seen")
        enabled = watched.select(Filter(enabled_only=True))
        await operator.override("10.0.0.1:80", Override(weight=7, enabled=False))
        await cluster.until(lambda: weights(watched.instances) == [(7, 100)], "the override is seen")
        assert enabled.instances == ()
        assert weights(await consumer.get(S)) == weights(await cluster.client().get(S)) == [(7, 100)]
        registered.update(weight=50)
        await cluster.until(lambda: weights(watched.instances) == [(7, 50)], "what the provider says now is seen")
        await operator.override("10.0.0.1:80", None)
        await cluster.until(lambda: weights(watched.instances) == [(50, 50)], "the end of the override is seen")
        assert len(enabled.instances) == 1
        assert (await operator.all()).count == 0

    on_a_cluster(story)


def test_a_provider_that_registers_again_meets_the_same_override_and_is_never_seen_without_it() -> None:
    async def story(cluster: SimulatedCluster, operator: Operator) -> None:
        await operator.override("10.0.0.1:80", DRAINED)
        seen: list[list[tuple[int, int]]] = []

        def changed(subscription: Subscription) -> None:
            seen.append(weights(subscription.instances))

        await cluster.client().subscribe(S, changed).ready()
        assert seen == [[]]
        register_ids = []
        for _ in range(3):
            async with cluster.client() as provider:
                registered = provider.register(S, Instance("10.0.0.1", 80))
                register_ids.append(registered.register_id)
                await cluster.until(lambda: seen[-1:] == [[(0, 100)]], "it is seen drained")
                late = cluster.client().subscribe(S, changed)
                await late.ready()
                assert weights(late.instances) == [(0, 100)]
            await cluster.until(lambda: seen[-1:] == [[]], "it has gone")
        assert len(set(register_ids)) == 3
        assert [] in seen
        assert {entry for entries in seen for entry in entries} == {(0, 100)}
        assert (await operator.all()).of(S) == {"10.0.0.1:80": DRAINED}, "it stays without an instance"

    on_a_cluster(story)


@pytest.mark.parametrize("seed", seeds(1))
def test_it_survives_session_servers_meta_leaders_and_all_processes(seed: int) -> None:
    async def story(cluster: SimulatedCluster, operator: Operator) -> None:
        provider, consumer = cluster.client("session-1"), cluster.client("session-2")
        provider.register(S, Instance("10.0.0.1", 80))
        watched = consumer.subscribe(S)
        weight = 0
        for _ in range(3):
            weight += 1
            await operator.override("10.0.0.1:80", Override(weight=weight))
            leader = cluster.leader
            assert leader is not None
            cluster.kill(leader)
            await cluster.until(lambda: cluster.leader not in (None, leader), "another leads")  # noqa: B023
            assert (await operator.all()).of(S) == {"10.0.0.1:80": Override(weight=weight)}
            await cluster.start(leader)
            for session in ("session-1", "session-2"):
                cluster.kill(session)
                await cluster.start(session)
            wanted = [(weight, 100)]
            await cluster.until(lambda: weights(watched.instances) == wanted, "it is seen", 20)  # noqa: B023
        for name in EVERYTHING:
            cluster.kill(name)
        for name in EVERYTHING:
            await cluster.start(name)
        await cluster.ready(60)
        late = cluster.client().subscribe(S)
        await cluster.until(lambda: weights(late.instances) == [(weight, 100)], "a newcomer sees it", 60)
        assert weights(watched.instances) == [(weight, 100)]

    on_a_cluster(story, seed)


def test_overrides_that_cannot_be_read_leave_those_before_them_in_force(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: SimulatedCluster, operator: Operator) -> None:
        cluster.client().register(S, Instance("10.0.0.1", 80))
        watched = cluster.client().subscribe(S)
        await operator.override("10.0.0.1:80", DRAINED)
        await cluster.until(lambda: weights(watched.instances) == [(0, 100)], "it is seen")
        await put_config(operator.transport, "slotreeve", operator.metas, OVERRIDES_KEY, b"rubbish")
        await cluster.until(lambda: "stay in force" in caplog.text, "the client has noticed")
        assert weights(watched.instances) == [(0, 100)]
        with pytest.raises(ModelError, match="slotreeve override writes it"):
            await operator.override("10.0.0.1:80", None)
        await put_config(operator.transport, "slotreeve", operator.metas, OVERRIDES_KEY, None)
        await cluster.until(lambda: weights(watched.instances) == [(100, 100)], "there is none any more")
        await operator.override("10.0.0.1:80", DRAINED)
        await cluster.until(lambda: weights(watched.instances) == [(0, 100)], "it is seen again")

    on_a_cluster(story)


def test_operators_who_write_at_once_lose_nothing() -> None:
    async def story(cluster: SimulatedCluster, operator: Operator) -> None:
        await asyncio.gather(*(operator.override(f"i-{number}", DRAINED) for number in range(5)))
        assert (await operator.all()).of(S).keys() == {f"i-{number}" for number in range(5)}

    on_a_cluster(story)
