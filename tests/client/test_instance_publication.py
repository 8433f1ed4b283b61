"""Registered instances, on a simulated cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from slotreeve.errors import ClientClosed, Forbidden, ModelError, RegistrationError
from slotreeve_client import Health, Instance
from slotreeve_client.administration import change_overrides
from slotreeve_client.instance_publication import InstancePublication
from slotreeve_conformance import virtual_time
from slotreeve_protocol.client_messages import Published, Rejected
from slotreeve_protocol.envelope import decode_instance, encode_instance
from slotreeve_protocol.overrides import Override
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.client.core_scene import Shell

S = "com.example.S"


def on_a_cluster(story: Callable[[SimulatedCluster], Awaitable[None]]) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2) as cluster:
            await story(cluster)

    virtual_time.run(scenario, seed=5)


def test_a_registered_instance_is_seen_typed_and_each_change_of_it() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        consumer = cluster.client()
        watched = consumer.subscribe(S)
        registered = cluster.client(zone="east").register(S, Instance("10.0.0.1", 80, tags=("blue",)))
        await registered.acknowledged()
        assert registered.is_acknowledged
        [provider] = await consumer.get(S)
        assert provider.instance == registered.instance == Instance("10.0.0.1", 80, zone="east", tags=("blue",))
        assert (provider.zone, provider.register_id) == ("east", registered.register_id)
        assert decode_instance(provider.data) == provider.instance
        registered.set_health(Health.CRITICAL, "the database is away")
        registered.update(weight=7, enabled=False)
        wanted = registered.instance
        assert (wanted.health, wanted.health_note) == (Health.CRITICAL, "the database is away")
        await cluster.until(lambda: [p.instance for p in watched.instances] == [wanted], "the change is seen")
        changes = watched.changes
        registered.unpublish()
        await cluster.until(lambda: not watched.instances, "its end is seen")
        assert watched.changes == changes + 1

    on_a_cluster(story)


def test_a_change_that_changes_nothing_sends_nothing() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        registered = cluster.client().register(S, Instance("10.0.0.1", 80))
        for _ in range(3):
            registered.set_health(Health.PASSING)
        assert registered.publication.version == 1
        with pytest.raises(ModelError, match="weight is -1"):
            registered.update(weight=-1)
        assert (registered.publication.version, registered.instance.weight) == (1, 100)
        with pytest.raises(ModelError, match="takes 20155 bytes"):
            registered.update(metadata={str(n): "x" * 1000 for n in range(20)})
        assert (registered.publication.version, registered.instance.metadata) == (1, {})

    on_a_cluster(story)


def test_an_instance_that_ended_cannot_be_changed_also_not_to_what_it_is() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        client = cluster.client(zone="east")
        ended = client.register(S, Instance("10.0.0.1", 80, zone="west"))
        assert (ended.instance.zone, ended.publication.zone) == ("west", "west")
        assert ended.data_info_id.startswith(S)
        ended.unpublish()
        with pytest.raises(RegistrationError, match="was unpublished"):
            ended.set_health(Health.PASSING)
        with pytest.raises(RegistrationError, match="was unpublished"):
            ended.unpublish()
        closed = client.register(S, Instance("10.0.0.2", 80))
        await client.close()
        with pytest.raises(ClientClosed):
            closed.set_health(Health.PASSING)
        with pytest.raises(ClientClosed):
            client.register(S, Instance("10.0.0.3", 80))

    on_a_cluster(story)


def test_a_change_that_is_refused_is_taken_back_and_the_instance_stays_at_the_next_server_too() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2, settings={"session.most_megabytes": 1}) as cluster:
            client = cluster.client("session-1", "session-2")
            watched = cluster.client("session-2").subscribe(S)

            def seen() -> list[Instance | None]:
                return [provider.instance for provider in watched.instances]

            for size in (41_000, 500_000, 500_000):
                client.publish("com.example.Large", b"b" * size)
            registered = client.register(S, Instance("10.0.0.1", 80))
            await client.flush()
            registered.update(metadata={str(n): "v" * 1000 for n in range(13)})
            with pytest.raises(RegistrationError, match="a client may have 1 MiB of payloads"):
                await registered.acknowledged()
            assert registered.instance == Instance("10.0.0.1", 80)
            cluster.kill("session-1")
            await asyncio.sleep(60)
            assert seen() == [registered.instance]
            registered.set_health(Health.CRITICAL, "the disk is full")
            await registered.acknowledged()
            await cluster.until(lambda: seen() == [registered.instance], "the change after it is seen")
            assert registered.instance == Instance(
                "10.0.0.1", 80, health=Health.CRITICAL, health_note="the disk is full"
            )

    virtual_time.run(scenario, seed=5)


def test_a_client_at_its_limit_of_subscriptions_sees_what_the_operator_overrides() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2, settings={"session.most_subscriptions": 1}) as cluster:
            provider, client = cluster.client(), cluster.client()
            registered = provider.register(S, Instance("10.0.0.1", 80))
            await provider.flush()
            operator = cluster.transport("operator", of="session-1")
            await change_overrides(
                operator,
                "slotreeve",
                [cluster.address("meta-1")],
                lambda overrides: overrides.changed(registered.data_info_id, "10.0.0.1:80", Override(enabled=False)),
            )
            watched = client.subscribe(S)
            await watched.ready()
            for found in (watched.instances, await client.get(S)):
                assert [one.instance and one.instance.enabled for one in found] == [False]
            assert cluster.session("session-1").counters()["limits_hit"] == 0
            with pytest.raises(RegistrationError, match="1 subscriptions"):
                await client.subscribe("com.example.Another").ready()

    virtual_time.run(scenario, seed=5)


def test_bytes_and_instances_of_one_service_live_beside_each_other() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        client = cluster.client()
        plain = client.publish(S, "10.0.0.1:80")
        typed: InstancePublication = client.register(S, Instance("10.0.0.2", 80))
        await client.flush()
        found = {p.register_id: p.instance for p in await client.get(S)}
        assert found == {plain.register_id: None, typed.register_id: typed.instance}

    on_a_cluster(story)


def test_an_update_to_what_the_registry_holds_after_a_refusal_takes_the_refusal_back() -> None:
    shell = Shell()
    shell.connect(1)
    instance = Instance("10.0.0.1", 80, weight=5)
    registered = InstancePublication(shell.core.publish("a", (encode_instance(instance),), ""), instance)

    def answer(rejected: bool = False) -> None:
        ((sequence, _),) = shell.records()
        shell.core.received(Rejected(sequence, Forbidden.code, "no") if rejected else Published([sequence]))

    answer()
    registered.update(weight=9)
    answer(rejected=True)
    answer()
    assert (registered.instance.weight, registered.is_acknowledged) == (5, False)
    registered.update(weight=5)
    answer()
    assert registered.is_acknowledged
