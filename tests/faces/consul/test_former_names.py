"""What waits to be looked for under its former name waits on where the registry has not answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from slotreeve_client import Instance
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.faces.gateway_on_trial import GatewayOnTrial, Trial, play

CHECK = {"TTL": "300s", "Status": "passing"}


def leaders_of(cluster: SimulatedCluster, service: str) -> set[str]:
    """Of its slot, and of that of its stand-ins."""
    found = set[str]()
    for name in [node.name for node in cluster.views()[0].data]:
        for slot in cluster.data(name).core.slots.led():
            if any(known.startswith(f"{service}#") for known in slot.store.services):
                found.add(name)
    return found


def test_a_former_name_ends_although_the_leader_of_its_slot_does_not_answer_for_a_while() -> None:
    async def scenario(trial: Trial) -> None:
        cluster = trial.cluster
        first, second = await trial.gateway(), await trial.gateway()
        services = [f"service-{number}" for number in range(8)]
        for service in services:
            await first.register(service, f"{service}-1", Check=CHECK)
        await asyncio.sleep(1.5)
        assert len((await second.get("/v1/catalog/services")).json) == len(services), "it knows the services by now"
        old, cut_off = services[0], min(leaders_of(cluster, services[0]))
        new = next(service for service in services if cut_off not in leaders_of(cluster, service))
        cluster.network.partition([session.name for session in cluster.views()[0].sessions], [cut_off])
        await second.register(new, f"{old}-1", Check=CHECK)
        await asyncio.sleep(10)
        cluster.network.heal()
        for _ in range(300):
            if f"{old}-1" not in await second.statuses(old):
                break
            await asyncio.sleep(0.1)
        assert (await second.statuses(old), set(await second.statuses(new))) == ({}, {f"{old}-1", f"{new}-1"})

    play(scenario)


async def register_again(here: GatewayOnTrial, there: GatewayOnTrial, new: str) -> None:
    await here.register(new, "web-1", Check=CHECK)


async def register_elsewhere(here: GatewayOnTrial, there: GatewayOnTrial, new: str) -> None:
    await there.register(new, "web-1", Check=CHECK)


async def deregister_and_register(here: GatewayOnTrial, there: GatewayOnTrial, new: str) -> None:
    assert (await here.put("/v1/agent/service/deregister/web-1")).status == 200
    await there.register(new, "web-1", Check=CHECK)


@pytest.mark.parametrize("registered_as", [register_again, register_elsewhere, deregister_and_register])
def test_a_search_that_had_to_wait_ends_nothing_that_was_registered_after_it_began(
    registered_as: Callable[[GatewayOnTrial, GatewayOnTrial, str], Awaitable[None]],
) -> None:
    async def scenario(trial: Trial) -> None:
        cluster = trial.cluster
        here, there = await trial.gateway(), await trial.gateway()
        services = [f"service-{number}" for number in range(16)]
        for service in services:
            await there.register(service, f"{service}-1", Check=CHECK)
        await asyncio.sleep(1.5)
        for gateway in (here, there):
            await gateway.get("/v1/catalog/services")
        cut_off = min(leaders_of(cluster, services[0]))
        old, new = [service for service in services if cut_off not in leaders_of(cluster, service)][:2]
        cluster.network.partition([session.name for session in cluster.views()[0].sessions], [cut_off])
        await here.register(old, "web-1", Check=CHECK)
        await asyncio.sleep(1)
        await registered_as(here, there, new)
        await asyncio.sleep(7)
        cluster.network.heal()
        await asyncio.sleep(15)
        where = [service for service in services if "web-1" in await here.statuses(service)]
        assert where in ([new], [old]) if registered_as is register_elsewhere else where == [new]
        assert (await there.put("/v1/agent/check/pass/service:web-1")).status == 200

    play(scenario)


def test_what_was_not_registered_by_clients_of_consul_is_no_former_name() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        for service in ("api", "admin"):
            await gateway.registry.register(service, Instance("10.0.0.1", 80), 600)
        await asyncio.sleep(2)
        await gateway.register("metrics", "10.0.0.1:80")
        await asyncio.sleep(5)
        for service in ("api", "admin", "metrics"):
            assert set(await gateway.statuses(service)) == {"10.0.0.1:80"}

    play(scenario)
