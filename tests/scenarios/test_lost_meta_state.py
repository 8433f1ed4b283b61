"""The meta state is lost or set back while data servers, session servers and clients live on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence

import msgspec
from slotreeve_client import Client, Lease, Scope, Subscription
from slotreeve_client.administration import change_orders, change_settings, put_config
from slotreeve_conformance.simulated import simulated
from slotreeve_simulator.process_clock import ProcessClock
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.store import ELECTION, LockStore

from tests.scenarios.test_lives_and_deaths import SERVICES, expected, watched

METAS = ("meta-1", "meta-2", "meta-3")


async def all_metas_start_anew(cluster: SimulatedCluster) -> None:
    for name in METAS:
        cluster.kill(name)
        cluster.wipe(name)
    for name in METAS:
        await cluster.start(name)


async def all_but_one_start_anew(cluster: SimulatedCluster, cut_off_from: Sequence[str]) -> None:
    """All servers lose everything, but session-2, which does not reach some of them until the network is healed."""
    others = [name for name in cluster.names if name != "session-2"]
    cluster.network.partition(["session-2"], cut_off_from)
    for name in others:
        cluster.kill(name)
        cluster.wipe(name)
    for name in others:
        await cluster.start(name)


async def set_back_under_the_same_view(cluster: SimulatedCluster, older: Mapping[str, bytes]) -> None:
    """The only meta server starts with what its disk held earlier, and goes on in another era."""
    before, disk = cluster.views()[0], cluster.disk("meta-1")
    assert disk is not None
    cluster.kill("meta-1")
    disk.files = dict(older)
    await cluster.start("meta-1")
    await cluster.until(lambda: cluster.views()[0].era != before.era, "another era has begun", 60)
    await cluster.ready(60)
    assert times_set_back(cluster) == 1


def times_set_back(cluster: SimulatedCluster) -> int:
    assert cluster.leader is not None
    return cluster.meta(cluster.leader).counters()["state_set_back"]


@simulated
async def test_a_cluster_goes_on_under_a_new_meta_state_and_still_replaces_a_dead_data_server(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, meta=3, data=3, session=2) as cluster:
        provider, consumer, publications, view = await watched(cluster, "session-1", "session-2")
        await asyncio.sleep(5)
        before = cluster.views()[0]
        view.forget()
        await all_metas_start_anew(cluster)
        await cluster.until(lambda: cluster.views()[0].revision > before.revision, "there is a newer view", 60)
        await cluster.ready(60)
        after = cluster.views()[0]
        assert after.revision > before.revision
        assert after.table.epoch > before.table.epoch
        assert times_set_back(cluster) == 1
        cluster.kill("data-1")
        await cluster.ready(60)
        publications[3].republish("elsewhere")
        publications.append(provider.publish(SERVICES[0], "second"))
        await cluster.until(lambda: view.data() == expected(publications), "the changes are seen", 10)
        assert min(view.fewest.values()) == 1
        assert [i.data for i in await consumer.get(SERVICES[3])] == [(b"elsewhere",)]


@simulated
async def test_a_cluster_goes_on_under_a_meta_state_that_was_set_back(rng: random.Random) -> None:
    async with SimulatedCluster(rng, meta=1, data=3, session=2) as cluster:
        _provider, consumer, publications, view = await watched(cluster, "session-1", "session-2")
        disk = cluster.disk("meta-1")
        assert disk is not None
        older = dict(disk.files)
        cluster.kill("data-1")
        await cluster.ready(60)
        await cluster.start("data-1")
        await cluster.ready(60)
        before = cluster.views()[0]
        view.forget()
        cluster.kill("meta-1")
        disk.files = dict(older)
        await cluster.start("meta-1")
        await cluster.until(lambda: cluster.views()[0].revision > before.revision, "there is a newer view", 60)
        await cluster.ready(60)
        assert times_set_back(cluster) == 1
        cluster.kill("data-2")
        await cluster.ready(60)
        publications[3].republish("elsewhere")
        await cluster.until(lambda: view.data() == expected(publications), "the change is seen", 10)
        assert min(view.fewest.values()) == 1
        assert [i.data for i in await consumer.get(SERVICES[3])] == [(b"elsewhere",)]


@simulated
async def test_a_meta_state_that_was_set_back_under_the_same_view_is_followed_by_all(rng: random.Random) -> None:
    async with SimulatedCluster(rng, meta=1, data=2, session=2) as cluster:
        cluster.process_clock("operator")
        operator = cluster.transport("operator"), "slotreeve", [cluster.address("meta-1")]
        await put_config(*operator, "limit", b"0")
        watch = cluster.client().watch_config("limit")
        await watch.ready()
        before, disk = cluster.views()[0], cluster.disk("meta-1")
        assert disk is not None
        older = dict(disk.files)
        for number in range(5):
            await put_config(*operator, "limit", b"%d" % number)
        await change_orders(*operator, lambda orders: msgspec.structs.replace(orders, push_stopped=True))
        await asyncio.sleep(5)
        assert cluster.views()[0].revision == before.revision
        await set_back_under_the_same_view(cluster, older)
        orders = [cluster.session(name).core._orders.orders for name in ("session-1", "session-2")]
        assert not any(each.push_stopped for each in orders)
        await put_config(*operator, "limit", b"again")
        await change_orders(*operator, lambda orders: msgspec.structs.replace(orders, banned=frozenset({"session-2"})))
        await cluster.until(lambda: watch.value == b"again", "the client follows the new count", 10)
        await cluster.until(lambda: cluster.session("session-2").core._orders.is_banned, "orders are followed", 10)
        newcomer = cluster.client().watch_config("limit")
        await newcomer.ready()
        assert (newcomer.value, newcomer.version) == (b"again", watch.version)


@simulated
async def test_members_follow_a_leader_whose_terms_begin_anew_under_the_same_view(rng: random.Random) -> None:
    async with SimulatedCluster(rng, meta=1, data=2, session=2) as cluster:
        before, disk = cluster.views()[0], cluster.disk("meta-1")
        assert disk is not None
        older = dict(disk.files)
        for _ in range(4):
            cluster.kill("meta-1")
            await cluster.start("meta-1")
            await asyncio.sleep(5)
        assert cluster.views()[0].revision == before.revision
        await set_back_under_the_same_view(cluster, older)
        assert all(cluster.data(name).core.membership.leader is not None for name in ("data-1", "data-2"))


@simulated
async def test_a_cluster_whose_database_was_set_back_waits_for_the_operator_and_then_goes_on(
    rng: random.Random,
) -> None:
    cluster = SimulatedCluster(rng, meta=3, data=3, session=2, settings={"election.use": ELECTION})
    store = LockStore(ProcessClock(), random.Random(0), (0.1, 1.0))
    store.offer(cluster.catalogue)
    async with cluster:
        provider, _consumer, publications, view = await watched(cluster, "session-1", "session-2")
        set_back = store.database.back_up()
        cluster.kill("data-1")
        await cluster.ready(60)
        await cluster.start("data-1")
        await cluster.ready(60)
        await asyncio.sleep(2)  # the other meta servers read the newest changes
        before = cluster.views()[0]
        view.forget()
        set_back()
        await cluster.until(lambda: cluster.leader is None, "nobody leads", 10)
        publications.append(provider.publish(SERVICES[0], "meanwhile"))
        for _ in range(20):
            await asyncio.sleep(1)
            assert cluster.leader is None
        assert view.data() == expected(publications)
        store.database.history = "accepted"
        await cluster.until(lambda: cluster.views()[0].revision > before.revision, "there is a newer view", 60)
        assert times_set_back(cluster) == 1
        await cluster.ready(60)
        cluster.kill("data-1")
        await cluster.ready(60)
        publications[3].republish("elsewhere")
        await cluster.until(lambda: view.data() == expected(publications), "the changes are seen", 10)
        assert min(view.fewest.values()) == 1


@simulated
async def test_a_session_server_of_a_former_cluster_that_comes_back_moves_no_slot_and_loses_no_lease(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, meta=3, data=4, session=2) as cluster:
        for name in ("data-1", "data-2"):
            cluster.kill(name)
            await cluster.ready(60)
            await cluster.start(name)
            await cluster.ready(60)
        former = cluster.views()[0]
        await all_but_one_start_anew(cluster, cut_off_from=[name for name in cluster.names if name != "session-2"])
        await asyncio.sleep(20)
        before = cluster.session("session-1").view
        assert before.revision < former.revision
        client = cluster.client("session-1")
        leases = [Lease(f"com.example.w-{n}", f"w-{n}", (b"1",), ttl_seconds=3600) for n in range(100)]
        assert not (await client.leases.register_many(leases)).unanswered
        cluster.network.heal()
        await cluster.until(lambda: cluster.views()[0].revision > former.revision, "there is a newer view", 60)
        await cluster.ready(60)
        asked = {lease.service: [lease.lease_id] for lease in leases}
        found = await client.leases.renew_many(asked)
        assert (found.unknown, found.unanswered) == ({}, {})
        leaders = [row.leader for row in cluster.views()[0].table.slots]
        assert leaders == [row.leader for row in before.table.slots]


@simulated
async def test_leases_outlive_the_meta_state(rng: random.Random) -> None:
    async with SimulatedCluster(rng, meta=3, data=3, session=1) as cluster:
        client = cluster.client()
        leases = [Lease(f"com.example.w-{n}", f"w-{n}", (b"1",), ttl_seconds=3600) for n in range(100)]
        assert not (await client.leases.register_many(leases)).unanswered
        await cluster.start("data-4")
        await asyncio.sleep(30)
        await cluster.ready()
        before = cluster.views()[0]
        await all_metas_start_anew(cluster)
        await cluster.until(lambda: cluster.views()[0].revision > before.revision, "there is a newer view", 60)
        await cluster.ready(60)
        after = cluster.views()[0]
        assert [row.leader for row in after.table.slots] == [row.leader for row in before.table.slots]
        asked = {lease.service: [lease.lease_id] for lease in leases}
        assert not any((await client.leases.renew_many(asked)).unknown.values())


def one_zone_is_nearer(cluster: SimulatedCluster) -> None:
    near = {*METAS, "data-1"}
    cluster.network.delay_seconds = lambda one, other: 0.0005 if {one, other} <= near else 0.005


async def leases_of(cluster: SimulatedCluster) -> tuple[Client, list[Lease]]:
    client = cluster.client()
    leases = [Lease(f"com.example.w-{n}", f"w-{n}", (b"1",), ttl_seconds=3600) for n in range(60)]
    assert not (await client.leases.register_many(leases)).unanswered
    return client, leases


async def unknown(client: Client, leases: list[Lease]) -> int:
    found = await client.leases.renew_many({lease.service: [lease.lease_id] for lease in leases})
    assert not found.unanswered
    return sum(map(len, found.unknown.values()))


@simulated
async def test_after_the_loss_of_the_meta_state_a_data_server_that_is_heard_first_gets_nothing_of_the_others(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, meta=3, data=3, session=2) as cluster:
        one_zone_is_nearer(cluster)
        client, leases = await leases_of(cluster)
        await asyncio.sleep(1)
        await all_metas_start_anew(cluster)
        await asyncio.sleep(10)
        await cluster.ready(60)
        assert await unknown(client, leases) == 0


@simulated
async def test_meta_servers_that_were_all_cut_off_for_long_remove_nobody_who_comes_back_a_little_later(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, meta=3, data=3, session=2) as cluster:
        client, leases = await leases_of(cluster)
        others = [name for name in cluster.names if name not in METAS and name != "data-1"]
        cluster.network.partition(METAS, ["data-1", *others])
        await asyncio.sleep(13)
        assert cluster.leader is not None
        assert len(cluster.meta(cluster.leader).core.view.read().data) == 3
        cluster.network.heal()
        cluster.network.partition(METAS, others)
        await asyncio.sleep(1)
        cluster.network.heal()
        await asyncio.sleep(10)
        await cluster.ready(60)
        assert await unknown(client, leases) == 0


@simulated
async def test_where_two_data_servers_do_not_reach_each_other_others_stand_in_and_go_again(rng: random.Random) -> None:
    async with SimulatedCluster(rng, meta=1, data=4, session=1) as cluster:
        client, leases = await leases_of(cluster)
        before = cluster.views()[0].table
        apart = [row.id for row in before.slots if set(row.in_sync) == {"data-1", "data-2"}]
        assert apart
        cluster.network.partition(["data-1"], ["data-2"])
        for _ in range(30):
            await unknown(client, leases)
            await client.leases.register_many(leases[:20])
            await asyncio.sleep(1)
        meanwhile = cluster.views()[0].table
        assert all(len(row.in_sync) == 2 for row in meanwhile.slots)
        await asyncio.sleep(60)
        assert cluster.views()[0].table == meanwhile, "it comes to rest"
        cluster.network.heal()
        await asyncio.sleep(20)
        await cluster.ready(60)
        after = cluster.views()[0].table
        assert all(len(row.holders) == 2 and not row.learners for row in after.slots)
        assert await unknown(client, leases) == 0


@simulated
async def test_programs_follow_a_cluster_that_was_built_anew_on_empty_disks_after_one_that_counted_further(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, meta=1, data=2) as cluster:
        consumer, provider = cluster.client(), cluster.client()
        cluster.process_clock("operator")
        operator = cluster.transport("operator"), "slotreeve", [cluster.address("meta-1")]
        for number in range(3):
            await put_config(*operator, "limit", b"%d" % number)
        seen: list[bytes | None] = []
        subscription, watch = consumer.subscribe("a"), consumer.watch_config("limit", lambda w: seen.append(w.value))
        await asyncio.gather(subscription.ready(), watch.ready())
        for _ in range(3):
            cluster.kill("data-1")
            await cluster.ready(60)
            await cluster.start("data-1")
            await cluster.ready(60)
        publication = provider.publish("a", "old")
        await cluster.until(lambda: [i.data for i in subscription.instances] == [(b"old",)], "it is seen", 10)
        version = subscription.version
        names = list(cluster.names)
        for name in names:
            cluster.kill(name)
        await asyncio.sleep(60)
        assert [i.data for i in subscription.instances] == [(b"old",)]
        for name in names:
            cluster.wipe(name)
            await cluster.start(name)
        await cluster.ready(60)
        publication.republish("new")
        provider.publish("a", "second")
        await provider.flush()
        expected_data = {(b"new",), (b"second",)}
        await cluster.until(lambda: {i.data for i in subscription.instances} == expected_data, "both are seen", 10)
        assert subscription.version < version
        assert (watch.value, watch.version) == (b"2", 0)
        await put_config(*operator, "limit", b"again")
        await cluster.until(lambda: watch.value == b"again", "the value is seen", 10)
        assert (watch.version, seen) == (1, [b"2", b"again"])


@simulated
async def test_clients_of_a_session_server_that_was_cut_off_follow_the_cluster_that_counts_as_far_as_the_lost_one(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, meta=3, data=3, session=3) as cluster:
        provider, consumers = cluster.client(), [cluster.client() for _ in range(6)]
        views = [each.subscribe("a", scope=scope) for each in consumers for scope in Scope]
        publications = [provider.publish("a", bytes(3000)) for _ in range(200)]
        for number in range(400):
            publications[0].republish(b"%d" % number)
            await provider.flush()
        await cluster.until(lambda: all(having(view, b"399") == 1 for view in views), "all are seen", 60)
        versions = {view.version for view in views}
        alive = cluster.servers["session-2"]
        await all_but_one_start_anew(cluster, cut_off_from=METAS)
        await asyncio.sleep(40)
        cluster.network.heal()
        await cluster.ready(60)
        for publication in publications[:10]:
            publication.republish(b"new")
        await provider.flush()
        await cluster.until(lambda: all(having(view, b"new") == 10 for view in views), "the news are seen", 20)
        assert all(view.count == 200 for view in views)
        assert cluster.servers["session-2"] is alive
        assert max(view.version for view in views) < min(versions), "the numbers are lower ones"


def having(view: Subscription, data: bytes) -> int:
    return sum(instance.data == (data,) for instance in view.instances)


@simulated
async def test_configuration_orders_and_settings_that_are_given_again_count_after_the_meta_state_was_lost(
    rng: random.Random,
) -> None:
    async with SimulatedCluster(rng, meta=1, data=2, session=2) as cluster:
        client = cluster.client()
        cluster.process_clock("operator")
        operator = cluster.transport("operator"), "slotreeve", [cluster.address("meta-1")]
        lost, kept = client.watch_config("lost"), client.watch_config("kept")
        for number in range(5):
            await put_config(*operator, "kept", b"%d" % number)
        await put_config(*operator, "lost", b"1")
        await change_settings(*operator, lambda table: table.changed("session.linger_seconds", 9.0))
        await change_orders(*operator, lambda orders: msgspec.structs.replace(orders, push_stopped=True))
        sessions = [cluster.servers[name] for name in ("session-1", "session-2")]
        settings = [server.settings_in_force for server in sessions]
        await cluster.until(lambda: all(each.version == 1 for each in settings), "the settings are in force", 10)
        await asyncio.sleep(5)
        before = cluster.views()[0]
        cluster.kill("meta-1")
        cluster.wipe("meta-1")
        await cluster.start("meta-1")
        await cluster.until(lambda: cluster.views()[0].era != before.era, "the meta state is another one", 60)
        await put_config(*operator, "kept", b"again")
        await cluster.until(lambda: kept.value == b"again", "the client sees it", 10)
        assert lost.value == b"1"
        await put_config(*operator, "lost", None)
        await cluster.until(lambda: lost.value is None, "the client sees that it is deleted", 10)
        await cluster.until(lambda: all(each.version == 0 for each in settings), "there are no settings", 10)
        subscription = client.subscribe("a")
        client.publish("a", "x")
        await cluster.until(lambda: len(subscription.instances) == 1, "pushes are not stopped any more", 10)
