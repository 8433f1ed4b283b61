"""Leases on a whole cluster: what keeps them, what ends them, and when (I16)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping

import pytest
from slotreeve.errors import RequestTimeout, SlotreeveError
from slotreeve.model.slots import Slot
from slotreeve_client import Client, Lease, Subscription
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.simulated_cluster import SimulatedCluster

SERVICE = "com.example.Leased"
TTL = 6.0
BOUND = 0.02 * TTL + 2.5
"""A lease that nobody renews ends so long after its time to live (docs/leases.md)."""
AFTER_A_CHANGE = BOUND + 3.1
"""The same after a change of the slot's leader."""

Body = Callable[[SimulatedCluster, Client, "Views"], Awaitable[None]]


class Views:
    """What one subscriber sees of the service, with the time of each change."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.gone_at: dict[str, float] = {}

    def changed(self, subscription: Subscription) -> None:
        seen = {instance.register_id.rpartition("-")[0] for instance in subscription.instances}
        for lease_id in self.seen - seen:
            self.gone_at[lease_id] = asyncio.get_running_loop().time()
        self.seen = seen


def with_cluster(body: Body, seed: int, settings: Mapping[str, object] | None = None) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, settings=settings) as cluster:
            caller, views = cluster.client(), Views()
            watched = cluster.client().subscribe(SERVICE, views.changed)
            await watched.ready()
            await body(cluster, caller, views)

    run(scenario, seed=seed)


def now() -> float:
    return asyncio.get_running_loop().time()


def slots_of(cluster: SimulatedCluster, name: str) -> int:
    """Number of slots that a server holds, by the newest table that any member has."""
    newest = max((view.table for view in cluster.views()), key=lambda table: table.epoch)
    return sum(name in (slot.leader, *slot.followers) for slot in newest.slots)


def slot_of_service(cluster: SimulatedCluster) -> Slot:
    """The row of its slot, as a session server has it."""
    core = next(cluster.session(name).core for name in cluster.servers if name.startswith("session"))
    return core.routes.slots[core.registrations.slot(f"{SERVICE}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP")]


def slot_row(cluster: SimulatedCluster) -> tuple[str, str]:
    """Leader and follower of the slot of the service."""
    row = slot_of_service(cluster)
    assert row.leader is not None
    return row.leader, row.followers[0] if row.followers else ""


async def keep(client: Client, lease_ids: list[str], seconds: float, every: float = TTL / 3) -> float:
    """Renew for some time, whatever fails, and return when the last renewal was acknowledged was sent."""
    end, last = now() + seconds, 0.0
    while now() < end:
        sent = now()
        try:
            if not await client.leases.renew(SERVICE, *lease_ids):
                last = sent
        except SlotreeveError:
            continue
        await asyncio.sleep(every)
    return last


def test_a_lease_is_seen_at_once_and_ends_within_the_bound_once_nobody_renews_it() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        await caller.leases.register(SERVICE, "web-1", "10.0.0.1:80", ttl_seconds=TTL)
        await cluster.until(lambda: views.seen == {"web-1"}, "it is seen", 0.5)
        last = await keep(caller, ["web-1"], 3 * TTL)
        assert not views.gone_at
        await cluster.until(lambda: not views.seen, "it has ended", TTL + BOUND)
        assert TTL <= views.gone_at["web-1"] - last <= TTL + BOUND
        assert await caller.leases.renew(SERVICE, "web-1") == {"web-1"}

    with_cluster(body, 1)


def test_a_follower_that_was_frozen_for_a_moment_stops_no_leases_while_the_table_is_protected() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, data=4, settings={"meta.protect_below": 4}) as cluster:
            caller = cluster.client()
            await caller.leases.register(SERVICE, "web-1", "1", ttl_seconds=600.0)
            leader, follower = slot_row(cluster)
            cluster.kill(next(name for name in cluster.servers if "data" in name and name not in (leader, follower)))
            await asyncio.sleep(10.0)
            cluster.freeze(follower)
            stored = asyncio.create_task(caller.leases.register(SERVICE, "web-2", "1", ttl_seconds=600.0))
            await asyncio.sleep(3.0)
            cluster.thaw(follower)
            await asyncio.wait([stored], timeout=10.0)
            assert slot_row(cluster) == (leader, follower), "the table is protected"
            await caller.leases.register(SERVICE, "web-3", "1", ttl_seconds=600.0)
            assert await caller.leases.renew(SERVICE, "web-1", "web-3") == set()

    run(scenario, seed=1)


def test_it_ends_at_once_when_it_is_deregistered_and_comes_back_when_it_is_registered_again() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        for _ in range(3):
            await caller.leases.register(SERVICE, "web-1", "1", ttl_seconds=TTL)
            await caller.leases.register(SERVICE, "web-1", "2", ttl_seconds=TTL)
            await cluster.until(lambda: views.seen == {"web-1"}, "it is seen", 0.5)
            assert [i.data for i in await caller.get(SERVICE)] == [(b"2",)]
            assert await caller.leases.deregister(SERVICE, "web-1")
            await cluster.until(lambda: not views.seen, "it has ended", 0.5)
            assert not await caller.leases.deregister(SERVICE, "web-1")

    with_cluster(body, 2)


def test_a_shorter_time_to_live_counts_from_the_moment_of_its_registration() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        await caller.leases.register(SERVICE, "web-1", "1", ttl_seconds=3600)
        registered = now()
        await caller.leases.register(SERVICE, "web-1", "1", ttl_seconds=1)
        await cluster.until(lambda: "web-1" in views.gone_at, "it has ended")
        assert 1 <= views.gone_at["web-1"] - registered <= 1 + BOUND

    with_cluster(body, 3)


def kill_in_the_middle(kill: Callable[[SimulatedCluster, Client], list[str]], seed: int) -> None:
    """Somebody renews, servers die, he goes on, and then stops: nothing ends early, and nothing stays."""

    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        lease_ids = [f"web-{n}" for n in range(5)]
        await caller.leases.register_many([Lease(SERVICE, lease_id, ("x",), TTL) for lease_id in lease_ids])
        await keep(caller, lease_ids, TTL)
        silent_since = now()
        await asyncio.sleep(TTL - 1.5)
        for name in kill(cluster, caller):
            cluster.kill(name)
        last = max(await keep(caller, lease_ids, 2 * TTL), silent_since)
        assert not views.gone_at
        await cluster.until(lambda: len(views.gone_at) == 5, "all have ended", TTL + AFTER_A_CHANGE)
        assert all(at - last >= TTL for at in views.gone_at.values())

    with_cluster(body, seed)


def test_no_lease_ends_early_when_the_slot_leader_is_killed() -> None:
    kill_in_the_middle(lambda cluster, caller: [slot_row(cluster)[0]], 4)


def test_no_lease_ends_early_when_the_callers_session_server_is_killed() -> None:
    def the_session(cluster: SimulatedCluster, caller: Client) -> list[str]:
        return [name for name in cluster.names if cluster.address(name) == caller.server]

    kill_in_the_middle(the_session, 5)


def test_no_lease_ends_early_when_the_meta_leader_is_killed() -> None:
    kill_in_the_middle(lambda cluster, caller: [cluster.leader or ""], 6)


def test_no_lease_ends_early_when_slot_leader_and_session_server_are_killed_at_once() -> None:
    def both(cluster: SimulatedCluster, caller: Client) -> list[str]:
        return [slot_row(cluster)[0], *(n for n in cluster.names if cluster.address(n) == caller.server)]

    kill_in_the_middle(both, 7)


def test_what_was_acknowledged_in_the_very_moment_in_which_the_leader_dies_is_at_the_next_leader() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        for number in range(4):
            await caller.leases.register(SERVICE, f"web-{number}", "x", ttl_seconds=TTL)
            cluster.kill(slot_row(cluster)[0])
            assert not await caller.leases.renew(SERVICE, f"web-{number}")
            await cluster.start(next(n for n in cluster.names if n not in cluster.servers))
            await cluster.ready()

    with_cluster(body, 8)


def test_a_new_leader_grants_the_whole_time_to_live_anew_and_no_more_than_the_bound() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        await caller.leases.register(SERVICE, "web-1", "x", ttl_seconds=TTL)
        await asyncio.sleep(TTL - 1)
        cluster.kill(slot_row(cluster)[0])
        killed = now()
        await cluster.until(lambda: "web-1" in views.gone_at, "it has ended", TTL + AFTER_A_CHANGE + 1)
        assert views.gone_at["web-1"] - killed >= TTL

    with_cluster(body, 9)


def test_no_lease_ends_while_the_balancer_moves_its_slot() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        await caller.leases.register(SERVICE, "web-1", "x", ttl_seconds=TTL)
        leader = slot_row(cluster)[0]
        renewing = asyncio.get_running_loop().create_task(keep(caller, ["web-1"], 60))
        leaders = {leader}
        for number in range(4, 8):
            await cluster.start(f"data-{number}")
            await cluster.ready()
            await asyncio.sleep(3)
            leaders.add(slot_row(cluster)[0])
        for name in ("data-1", "data-2", "data-3"):
            await cluster.stop(name)
            leaders.add(slot_row(cluster)[0])
        await renewing
        assert len(leaders) > 1
        assert not views.gone_at
        assert views.seen == {"web-1"}

    with_cluster(body, 10)


def test_a_frozen_leader_that_comes_back_ends_nothing_that_its_successor_keeps() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        await caller.leases.register(SERVICE, "web-1", "x", ttl_seconds=TTL)
        leader = slot_row(cluster)[0]
        cluster.freeze(leader)
        await keep(caller, ["web-1"], 3 * TTL)
        cluster.thaw(leader)
        await keep(caller, ["web-1"], 2 * TTL)
        assert not views.gone_at
        assert slot_row(cluster)[0] != leader or cluster.data(leader).core.endings.rounds.expired == 0

    with_cluster(body, 11)


def test_nothing_ends_and_nothing_is_acknowledged_while_no_meta_server_lives() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        await caller.leases.register(SERVICE, "web-1", "x", ttl_seconds=TTL)
        metas = [name for name in cluster.names if name.startswith("meta")]
        for name in metas:
            cluster.kill(name)
        await asyncio.sleep(2 * TTL)
        assert not views.gone_at
        with pytest.raises(RequestTimeout, match="is not sure to lead"):
            await caller.leases.renew(SERVICE, "web-1")
        for name in metas:
            await cluster.start(name)
        await cluster.until(lambda: "web-1" in views.gone_at, "it has ended", 30)

    with_cluster(body, 12)


def test_a_follower_never_ends_a_lease() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        await caller.leases.register(SERVICE, "web-1", "x", ttl_seconds=TTL)
        await keep(caller, ["web-1"], 4 * TTL)
        leader, follower = slot_row(cluster)
        assert cluster.data(follower).core.endings.count == 0
        assert cluster.data(follower).core.endings.rounds.expired == 0
        assert cluster.data(follower).core.counters()["follower_repairs"] == 0
        assert cluster.data(leader).core.endings.count == 1

    with_cluster(body, 13)


def test_the_registrations_of_clients_and_leases_do_not_disturb_each_other() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        provider = cluster.client()
        publication = provider.publish(SERVICE, "own")
        await publication.acknowledged()
        await caller.leases.register(SERVICE, "web-1", "leased", ttl_seconds=TTL)
        await keep(caller, ["web-1"], TTL)
        cluster.kill("session-1")
        await keep(caller, ["web-1"], 2 * TTL)
        cluster.kill(slot_row(cluster)[0])
        await keep(caller, ["web-1"], 2 * TTL)
        assert {i.data for i in await caller.get(SERVICE)} == {(b"own",), (b"leased",)}
        await provider.close()
        await cluster.until(lambda: views.seen == {"web-1"}, "the client's own is gone", 10)
        assert "web-1" not in views.gone_at
        await caller.close()
        await cluster.until(lambda: not views.seen, "the lease is gone too", 20)

    with_cluster(body, 14)


def test_where_most_leases_would_end_they_are_held_back_for_a_bounded_time() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        many = [f"web-{n}" for n in range(80)]
        await caller.leases.register_many([Lease(SERVICE, lease_id, ("x",), TTL) for lease_id in many])
        last = await keep(caller, many, TTL)
        await asyncio.sleep(2 * TTL)
        leader = cluster.data(slot_row(cluster)[0])
        assert not views.gone_at
        assert leader.core.endings.counters()["leases_held"] == 80
        assert leader.counters()["leases_held"] == 80
        await cluster.until(lambda: len(views.gone_at) == 80, "all have ended", 30)
        assert min(views.gone_at.values()) >= last + TTL + 20
        assert max(views.gone_at.values()) <= last + TTL + 20 + BOUND
        assert leader.counters()["leases_overdue"] == 80
        assert leader.counters()["leases_held"] == 0

    with_cluster(body, 15, {"data.brake_hold_seconds": 20})


def test_those_that_are_renewed_again_while_they_are_held_back_live_on() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        many = [f"web-{n}" for n in range(80)]
        await caller.leases.register_many([Lease(SERVICE, lease_id, ("x",), TTL) for lease_id in many])
        await asyncio.sleep(2 * TTL)
        assert not views.gone_at
        await keep(caller, many[:75], 3 * TTL)
        assert views.seen == set(many[:75])

    with_cluster(body, 16)


@pytest.mark.parametrize("count", [3, 80])
def test_a_lease_whose_caller_goes_on_lives_on_over_a_time_in_which_no_meta_server_leads(count: int) -> None:
    """Nobody can renew meanwhile, and renewals come back a little later than the meta leader."""

    ttl = 30.0

    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        ids = [f"web-{n}" for n in range(count)]
        await caller.leases.register_many([Lease(SERVICE, lease_id, ("x",), ttl) for lease_id in ids])

        async def renew() -> None:
            for _ in range(15):
                await asyncio.sleep(ttl / 3)
                with contextlib.suppress(SlotreeveError):
                    await caller.leases.renew(SERVICE, *ids[1:])

        keeping = asyncio.get_running_loop().create_task(renew())
        await asyncio.sleep(ttl / 2)
        metas = [name for name in cluster.servers if name.startswith("meta")]
        for name in metas:
            cluster.freeze(name)
        await asyncio.sleep(2 * ttl)
        assert views.seen == set(ids)
        for name in metas:
            cluster.thaw(name)
        await keeping
        assert set(views.gone_at) == {ids[0]}
        assert views.seen == set(ids[1:])

    with_cluster(body, 30, {"data.brake_hold_seconds": 5})


def test_nothing_is_acknowledged_before_the_followers_have_it() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        await caller.leases.register(SERVICE, "web-1", "x", ttl_seconds=60)
        leader, follower = slot_row(cluster)
        cluster.freeze(follower)
        registering = asyncio.get_running_loop().create_task(caller.leases.register(SERVICE, "web-2", "x"))
        ending = asyncio.get_running_loop().create_task(caller.leases.deregister(SERVICE, "web-1"))
        await asyncio.sleep(1.4)
        assert not registering.done()
        assert not ending.done()
        cluster.thaw(follower)
        await asyncio.gather(registering, ending)
        cluster.kill(leader)
        assert await caller.leases.renew(SERVICE, "web-1", "web-2") == {"web-1"}

    with_cluster(body, 17)


def test_a_follower_that_stalls_delays_leases_for_a_moment_only_and_follows_again_once_it_has_them() -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        await caller.leases.register(SERVICE, "web-1", "x", ttl_seconds=60)
        leader, follower = slot_row(cluster)
        cluster.freeze(follower)
        began = asyncio.get_running_loop().time()
        await caller.leases.register(SERVICE, "web-2", "x", ttl_seconds=60)
        assert 1.5 <= asyncio.get_running_loop().time() - began < 3.0
        assert follower not in slot_of_service(cluster).in_sync, "it was taken out before the lease was acknowledged"
        await caller.leases.register(SERVICE, "web-3", "x", ttl_seconds=60)
        assert asyncio.get_running_loop().time() - began < 4.0
        cluster.thaw(follower)
        await cluster.until(lambda: follower in slot_of_service(cluster).in_sync, "it has caught up", 10)
        cluster.kill(leader)
        assert await caller.leases.renew(SERVICE, "web-1", "web-2", "web-3") == set()

    with_cluster(body, 17)


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_leader_that_is_cut_off_together_with_a_caller_acknowledges_nothing_that_its_successor_ends(
    is_noticed: bool,
) -> None:
    """``is_noticed``: the connections end at once, so that a successor leads while the former leader still may."""

    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        leader = slot_row(cluster)[0]
        inside = cluster.client("session-1", name="inside")
        await inside.leases.register(SERVICE, "web-1", "x", ttl_seconds=TTL)
        outside, seen = cluster.client("session-2", name="outside"), Views()
        await outside.subscribe(SERVICE, seen.changed).ready()
        minority = {leader, "session-1", "inside"}
        others = [name for name in (*cluster.names, "outside", "client-1", "client-2") if name not in minority]
        cluster.network.partition(minority, others)
        for name in others if is_noticed else ():
            cluster.network.cut(leader, name)
        last = await keep(inside, ["web-1"], 25.0, every=0.2)
        assert last > 0
        await cluster.until(lambda: "web-1" in seen.gone_at, "it has ended", 30)
        assert seen.gone_at["web-1"] - last >= TTL
        assert await outside.get(SERVICE) == ()
        cluster.network.heal()
        await cluster.ready()

    with_cluster(body, 18)


@pytest.mark.parametrize(("seconds", "resigns"), [(3.0, False), (9.0, False), (12.0, True), (40.0, True)])
def test_a_meta_leader_that_no_other_server_reaches_costs_no_lease_and_moves_no_slot_and_resigns_in_time(
    seconds: float, resigns: bool
) -> None:
    """The other meta servers still follow it, so that it would go on to lead."""

    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        await caller.leases.register(SERVICE, "web-1", "1", ttl_seconds=TTL)
        await cluster.until(lambda: views.seen == {"web-1"}, "it is seen", 0.5)
        renewing = asyncio.create_task(keep(caller, ["web-1"], seconds + 4 * TTL))
        leader, table = cluster.leader, cluster.views()[0].table
        assert leader is not None
        others = [name for name in cluster.servers if not name.startswith("meta")]
        cluster.network.partition([leader], others)
        await asyncio.sleep(seconds)
        assert (cluster.leader != leader) == resigns
        if resigns:  # whoever leads now replaces a server that dies
            cluster.kill("data-1")
            await cluster.until(lambda: slots_of(cluster, "data-1") == 0, "its slots are given to others", 5)
            await cluster.start("data-1")
            await cluster.until(lambda: slots_of(cluster, "data-1") > 0, "it has slots again", 5)
        cluster.network.heal()
        await asyncio.sleep(10)
        assert resigns or [view.table for view in cluster.views()] == [table] * len(others)
        assert await renewing
        assert not views.gone_at

    with_cluster(body, 9)
