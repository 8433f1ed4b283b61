"""Whole clusters on virtual time: what clients see while servers and clients come and go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest
from slotreeve.errors import ModelError, RegistrationError
from slotreeve_client import Client, ClientState, Publication, Scope, Subscription
from slotreeve_conformance.simulated import simulated
from slotreeve_simulator.simulated_cluster import SimulatedCluster


class View:
    """All that one subscriber ever saw of some services: number of providers, and the fewest after the first push."""

    def __init__(self, client: Client, services: Iterable[str], scope: Scope = Scope.DATA_CENTER) -> None:
        self.fewest: dict[str, int] = {}
        self.updates = 0
        self.subscriptions = [client.subscribe(service, self._changed, scope) for service in services]

    def _changed(self, subscription: Subscription) -> None:
        self.updates += 1
        count = len(subscription.instances)
        service = subscription.data_info_id
        self.fewest[service] = min(self.fewest.get(service, count), count)

    async def ready(self) -> None:
        await asyncio.gather(*(subscription.ready() for subscription in self.subscriptions))
        self.forget()

    def forget(self) -> None:
        """Count the fewest from now on."""
        self.fewest = {s.data_info_id: len(s.instances) for s in self.subscriptions}

    def data(self) -> dict[str, list[str]]:
        """What is seen now, by data id."""
        return {
            s.data_info_id.partition("#")[0]: sorted(i.data[0].decode() for i in s.instances)
            for s in self.subscriptions
        }


SERVICES = [f"com.example.Service{number}" for number in range(40)]


async def published(cluster: SimulatedCluster, client: Client) -> list[Publication]:
    publications = [client.publish(service, f"{service}@1") for service in SERVICES]
    await client.flush()
    return publications


async def watched(cluster: SimulatedCluster, *sessions: str) -> tuple[Client, Client, list[Publication], View]:
    """A provider (a process called so) of all services and a consumer that sees them; each at its own session server
    where ``sessions`` names two."""
    provider = cluster.client(*sessions[:1], name="provider")
    consumer = cluster.client(*sessions[1:])
    publications = await published(cluster, provider)
    view = View(consumer, SERVICES)
    await view.ready()
    return provider, consumer, publications, view


def expected(publications: Iterable[Publication]) -> dict[str, list[str]]:
    seen: dict[str, list[str]] = {service: [] for service in SERVICES}
    for publication in publications:
        if publication.data is not None:
            seen[publication.data_info_id.partition("#")[0]].append(publication.data[0].decode())
    return {service: sorted(data) for service, data in seen.items()}


@simulated
async def test_subscribers_see_what_is_published_republished_and_unpublished(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider, consumer = cluster.client("session-1"), cluster.client("session-2")
        view = View(consumer, SERVICES)
        await view.ready()
        publications = await published(cluster, provider)
        await cluster.until(lambda: view.data() == expected(publications), "all published data are seen", 0.1)
        publications[3].republish("elsewhere")
        publications[5].unpublish()
        await cluster.until(lambda: view.data() == expected(publications), "the changes are seen", 0.1)
        assert view.data()[SERVICES[5]] == []
        assert dict(await consumer.list()) == {p.data_info_id: 1 for p in publications if p.data is not None}
        assert [i.data for i in await consumer.get(SERVICES[3])] == [(b"elsewhere",)]


@simulated
async def test_the_first_change_of_a_quiet_service_leaves_at_once_and_later_ones_coalesce(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider, consumer = cluster.client(), cluster.client()
        publication = provider.publish("quiet", "0")
        view = View(consumer, ["quiet"])
        await view.ready()
        await asyncio.sleep(5)
        publication.republish("1")
        assert await cluster.until(lambda: view.data()["quiet"] == ["1"], "the change is seen") <= 0.01
        before = view.updates
        for number in range(1000):
            publication.republish(f"burst {number}")
            await asyncio.sleep(0.0001)
        await cluster.until(lambda: view.data()["quiet"] == ["burst 999"], "the newest is seen", 1.0)
        assert view.updates - before < 200


@simulated
async def test_scope_zone_shows_only_the_providers_in_the_session_servers_zone(rng: random.Random) -> None:
    async with SimulatedCluster(rng, session=0) as cluster:
        await cluster.start("session-1", node__zone="east")
        await cluster.ready()
        provider, consumer = cluster.client("session-1"), cluster.client("session-1")
        provider.publish("s", "near", zone="east")
        provider.publish("s", "far", zone="west")
        near, everywhere = View(consumer, ["s"], Scope.ZONE), View(consumer, ["s"])
        await near.ready()
        await everywhere.ready()
        await cluster.until(lambda: everywhere.data()["s"] == ["far", "near"], "all are seen")
        assert near.data()["s"] == ["near"]
        await provider.leases.register("s", "moving", "moves", zone="east")
        await cluster.until(lambda: near.data()["s"] == ["moves", "near"], "the lease is seen in its zone")
        await provider.leases.register("s", "moving", "moves", zone="west")
        await cluster.until(lambda: near.data()["s"] == ["near"], "the lease has left the zone")
        assert everywhere.data()["s"] == ["far", "moves", "near"]


@simulated
async def test_a_killed_data_server_is_replaced_within_two_seconds_and_nobody_sees_less(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        _provider, consumer, publications, view = await watched(cluster)
        cluster.kill("data-2")
        loop = asyncio.get_running_loop()
        began = loop.time()
        answers = await asyncio.gather(*(consumer.get(service) for service in SERVICES))
        assert loop.time() - began < 2
        assert all(len(answer) == 1 for answer in answers)
        publications[0].republish("after")
        await cluster.until(lambda: view.data() == expected(publications), "the change is seen")
        await cluster.ready()
        assert min(view.fewest.values()) == 1


@simulated
async def test_a_killed_session_servers_clients_go_on_elsewhere_and_nobody_sees_less(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        _provider, _consumer, publications, view = await watched(cluster, "session-1", "session-2")
        cluster.kill("session-1")
        await asyncio.sleep(0.001)
        publications[0].republish("while there is no connection")
        took = await cluster.until(lambda: view.data() == expected(publications), "the change is seen")
        assert took < 1
        await asyncio.sleep(10)
        assert view.data() == expected(publications)
        assert min(view.fewest.values()) == 1


@simulated
async def test_a_session_server_that_dies_with_its_clients_takes_their_providers_along(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        _provider, _consumer, _, view = await watched(cluster, "session-1", "session-2")
        cluster.kill("provider")
        cluster.kill("session-1")
        await cluster.until(lambda: not any(view.data().values()), "all providers are gone", 6)


@simulated
async def test_a_killed_clients_providers_are_gone_within_half_a_second(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider, other, consumer = cluster.client(name="provider"), cluster.client(), cluster.client()
        await published(cluster, provider)
        theirs = await published(cluster, other)
        view = View(consumer, SERVICES)
        await view.ready()
        cluster.kill("provider")
        assert await cluster.until(lambda: view.data() == expected(theirs), "the client's are gone") < 0.5


@simulated
async def test_a_frozen_client_is_dropped_when_its_lease_ends_and_returns_when_it_thaws(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        _provider, _consumer, publications, view = await watched(cluster)
        cluster.freeze("provider")
        took = await cluster.until(lambda: not any(view.data().values()), "all are gone")
        assert 5 < took < 14
        cluster.thaw("provider")
        await cluster.until(lambda: view.data() == expected(publications), "all are back")


@simulated
async def test_a_client_whose_connection_is_cut_comes_back_before_anybody_notices(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider, _consumer, publications, view = await watched(cluster, "session-1", "session-2")
        for number in range(5):
            assert cluster.network.cut("provider", "session-1") + cluster.network.cut("provider", "session-2") == 1
            await cluster.until(lambda: provider.state is ClientState.CONNECTED, "it is connected again", 0.5)
            publications[number].republish(f"round {number}")
            await asyncio.sleep(3)
        assert view.data() == expected(publications)
        assert min(view.fewest.values()) == 1


@simulated
async def test_a_goodbye_removes_providers_at_once(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider, _consumer, _, view = await watched(cluster)
        await provider.close()
        assert await cluster.until(lambda: not any(view.data().values()), "all are gone") < 0.1


@simulated
async def test_another_meta_leader_goes_on_with_the_same_table(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        _provider, _consumer, publications, view = await watched(cluster)
        before, former = cluster.views()[0], cluster.leader
        assert former is not None
        cluster.kill(former)
        publications[0].republish("without a leader")
        assert await cluster.until(lambda: cluster.leader not in (None, former), "another leads") < 0.5
        await asyncio.sleep(5)
        assert cluster.views()[0].table == before.table
        await cluster.start("data-9")
        await cluster.ready()
        after = cluster.views()[0]
        assert after.table.epoch > before.table.epoch
        assert after.term > before.term
        assert any(slot.leader == "data-9" for slot in after.table.slots)
        assert view.data() == expected(publications)
        assert min(view.fewest.values()) == 1


@simulated
async def test_a_new_data_server_gets_its_share_and_nobody_sees_less(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        _provider, _consumer, publications, view = await watched(cluster)
        await cluster.start("data-4")
        await cluster.until(
            lambda: any(row.leader == "data-4" for row in cluster.views()[0].table.slots), "data-4 leads slots", 60
        )
        await cluster.ready()
        for publication in publications:
            publication.republish("anew")
        await cluster.until(lambda: view.data() == expected(publications), "the changes are seen")
        assert min(view.fewest.values()) == 1


@simulated
async def test_a_restarted_data_server_is_filled_anew(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        _provider, consumer, publications, view = await watched(cluster)
        cluster.kill("data-1")
        await cluster.start("data-1")
        await cluster.ready()
        assert all(len(answer) == 1 for answer in [await consumer.get(service) for service in SERVICES])
        assert view.data() == expected(publications)
        assert min(view.fewest.values()) == 1


@simulated
async def test_when_every_data_server_died_the_sessions_bring_everything_back(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        _provider, consumer, publications, view = await watched(cluster)
        names = ["data-1", "data-2", "data-3"]
        for name in names:
            cluster.kill(name)
        await asyncio.sleep(2)
        publications[0].republish("while nobody holds it")
        for name in names:
            await cluster.start(name)
        await cluster.until(lambda: view.data() == expected(publications), "all is seen")
        await cluster.ready()
        assert all(len(answer) == 1 for answer in [await consumer.get(service) for service in SERVICES])
        assert min(view.fewest.values()) == 1


@simulated
async def test_a_cluster_whose_meta_servers_all_restarted_goes_on_from_their_disks(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        _provider, _consumer, publications, view = await watched(cluster)
        before = cluster.views()[0]
        metas = ["meta-1", "meta-2", "meta-3"]
        for name in metas:
            cluster.kill(name)
        publications[0].republish("without any meta server")
        await cluster.until(lambda: view.data() == expected(publications), "the change is seen")
        for name in metas:
            await cluster.start(name)
        await cluster.until(lambda: cluster.leader is not None, "one leads")
        await asyncio.sleep(5)
        assert cluster.views()[0].table == before.table
        cluster.kill("data-1")
        await cluster.ready()
        after = cluster.views()[0]
        assert after.term > before.term
        assert after.revision > before.revision
        assert after.table.epoch > before.table.epoch
        assert view.data() == expected(publications)
        assert min(view.fewest.values()) == 1


@simulated
async def test_an_orderly_stop_of_a_data_server_is_known_at_once(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider = cluster.client()
        await published(cluster, provider)
        await cluster.stop("data-3")
        assert await cluster.ready() < 1


@simulated
async def test_a_server_whose_wall_clock_is_wrong_changes_nothing(rng: random.Random) -> None:
    """Facts of the original: a replay through a session server with a slower clock loses."""
    async with SimulatedCluster(rng) as cluster:
        provider, consumer, publications, view = await watched(cluster, "session-1", "session-2")
        cluster.kill("session-1")
        await cluster.start("session-1", wall_skew_ms=-3_600_000)
        cluster.kill("session-2")
        await cluster.until(lambda: provider.state is consumer.state is ClientState.CONNECTED, "both are back")
        publications[1].republish("after two moves")
        await cluster.until(lambda: view.data() == expected(publications), "the change is seen")
        await asyncio.sleep(15)
        assert view.data() == expected(publications)


@simulated
async def test_many_random_deaths_and_changes_end_in_exactly_what_is_published(rng: random.Random) -> None:
    async with SimulatedCluster(rng, data=4, session=3) as cluster:
        providers = [cluster.client(name=f"provider-{number}") for number in range(3)]
        consumer = cluster.client()
        publications = [p for provider in providers for p in await published(cluster, provider)]
        view = View(consumer, SERVICES)
        await view.ready()
        for _ in range(12):
            for publication in rng.sample(publications, 20):
                if publication.data is not None:
                    publication.republish(f"{rng.random()}") if rng.random() < 0.9 else publication.unpublish()
            publications.append(rng.choice(providers).publish(rng.choice(SERVICES), f"{rng.random()}"))
            victim = rng.choice(["data", "session", "meta"])
            name = rng.choice([name for name in cluster.servers if name.startswith(victim)])
            cluster.kill(name)
            await asyncio.sleep(rng.uniform(0, 3))
            await cluster.start(name)
            if rng.random() < 0.5:
                await cluster.ready(60)
        await cluster.ready(60)
        await asyncio.gather(*(provider.flush() for provider in providers))
        await cluster.until(lambda: view.data() == expected(publications), "all that is published is seen", 10)
        counts = await consumer.list()
        live = [p.data_info_id for p in publications if p.data is not None]
        assert dict(counts) == {service: live.count(service) for service in set(live)}


@simulated
async def test_many_large_payloads_go_through_in_messages_of_a_bounded_size(rng: random.Random) -> None:
    async with SimulatedCluster(rng, settings={"cluster.slots": 1}) as cluster:
        provider, consumer = cluster.client(), cluster.client()
        publications = [provider.publish(f"large-{number}", bytes([number]) * 1_000_000) for number in range(60)]
        await provider.flush()
        assert (await consumer.get("large-7"))[0].data == (b"\7" * 1_000_000,)
        cluster.kill("data-1")
        cluster.kill(next(name for name in ("session-1", "session-2") if provider.server == cluster.address(name)))
        await cluster.start("data-1")
        await cluster.ready(60)
        await provider.flush()
        for number, publication in enumerate(publications):
            assert (await consumer.get(publication.data_info_id))[0].data == (bytes([number]) * 1_000_000,)


@simulated
async def test_more_than_a_registration_may_publish_is_refused_at_once(rng: random.Random) -> None:
    async with SimulatedCluster(rng) as cluster:
        provider = cluster.client()
        with pytest.raises(ModelError, match="1048577 bytes, in 1 parts, are too many"):
            provider.publish("s", b"x" * (2**20 + 1))
        publication = provider.publish("s", b"x" * 2**20)
        await publication.acknowledged()


@simulated
async def test_a_version_that_is_refused_leaves_a_registration_that_can_be_replaced_and_ended(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, session=1, settings={"session.most_megabytes": 1}) as cluster:
        provider, watcher = cluster.client(name="provider"), cluster.client(name="watcher")
        seen = watcher.subscribe("com.example.A")

        def shown() -> list[tuple[bytes, ...]]:
            return [each.data for each in seen.instances]

        publication = provider.publish("com.example.A", "old")
        await provider.flush()
        for _ in range(2):
            publication.republish(bytes(1 << 20))
            with pytest.raises(RegistrationError, match="a client may have 1 MiB of payloads"):
                await publication.acknowledged()
            with pytest.raises(RegistrationError):
                await publication.acknowledged()
        await cluster.until(lambda: shown() == [(b"old",)], "what was refused changes nothing", 10)
        publication.republish("new")
        await publication.acknowledged()
        await cluster.until(lambda: shown() == [(b"new",)], "it was replaced", 10)
        publication.republish(bytes(1 << 20))
        with pytest.raises(RegistrationError):
            await publication.acknowledged()
        publication.unpublish()
        await cluster.until(lambda: shown() == [], "it was ended", 10)
