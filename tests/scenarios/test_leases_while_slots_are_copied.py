"""Leases while copies of their slots are made: whichever server dies, another complete copy leads (I16)."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve_client import Client, Lease
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.scenarios.test_leases import Views, slots_of, with_cluster


@pytest.mark.parametrize("victim", ["data-1", "data-2", "data-3"])
@pytest.mark.parametrize("late", [number / 40 for number in range(8)])
def test_a_leader_that_dies_while_slots_move_to_a_new_server_costs_no_lease(late: float, victim: str) -> None:
    """Copies take long here. Whatever moves, there are two complete ones of each slot."""

    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        names = {f"web-{number}" for number in range(100)}
        cluster.network.delay_seconds = lambda source, target: 0.02
        leases = [Lease(f"com.example.{name}", name, (b"1",), ttl_seconds=60) for name in names]
        await caller.leases.register_many(leases)
        await cluster.start("data-4")
        await cluster.until(lambda: any(len(v.data) == 4 for v in cluster.views()), "it has joined", 5)
        await asyncio.sleep(late)
        cluster.kill(victim)
        await cluster.ready()
        assert not (await caller.leases.renew_many({lease.service: [lease.lease_id] for lease in leases})).unknown

    with_cluster(body, 10)


@pytest.mark.parametrize("after", [1.0 + number / 8 for number in range(8)])
def test_a_leader_that_dies_while_a_server_that_came_back_copies_its_slots_costs_no_lease(after: float) -> None:
    """Both followers have lost the leader, and perhaps said so, when the meta leader looks for the next one."""

    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        leases = [Lease(f"com.example.web-{n}", f"web-{n}", (b"1",), ttl_seconds=60) for n in range(100)]
        await caller.leases.register_many(leases)
        cluster.kill("data-1")
        await cluster.ready()
        cluster.network.delay_seconds = lambda source, target: 2.0 if {source, target} == {"data-1", "data-2"} else 0.0
        await cluster.start("data-1")
        await cluster.until(lambda: slots_of(cluster, "data-1") > 0, "it follows", 5)
        await asyncio.sleep(after)
        cluster.kill("data-2")
        await cluster.ready()
        assert not (await caller.leases.renew_many({lease.service: [lease.lease_id] for lease in leases})).unknown

    with_cluster(body, 11, {"cluster.replicas": 3})


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("balancer", ["default", "even"])
def test_slots_that_move_to_a_new_server_take_their_leases_along(replicas: int, balancer: str) -> None:
    """With one copy of each slot, too: who shall lead copies first."""

    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        leases = [Lease(f"com.example.web-{n}", f"web-{n}", (b"1",), ttl_seconds=60) for n in range(100)]
        await caller.leases.register_many(leases)
        await cluster.start("data-4")
        await cluster.until(lambda: slots_of(cluster, "data-4") > 0, "slots move to it", 30)
        await cluster.ready()
        assert not (await caller.leases.renew_many({lease.service: [lease.lease_id] for lease in leases})).unknown

    with_cluster(body, 12, {"cluster.replicas": replicas, "balancer.use": balancer})


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_data_server_that_stops_for_good_hands_its_leases_on(replicas: int) -> None:
    async def body(cluster: SimulatedCluster, caller: Client, views: Views) -> None:
        leases = [Lease(f"com.example.web-{n}", f"web-{n}", (b"1",), ttl_seconds=60) for n in range(100)]
        await caller.leases.register_many(leases)
        await cluster.stop("data-1")
        await cluster.ready()
        assert not (await caller.leases.renew_many({lease.service: [lease.lease_id] for lease in leases})).unknown

    with_cluster(body, 13, {"cluster.replicas": replicas})
